//! The first bytes of a connection: whose it is, if a proxy tells, and which HTTP is spoken on it.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tidegate_tower::Peer;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::proxy_protocol::{self, Start};

/// What an HTTP/2 client says first when it knows that the server speaks it (RFC 9113, 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the first bytes say.
#[derive(Debug)]
pub(super) struct Opening {
    /// Whose connection it is.
    pub(super) peer: Peer,
    /// What was read of the client's own bytes.
    pub(super) first: Bytes,
    pub(super) is_http2: bool,
}

impl Opening {
    /// Reads as little as tells; `is_told` if a PROXY protocol header from this peer is believed.
    pub(super) async fn read(
        socket: &mut (impl AsyncRead + Unpin),
        peer: Peer,
        is_told: bool,
    ) -> io::Result<Self> {
        let mut first = BytesMut::with_capacity(HTTP2_PREFACE.len());
        let mut told = peer;
        if is_told {
            told = Peer(source(socket, &mut first).await?.unwrap_or(peer.0));
        }
        let is_http2 = sniff(socket, &mut first).await?;
        Ok(Self {
            peer: told,
            first: first.freeze(),
            is_http2,
        })
    }
}

/// Reads a PROXY protocol header, if there is one, and takes it from what was read.
async fn source(
    socket: &mut (impl AsyncRead + Unpin),
    first: &mut BytesMut,
) -> io::Result<Option<std::net::SocketAddr>> {
    loop {
        match proxy_protocol::parse(first) {
            // Its bounds are the parser's: what is incomplete is short.
            Start::Incomplete => more(socket, first, usize::MAX).await?,
            Start::Absent => return Ok(None),
            Start::Header { source, length } => {
                first.advance(length);
                return Ok(source);
            }
            Start::Malformed => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Reads until the first bytes tell HTTP/2 from HTTP/1, and says whether it is HTTP/2.
async fn sniff(socket: &mut (impl AsyncRead + Unpin), first: &mut BytesMut) -> io::Result<bool> {
    loop {
        let length = first.len().min(HTTP2_PREFACE.len());
        if first[..length] != HTTP2_PREFACE[..length] {
            return Ok(false);
        }
        if length == HTTP2_PREFACE.len() {
            return Ok(true);
        }
        more(socket, first, HTTP2_PREFACE.len() - length).await?;
    }
}

async fn more(
    socket: &mut (impl AsyncRead + Unpin),
    first: &mut BytesMut,
    most: usize,
) -> io::Result<()> {
    first.reserve(most.min(512));
    if socket.take(most as u64).read_buf(first).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

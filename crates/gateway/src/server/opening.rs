//! How a connection begins: whose it is, if a proxy tells, whether TLS protects it, and which HTTP is spoken on it.
//!
//! All of it is part of the first request's head, and has to be there before that head's deadline.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Buf as _, Bytes, BytesMut};
use tidegate_tower::{Peer, TrustedProxies};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::client_io::ClientIo;
use super::places::{Bounds, Place, Places};
use super::stream::ClientStream;
use tidegate_net::proxy_protocol::{self, Start};
use tidegate_net::tls::{self, HandshakeFailure, ServerTls};

/// What an HTTP/2 client says first when it knows that the server speaks it (RFC 9113, 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Handshakes of one address that are not ended: more than a browser makes, or a company behind one address at a time.
const MAX_HANDSHAKES: usize = 256;

/// A connection on which the first request may come.
pub(super) struct Opening {
    /// Whose connection it is.
    pub(super) peer: Peer,
    pub(super) stream: ClientIo,
    pub(super) is_http2: bool,
    /// When the certificate ends that the client showed; none if it showed none.
    pub(super) certificate_ends: Option<SystemTime>,
}

/// The bound on handshakes that one address has begun and not ended. Each costs a signature or waits for its client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshakes<'a> {
    pub(super) begun: &'a Arc<Places>,
    /// Who speaks for many, and is not bound.
    pub(super) trusted: &'a TrustedProxies,
}

impl Handshakes<'_> {
    /// One more, until what this returns is dropped.
    fn begin(self, peer: Peer) -> Result<Place, Unopened> {
        let ip = peer.address.ip();
        let bounds = Bounds {
            most: usize::MAX,
            of_ip: Some((ip, MAX_HANDSHAKES)).filter(|_| !self.trusted.contains(ip)),
        };
        let place = self.begun.take(bounds);
        place.map_err(|_| Unopened::Handshake(HandshakeFailure::TooMany))
    }
}

/// Why a connection ended before it began.
pub(super) enum Unopened {
    /// The client left, or is not to be understood.
    Gone,
    /// Client and listener did not come to terms.
    Handshake(HandshakeFailure),
}

impl From<io::Error> for Unopened {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl Opening {
    /// Reads as little as tells; `is_told` if a PROXY protocol header from this peer is believed.
    pub(super) async fn read(
        mut stream: ClientStream,
        mut peer: Peer,
        is_told: bool,
        tls: Option<&ServerTls>,
        handshakes: Handshakes<'_>,
    ) -> Result<Self, Unopened> {
        if is_told {
            let (source, first) = source(&mut stream).await?;
            peer = source.map_or(peer, Peer::named);
            stream.put_back(first);
        }
        let mut certificate_ends = None;
        let (stream, is_http2) = match tls {
            None => {
                let (first, is_http2) = sniff(&mut stream).await?;
                stream.put_back(first);
                (ClientIo::plain(stream), is_http2)
            }
            Some(tls) => {
                let _handshake = handshakes.begin(peer)?;
                let stream = tls.acceptor().accept(stream).await;
                let stream =
                    stream.map_err(|error| Unopened::Handshake(tls::handshake_failure(&error)))?;
                let (_, connection) = stream.get_ref();
                let is_http2 = tls::is_http2(connection);
                certificate_ends = tls::client_certificate_ends(connection);
                (ClientIo::tls(stream), is_http2)
            }
        };
        Ok(Self {
            peer,
            stream,
            is_http2,
            certificate_ends,
        })
    }
}

/// Reads a PROXY protocol header, if there is one; gives what was read beyond it.
async fn source(
    socket: &mut (impl AsyncRead + Unpin),
) -> io::Result<(Option<std::net::SocketAddr>, Bytes)> {
    let mut first = BytesMut::new();
    loop {
        match proxy_protocol::parse(&first) {
            // Its bounds are the parser's: what is incomplete is short.
            Start::Incomplete => more(socket, &mut first, usize::MAX).await?,
            Start::Absent => return Ok((None, first.freeze())),
            Start::Header { source, length } => {
                first.advance(length);
                return Ok((source, first.freeze()));
            }
            Start::Malformed => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Reads until the first bytes tell HTTP/2 from HTTP/1; gives them, and whether it is HTTP/2.
async fn sniff(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<(Bytes, bool)> {
    let mut first = BytesMut::with_capacity(HTTP2_PREFACE.len());
    loop {
        let length = first.len().min(HTTP2_PREFACE.len());
        if first[..length] != HTTP2_PREFACE[..length] {
            return Ok((first.freeze(), false));
        }
        if length == HTTP2_PREFACE.len() {
            return Ok((first.freeze(), true));
        }
        more(socket, &mut first, HTTP2_PREFACE.len() - length).await?;
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

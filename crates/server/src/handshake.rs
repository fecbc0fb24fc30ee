//! The beginning of a connection: a PROXY protocol header, the TLS handshake, and the first bytes, which show whether the client speaks
//! HTTP/2 or HTTP/1.
//!
//! The header timeout covers the time from the accept to the end of the first request's head, with all of these bytes.

use std::io;
use std::net::SocketAddr;

use bytes::{Buf as _, Bytes, BytesMut};
use tidegate_net::peer::Peer;
use tidegate_net::proxy_protocol::{self, Start};
use tidegate_net::tls::{self, ClientCertificate, HandshakeFailure, ServerTls};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::client_io::{ClientIo, Transport};
use crate::client_stream::ClientStream;
use crate::connection_limit::ConnectionPermit;
use crate::untrusted::{ProxyHeader, UntrustedProxies};

/// The first bytes of an HTTP/2 client that uses HTTP/2 without negotiation (RFC 9113, 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection on which the first request may begin.
pub(crate) struct Handshake {
    pub(crate) peer: Peer,
    pub(crate) stream: ClientIo,
    pub(crate) is_http2: bool,
    /// The client's certificate; `None` if the client presented none.
    pub(crate) certificate: Option<ClientCertificate>,
}

/// The reason why a connection ended before its first request.
pub(crate) enum HandshakeError {
    /// The client left, or its first bytes cannot be read.
    Gone,
    /// The client that a PROXY protocol header names is denied.
    Denied,
    /// The TLS handshake failed.
    Failed(HandshakeFailure),
}

impl From<io::Error> for HandshakeError {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl Handshake {
    /// Reads the beginning of a connection. If `expects_header` is true, the client in a PROXY protocol header replaces the peer. Otherwise
    /// a peer that sends such a header is added to `untrusted`. The function `begin` returns the permit for the TLS handshake.
    pub(crate) async fn read(
        mut stream: ClientStream,
        mut peer: Peer,
        expects_header: bool,
        tls: Option<&ServerTls>,
        begin: impl FnOnce(Peer) -> Result<ConnectionPermit, HandshakeError>,
        untrusted: &UntrustedProxies,
    ) -> Result<Self, HandshakeError> {
        if expects_header {
            let (source, first) = source(&mut stream).await?;
            peer = source.map_or(peer, Peer::named);
            stream.put_back(first);
        }
        let look = |first: &[u8]| {
            if !expects_header && proxy_protocol::is_header(first) {
                untrusted.add(peer.address.ip(), ProxyHeader::ProxyProtocol);
            }
        };
        let mut certificate = None;
        let (transport, is_http2) = match tls {
            None => {
                let (first, is_http2) = sniff(&mut stream).await?;
                look(&first);
                stream.put_back(first);
                (Transport::Plain(stream), is_http2)
            }
            Some(tls) => {
                let _permit = begin(peer)?;
                if !expects_header {
                    // Peeks, because the error of a failed handshake does not contain the bytes that the client sent.
                    let mut first = [0; 16];
                    if let Ok(length) = stream.socket.peek(&mut first).await {
                        look(&first[..length]);
                    }
                }
                let stream = tls.acceptor().accept(stream).await;
                let stream = stream
                    .map_err(|error| HandshakeError::Failed(tls::handshake_failure(&error)))?;
                let (_, connection) = stream.get_ref();
                let is_http2 = tls::is_http2(connection);
                certificate = ClientCertificate::of(connection);
                (Transport::Tls(Box::new(stream)), is_http2)
            }
        };
        Ok(Self {
            peer,
            stream: ClientIo::new(transport),
            is_http2,
            certificate,
        })
    }
}

/// Reads a PROXY protocol header, if there is one. Returns the bytes that were read after it.
async fn source(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<(Option<SocketAddr>, Bytes)> {
    let mut first = BytesMut::new();
    loop {
        match proxy_protocol::parse(&first) {
            // The parser accepts only short headers, so this loop is bounded.
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

/// Reads until the first bytes show HTTP/2 or HTTP/1. Returns the bytes, and whether they show HTTP/2.
async fn sniff(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<(Bytes, bool)> {
    let mut first = BytesMut::with_capacity(HTTP2_PREFACE.len());
    loop {
        let length = first.len().min(HTTP2_PREFACE.len());
        let is_http2 = first[..length] == HTTP2_PREFACE[..length];
        if !is_http2 || length == HTTP2_PREFACE.len() {
            return Ok((first.freeze(), is_http2));
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

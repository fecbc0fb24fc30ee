//! How a connection begins: a PROXY protocol header, the TLS handshake, and the first bytes, which tell HTTP/2 from HTTP/1.
//!
//! All of it is part of the first request's head, and must come before that head's deadline.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use tidegate_net::peer::Peer;
use tidegate_net::proxy_protocol::{self, Start};
use tidegate_net::tls::{self, ClientCertificate, HandshakeFailure, ServerTls};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::client_io::ClientIo;
use crate::client_stream::ClientStream;
use crate::connection_limit::{Bounds, ConnectionLimit, ConnectionPermit};
use crate::untrusted::{ProxyHeader, UntrustedProxies};

/// What an HTTP/2 client sends first if it knows that the server speaks HTTP/2 (RFC 9113, 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How many handshakes one address may have open: more than a browser has, or a company behind one address.
const MAX_HANDSHAKES: usize = 256;

/// A connection on which the first request may come.
pub(crate) struct Handshake {
    pub(crate) peer: Peer,
    pub(crate) stream: ClientIo,
    pub(crate) is_http2: bool,
    /// The client's certificate; none: it showed none.
    pub(crate) certificate: Option<ClientCertificate>,
}

/// Bounds the open handshakes of one address. Each costs a signature, or waits for its client.
pub(crate) struct HandshakeLimit<'a, F, D> {
    pub(crate) begun: &'a Arc<ConnectionLimit>,
    /// Proxies speak for many clients, and are not bounded.
    pub(crate) is_proxy: F,
    /// Clients that are denied get no handshake.
    pub(crate) is_denied: D,
}

impl<F: Fn(IpAddr) -> bool, D: Fn(IpAddr) -> bool> HandshakeLimit<'_, F, D> {
    /// A permit for one handshake.
    fn begin(self, peer: Peer) -> Result<ConnectionPermit, HandshakeError> {
        let ip = peer.address.ip();
        // The connection's own address was looked at when it was accepted.
        if peer.is_named && (self.is_denied)(ip) {
            return Err(HandshakeError::Denied);
        }
        let bounds = Bounds {
            total: usize::MAX,
            of_ip: Some((ip, MAX_HANDSHAKES)).filter(|_| !(self.is_proxy)(ip)),
        };
        let permit = self.begun.take(bounds);
        permit.map_err(|_| HandshakeError::Failed(HandshakeFailure::TooMany))
    }
}

/// Why a connection ended before its first request.
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
    /// Reads as few bytes as it takes. If `expects_header`, a PROXY protocol header from this peer is believed. Otherwise the peer is
    /// added to `untrusted` if it sends one.
    pub(crate) async fn read(
        mut stream: ClientStream,
        mut peer: Peer,
        expects_header: bool,
        tls: Option<&ServerTls>,
        limit: HandshakeLimit<'_, impl Fn(IpAddr) -> bool, impl Fn(IpAddr) -> bool>,
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
        let (stream, is_http2) = match tls {
            None => {
                let (first, is_http2) = sniff(&mut stream).await?;
                look(&first);
                stream.put_back(first);
                (ClientIo::plain(stream), is_http2)
            }
            Some(tls) => {
                let _permit = limit.begin(peer)?;
                if !expects_header {
                    // The error of TLS does not hold the bytes that came in its place.
                    let mut first = [0; 16];
                    if let Ok(length) = stream.socket().peek(&mut first).await {
                        look(&first[..length]);
                    }
                }
                let stream = tls.acceptor().accept(stream).await;
                let stream = stream
                    .map_err(|error| HandshakeError::Failed(tls::handshake_failure(&error)))?;
                let (_, connection) = stream.get_ref();
                let is_http2 = tls::is_http2(connection);
                certificate = ClientCertificate::of(connection);
                (ClientIo::tls(stream), is_http2)
            }
        };
        Ok(Self {
            peer,
            stream,
            is_http2,
            certificate,
        })
    }
}

/// Reads a PROXY protocol header, if there is one. Returns the bytes that were read beyond it.
async fn source(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<(Option<SocketAddr>, Bytes)> {
    let mut first = BytesMut::new();
    loop {
        match proxy_protocol::parse(&first) {
            // The parser bounds it: an incomplete header is short.
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

/// Reads until the first bytes tell HTTP/2 from HTTP/1. Returns them, and whether it is HTTP/2.
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

//! The bytes of a client's connection, with TLS or without.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::client_stream::{ClientStream, put_before, read_first};

/// A connection after its handshake.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(ClientStream),
    Tls(Box<Protected>),
}

/// A connection under TLS.
#[derive(Debug)]
pub(super) struct Protected {
    // To be read before all others.
    first: Bytes,
    tls: TlsStream<ClientStream>,
}

impl Transport {
    /// A connection under TLS.
    pub(super) fn tls(tls: TlsStream<ClientStream>) -> Self {
        let first = Bytes::new();
        Self::Tls(Box::new(Protected { first, tls }))
    }

    /// The socket below.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream.socket(),
            Self::Tls(protected) => protected.tls.get_ref().0.socket(),
        }
    }

    /// Whether bytes that were put back wait to be read.
    pub(super) fn has_more(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.has_more(),
            Self::Tls(protected) => protected.first.has_remaining(),
        }
    }

    /// The connection rests: what only writes need is dropped.
    pub(super) fn rest(&mut self) {
        match self {
            Self::Plain(stream) => stream.rest(),
            Self::Tls(protected) => protected.tls.get_mut().0.rest(),
        }
    }

    /// Puts bytes back that were read last. They are read again.
    pub(super) fn put_back(&mut self, read: Bytes) {
        match self {
            Self::Plain(stream) => stream.put_back(read),
            Self::Tls(protected) => put_before(&mut protected.first, read),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(protected) => match read_first(&mut protected.first, buffer) {
                true => Poll::Ready(Ok(())),
                false => Pin::new(&mut protected.tls).poll_read(context, buffer),
            },
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(protected) => Pin::new(&mut protected.tls).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(protected) => {
                Pin::new(&mut protected.tls).poll_write_vectored(context, slices)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(protected) => protected.tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(protected) => Pin::new(&mut protected.tls).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(protected) => Pin::new(&mut protected.tls).poll_shutdown(context),
        }
    }
}

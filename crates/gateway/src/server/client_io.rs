//! A client's connection after its beginning: protected or not, it is read and written alike.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::stream::ClientStream;

/// What requests come from and answers go to.
#[derive(Debug)]
pub(super) enum ClientIo {
    Plain(ClientStream),
    Tls(Box<Protected>),
}

/// A connection under TLS.
#[derive(Debug)]
pub(super) struct Protected {
    // Read before, and to be read again.
    first: Bytes,
    tls: TlsStream<ClientStream>,
}

impl ClientIo {
    /// A connection under TLS.
    pub(super) fn tls(tls: TlsStream<ClientStream>) -> Self {
        let first = Bytes::new();
        Self::Tls(Box::new(Protected { first, tls }))
    }

    pub(super) const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The socket below.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream.socket(),
            Self::Tls(protected) => protected.tls.get_ref().0.socket(),
        }
    }

    /// Whether something that was taken back waits to be read.
    pub(super) fn has_more(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.has_more(),
            Self::Tls(protected) => protected.first.has_remaining(),
        }
    }

    /// Takes back what was read last; it comes again.
    pub(super) fn put_back(&mut self, read: Bytes) {
        match self {
            Self::Plain(stream) => stream.put_back(read),
            Self::Tls(protected) => put_before(&mut protected.first, read),
        }
    }
}

/// Puts bytes before others that wait to be read.
pub(super) fn put_before(first: &mut Bytes, read: Bytes) {
    *first = match first.is_empty() {
        true => read,
        false => [&read[..], &first[..]].concat().into(),
    };
}

/// Reads what waits, if anything does.
pub(super) fn read_first(first: &mut Bytes, buffer: &mut ReadBuf<'_>) -> bool {
    let waits = first.has_remaining();
    if waits {
        let length = first.len().min(buffer.remaining());
        buffer.put_slice(&first.split_to(length));
    }
    waits
}

impl AsyncRead for ClientIo {
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

impl AsyncWrite for ClientIo {
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

//! A client's connection, of HTTP/1.1 or HTTP/2.

use std::pin::Pin;

use http::{Request, Response};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::body::BoxBody;

#[derive(Debug)]
pub(super) enum Connection {
    H1(http1::SendRequest<BoxBody>),
    H2(http2::SendRequest<BoxBody>),
}

/// The bytes of a connection, with TLS or without.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

pub(super) type Answering = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

impl Connection {
    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::H1(sender) => sender.ready().await,
            Self::H2(sender) => sender.ready().await,
        }
    }

    pub(super) fn request(&mut self, request: Request<BoxBody>) -> Answering {
        match self {
            Self::H1(sender) => Box::pin(sender.send_request(request)),
            Self::H2(sender) => Box::pin(sender.send_request(request)),
        }
    }
}

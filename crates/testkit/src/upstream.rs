//! A well-behaved upstream that records each request that a gateway let through.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{HeaderMap, Method, Request, Response, Version, header};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{sync::watch, time::timeout};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use crate::{
    body::{self, BoxBody},
    client::Stream,
    headers::only,
    listener::Listener,
};

/// A server on a port of its own, with one handler for every request. Ends when dropped.
#[derive(Debug)]
pub struct Upstream {
    listener: Listener,
    scheme: &'static str,
    arrivals: Arc<watch::Sender<Vec<Arrival>>>,
}

/// The protocol of an upstream.
#[derive(Clone, Debug)]
pub enum Speaks {
    /// HTTP/1.1, plain.
    Http1,
    /// HTTP/2, plain.
    Http2,
    /// The protocol that the TLS handshake agrees on.
    Tls(Arc<ServerConfig>),
}

/// One request as it arrived, before the handler saw it.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When its head was complete.
    pub at: Instant,
    /// Its method.
    pub method: Method,
    /// Its path and query, as sent.
    pub target: String,
    /// The version spoken to the upstream.
    pub version: Version,
    /// All its headers. In HTTP/2, `host` is the authority.
    pub headers: HeaderMap,
}

impl Arrival {
    /// Returns the value of a header. Panics if the header has several values, or if the value is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        only(&self.headers, name)
    }
}

impl Upstream {
    /// Starts an upstream of HTTP/1.1, from within a tokio runtime. A handler that panics breaks its connection.
    pub fn start<F, Fut>(handler: F) -> Self
    where
        F: Fn(Request<Incoming>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Response<BoxBody>> + Send + 'static,
    {
        Self::speaking(Speaks::Http1, handler)
    }

    /// Starts an upstream like [`start`](Self::start), of another protocol.
    pub fn speaking<F, Fut>(speaks: Speaks, handler: F) -> Self
    where
        F: Fn(Request<Incoming>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Response<BoxBody>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let arrivals = Arc::new(watch::Sender::new(Vec::new()));
        let log = Arc::clone(&arrivals);
        let scheme = match speaks {
            Speaks::Http1 => "http",
            Speaks::Http2 => "h2c",
            Speaks::Tls(_) => "https",
        };
        let listener = Listener::open(move |stream| {
            let (handler, log) = (Arc::clone(&handler), Arc::clone(&log));
            let handle = move |request: Request<Incoming>| {
                log.send_modify(|arrivals| arrivals.push(Arrival::of(&request)));
                let answer = handler(request);
                async move { Ok::<_, Infallible>(answer.await) }
            };
            let speaks = speaks.clone();
            async move {
                match speaks {
                    Speaks::Http1 => serve(stream, false, handle).await,
                    Speaks::Http2 => serve(stream, true, handle).await,
                    Speaks::Tls(config) => {
                        if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                            serve(stream, is_http2, handle).await;
                        }
                    }
                }
            }
        });
        Self {
            listener,
            scheme,
            arrivals,
        }
    }

    /// Starts an upstream that reads each request to the end of its body, and answers with 200 and a small JSON body.
    pub fn ok() -> Self {
        Self::ok_speaking(Speaks::Http1)
    }

    /// Starts an upstream like [`ok`](Self::ok), of another protocol.
    pub fn ok_speaking(speaks: Speaks) -> Self {
        Self::speaking(speaks, |request| async move {
            _ = http_body_util::BodyExt::collect(request.into_body()).await;
            let json = Response::builder().header(header::CONTENT_TYPE, "application/json");
            json.body(body::full(r#"{"ok":true}"#)).unwrap()
        })
    }

    /// Starts an upstream that streams each request's body back as it arrives, with its content type. If the request has `te: trailers`,
    /// its announced trailers are sent back too.
    pub fn echo() -> Self {
        Self::echo_speaking(Speaks::Http1)
    }

    /// Starts an upstream like [`echo`](Self::echo), of another protocol.
    pub fn echo_speaking(speaks: Speaks) -> Self {
        Self::speaking(speaks, |request| async move {
            let mut answer = Response::new(());
            let headers = request.headers();
            if let Some(kind) = headers.get(header::CONTENT_TYPE) {
                answer
                    .headers_mut()
                    .insert(header::CONTENT_TYPE, kind.clone());
            }
            // hyper sends only the trailers that are named here, and only if the request has `te: trailers`.
            if headers.get(header::TE).is_some_and(|te| te == "trailers") {
                for names in headers.get_all(header::TRAILER) {
                    answer.headers_mut().append(header::TRAILER, names.clone());
                }
            }
            answer.map(|()| body::boxed(request.into_body()))
        })
    }

    /// Returns the address that the upstream listens on.
    pub fn addr(&self) -> SocketAddr {
        self.listener.addr()
    }

    /// Returns `http://127.0.0.1:PORT`, or the same with `h2c` or `https`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.addr())
    }

    /// Returns the requests that arrived so far, oldest first.
    pub fn requests(&self) -> Vec<Arrival> {
        self.arrivals.borrow().clone()
    }

    /// Returns the number of requests that arrived so far.
    pub fn count(&self) -> usize {
        self.arrivals.borrow().len()
    }

    /// Waits until at least `count` requests have arrived. Panics if that takes longer than `within`.
    pub async fn wait_for(&self, count: usize, within: Duration) {
        let mut arrivals = self.arrivals.subscribe();
        let enough = arrivals.wait_for(|arrivals| arrivals.len() >= count);
        if timeout(within, enough).await.is_err() {
            panic!(
                "{} of {count} requests arrived within {within:?}",
                self.count()
            );
        }
    }

    /// Returns the number of connections that were ever opened to the upstream.
    pub fn connections(&self) -> usize {
        self.listener.accepted()
    }

    /// Cuts all connections, and refuses new ones. The port stays reserved.
    pub async fn stop(&self) {
        self.listener.close().await;
        self.listener.clear().await;
    }

    /// Accepts connections again, at the same address.
    pub fn restart(&self) {
        self.listener.reopen();
    }
}

async fn serve<F, Fut>(stream: impl Stream, is_http2: bool, handle: F)
where
    F: Fn(Request<Incoming>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Response<BoxBody>, Infallible>> + Send + 'static,
{
    let (stream, service) = (TokioIo::new(stream), service_fn(handle));
    // An error is dropped, because the client sees the end of the connection.
    _ = if is_http2 {
        let builder = http2::Builder::new(TokioExecutor::new());
        builder.serve_connection(stream, service).await
    } else {
        let connection = http1::Builder::new().serve_connection(stream, service);
        connection.with_upgrades().await
    };
}

impl Arrival {
    fn of(request: &Request<Incoming>) -> Self {
        let mut headers = request.headers().clone();
        if let Some(authority) = request.uri().authority() {
            headers.append(header::HOST, authority.as_str().parse().unwrap());
        }
        Self {
            at: Instant::now(),
            method: request.method().clone(),
            target: request
                .uri()
                .path_and_query()
                .map_or_else(|| request.uri().to_string(), ToString::to_string),
            version: request.version(),
            headers,
        }
    }
}

#[cfg(test)]
mod tests;

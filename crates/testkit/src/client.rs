//! An HTTP client that is strict about answers. A header that the test did not announce fails the test. So each test detects headers that
//! leak through a gateway.

mod connection;

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, Version, header,
};
use http_body_util::BodyExt;
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{sync::Mutex, time::timeout};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, pki_types::ServerName},
};

use connection::Connection;
pub(crate) use connection::Stream;

use crate::{
    body::{self, BoxBody, BoxError},
    headers::only,
    raw_client::dial,
};

/// The headers that any response may have. A test announces further headers to its [`Client`].
const NAMES: [&str; 13] = [
    "content-type",
    "content-length",
    "date",
    "transfer-encoding",
    "connection",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "retry-after",
    "cache-control",
    "allow",
    "x-request-id",
    "trailer",
];

/// Longest wait for an answer.
const LONGEST: Duration = Duration::from_secs(30);

/// A client of one server. **Panics on a response header or trailer that was not announced, or that comes twice**, except `set-cookie`.
/// Requests may run at the same time.
#[derive(Debug)]
pub struct Client {
    addr: SocketAddr,
    from: Option<IpAddr>,
    manner: Manner,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    names: HashSet<HeaderName>,
    connection: Mutex<Option<Connection>>,
    connected: AtomicUsize,
}

/// A whole response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status of the answer.
    pub status: StatusCode,
    /// The HTTP version of the answer.
    pub version: Version,
    /// The headers of the answer, all of them announced.
    pub headers: HeaderMap,
    /// The body of the answer.
    pub body: Bytes,
    /// The trailers of the answer, if there are any.
    pub trailers: Option<HeaderMap>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    KeepAlive,
    Fresh,
    H2,
}

impl Client {
    /// Makes a client that speaks HTTP/1.1 over one connection. The first request opens the connection. The client opens another connection
    /// only after the server has closed the first.
    pub fn new(addr: SocketAddr) -> Self {
        Self::with(addr, Manner::KeepAlive)
    }

    /// Makes a client that speaks HTTP/1.1, and opens a connection for each request.
    pub fn fresh(addr: SocketAddr) -> Self {
        Self::with(addr, Manner::Fresh)
    }

    /// Makes a client that speaks HTTP/2 over one connection, without TLS and with prior knowledge.
    pub fn h2(addr: SocketAddr) -> Self {
        Self::with(addr, Manner::H2)
    }

    fn with(addr: SocketAddr, manner: Manner) -> Self {
        Self {
            addr,
            from: None,
            manner,
            tls: None,
            names: NAMES.map(HeaderName::from_static).into(),
            connection: Mutex::default(),
            connected: AtomicUsize::new(0),
        }
    }

    /// Allows one more header in responses.
    #[must_use]
    pub fn knows(mut self, name: &str) -> Self {
        self.names.insert(name.parse().unwrap());
        self
    }

    /// Connects from this local address, for instance 127.0.0.2, so that the server sees another client.
    #[must_use]
    pub fn from_ip(mut self, ip: impl Into<IpAddr>) -> Self {
        self.from = Some(ip.into());
        self
    }

    /// Speaks over TLS, with a server of this name.
    #[must_use]
    pub fn secured(mut self, config: Arc<ClientConfig>, name: &str) -> Self {
        self.tls = Some((config, ServerName::try_from(name.to_owned()).unwrap()));
        self
    }

    /// Returns the number of connections that this client has opened.
    pub fn connections(&self) -> usize {
        self.connected.load(Ordering::Relaxed)
    }

    /// Sends a GET. Panics like [`request`](Self::request).
    pub async fn get(&self, path: &str) -> Answer {
        self.request(Request::get(path).body(body::empty()).unwrap())
            .await
    }

    /// Sends a POST. Panics like [`request`](Self::request).
    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.request(Request::post(path).body(body::full(body)).unwrap())
            .await
    }

    /// Sends a request and reads the whole answer. Panics if the head of the answer, or the body after it, takes longer than 30 seconds.
    ///
    /// The request's URI is a path. `host` is the server's address unless the request sets it.
    pub async fn request(&self, request: Request<BoxBody>) -> Answer {
        let line = format!("{} {}", request.method(), request.uri());
        self.try_request(request)
            .await
            .unwrap_or_else(|e| panic!("{line}: no answer: {e:?}"))
    }

    /// Sends a request like [`request`](Self::request), but returns an error if there is no answer. Panics only on headers that were not
    /// announced.
    pub async fn try_request(&self, request: Request<BoxBody>) -> Result<Answer, BoxError> {
        let (head, body) = self.try_open(request).await?.into_parts();
        let body = timeout(LONGEST, body.collect()).await??;
        let trailers = body.trailers().cloned();
        if let Some(trailers) = &trailers {
            self.check(trailers);
        }
        Ok(Answer {
            status: head.status,
            version: head.version,
            headers: head.headers,
            body: body.to_bytes(),
            trailers,
        })
    }

    /// Sends a request, waits only for the head of the answer, and checks it. Panics if there is no head.
    pub async fn open(&self, request: Request<BoxBody>) -> Response<Incoming> {
        self.try_open(request)
            .await
            .unwrap_or_else(|e| panic!("no answer: {e:?}"))
    }

    async fn try_open(&self, request: Request<BoxBody>) -> Result<Response<Incoming>, BoxError> {
        let request = self.complete(request);
        let response = timeout(LONGEST, self.send(request)).await??;
        self.check(response.headers());
        Ok(response)
    }

    async fn send(&self, request: Request<BoxBody>) -> Result<Response<Incoming>, BoxError> {
        if self.manner == Manner::Fresh {
            let mut connection = self.connect().await?;
            return Ok(connection.request(request).await?);
        }
        let mut kept = self.connection.lock().await;
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        if connection.ready().await.is_err() {
            connection = self.connect().await?;
        }
        let answering = connection.request(request);
        *kept = Some(connection);
        drop(kept); // others may go on while this one waits
        Ok(answering.await?)
    }

    async fn connect(&self) -> Result<Connection, BoxError> {
        let tcp = dial(self.from, self.addr).await?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(tcp),
            Some((config, name)) => {
                let connector = TlsConnector::from(config.clone());
                Box::new(connector.connect(name.clone(), tcp).await?)
            }
        };
        let io = TokioIo::new(stream);
        self.connected.fetch_add(1, Ordering::Relaxed);
        // The task of a connection ends when the sender is dropped. Each request returns the connection's error, so the result of the task
        // is not read.
        if self.manner == Manner::H2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            Ok(Connection::H2(sender))
        } else {
            let (sender, connection) = http1::handshake(io).await?;
            tokio::spawn(connection.with_upgrades());
            Ok(Connection::H1(sender))
        }
    }

    /// Sets the host of a request: as a header for HTTP/1.1, or in the URI for HTTP/2.
    fn complete(&self, mut request: Request<BoxBody>) -> Request<BoxBody> {
        let addr = HeaderValue::from_str(&self.addr.to_string()).unwrap();
        let host = request
            .headers_mut()
            .entry(header::HOST)
            .or_insert(addr)
            .clone();
        if self.manner == Manner::H2 {
            request.headers_mut().remove(header::HOST);
            let path = request
                .uri()
                .path_and_query()
                .map_or("/", |path| path.as_str());
            let uri = Uri::builder()
                .scheme(if self.tls.is_some() { "https" } else { "http" })
                .authority(host.as_bytes())
                .path_and_query(path);
            *request.uri_mut() = uri.build().unwrap();
        }
        request
    }

    fn check(&self, headers: &HeaderMap) {
        for name in headers.keys() {
            assert!(
                self.names.contains(name),
                "the response has a header nobody announced: {name}\n{headers:#?}"
            );
            if name != header::SET_COOKIE {
                assert!(
                    headers.get_all(name).iter().count() == 1,
                    "the response has {name} twice\n{headers:#?}"
                );
            }
        }
    }
}

impl Answer {
    /// Returns the value of a header. Panics if the header has several values, or if the value is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        only(&self.headers, name)
    }

    /// Returns the body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is not text")
    }
}

#[cfg(test)]
mod tests;

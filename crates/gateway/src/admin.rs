//! The admin port: is it alive, is it ready, what has it counted, and how does a client stand.

mod access;
mod clients;
mod config;
mod connections;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_store::Store;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::runtime::snapshot::SharedSnapshot;
use access::Access;
use clients::Question;
pub(crate) use config::RunningConfig;
use connections::{Connection, Connections};
use tidegate_server::Pressure;
use tidegate_telemetry::metrics::Format;

/// How long a head may take, and how long a connection may ask nothing.
const HEADER: Duration = Duration::from_secs(5);
/// How much of a head is buffered, in bytes.
const MAX_BUFFER: usize = 16 * 1024;
/// The longest life of a connection.
const LIFETIME: Duration = Duration::from_secs(60);

/// What the admin port reports on.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) current: Arc<SharedSnapshot>,
    pub(crate) store: Store,
    pub(crate) stopping: watch::Receiver<bool>,
}

/// Serves the admin port for as long as the future is polled.
pub(crate) async fn serve(listener: TcpListener, admin: Arc<Admin>) {
    let connections = Arc::new(Connections::default());
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => connections.open(peer.ip(), |connection| {
                let served = serve_connection(socket, connection, admin.clone());
                // A probe that goes away is no event.
                let served = async { drop(timeout(LIFETIME, served).await) };
                tokio::spawn(served).abort_handle()
            }),
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections on the admin port");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve_connection(
    socket: TcpStream,
    connection: Connection,
    admin: Arc<Admin>,
) -> hyper::Result<()> {
    let connection = &connection;
    let service = service_fn(move |request: Request<Incoming>| {
        let admin = admin.clone();
        async move {
            connection.busy();
            let answer = admin.answer(&request).await;
            connection.idle();
            Ok::<_, Infallible>(answer)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(socket), service)
        .await
}

impl Admin {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if let Some(question) = Question::of(request.uri().path()) {
            return self.client(&question, request).await.map(Full::new);
        }
        if let Some(refusal) =
            Access::new(&self.current.load().admin).open_refusal(request.headers())
        {
            return refusal.map(Full::new);
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allowed);
            return refusal;
        }
        match request.uri().path() {
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" => self.ready().await,
            "/metrics" => self.metrics(Format::accepted(request.headers())),
            "/config" => self.config(request).map(Full::new),
            _ => text(
                StatusCode::NOT_FOUND,
                "there are /healthz, /readyz, /metrics, /config and /clients/{name}\n",
            ),
        }
    }

    /// About one client, for those who may ask.
    async fn client(
        &self,
        question: &Question<'_>,
        request: &Request<Incoming>,
    ) -> Response<Bytes> {
        let snapshot = self.current.load_full();
        if let Some(refusal) = Access::new(&snapshot.admin).refusal(request.headers()) {
            return refusal;
        }
        if !question.methods().contains(request.method()) {
            return clients::method_not_allowed(question.allow());
        }
        question.answer(&snapshot.budgets).await
    }

    /// Which configuration is in force, for those who may ask about clients: who knows most of it could find out the rest
    /// by trying.
    fn config(&self, request: &Request<Incoming>) -> Response<Bytes> {
        let snapshot = self.current.load();
        let refusal = Access::new(&snapshot.admin).refusal(request.headers());
        refusal.unwrap_or_else(|| config::answer(&snapshot))
    }

    /// Ready to take requests: not stopping, taking connections, users can be told apart, and the store answers.
    async fn ready(&self) -> Response<Full<Bytes>> {
        if *self.stopping.borrow() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
        }
        if self.current.load().stack.overload.pressure() != Pressure::None {
            let reason = "near max_memory: new connections are refused\n";
            return text(StatusCode::SERVICE_UNAVAILABLE, reason);
        }
        if self.current.load().stack.clients.lack_keys() {
            let reason = "a key set of jwt was not fetched yet\n";
            return text(StatusCode::SERVICE_UNAVAILABLE, reason);
        }
        match self.store.ready().await {
            Ok(()) => text(StatusCode::OK, "ready\n"),
            Err(error) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{error}\n")),
        }
    }

    fn metrics(&self, format: Format) -> Response<Full<Bytes>> {
        let snapshot = self.current.load();
        let stack = &snapshot.stack;
        let metrics = stack.metrics.text(
            &self.store,
            snapshot.shown(),
            &stack.overload,
            stack.access_log.lost(),
            format,
        );
        let mut response = text(StatusCode::OK, &metrics);
        let kind = format.content_type();
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

//! The admin port: health, metrics, the status page, the configuration in force, clients and overrides.

mod access;
mod audit;
mod clients;
mod config;
mod limits;
mod metrics_page;
mod overrides;
mod page;
mod refusals;
mod session;
mod why;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::error::Unspecified;
use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, SET_COOKIE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::request::health::{plain_text, readiness};
use crate::runtime::reload::Reloader;
use crate::status::LiveStatus;
use access::{Access, Asker};
use audit::Audit;
use clients::Question;
pub(crate) use config::RunningConfig;
use limits::Question as LimitQuestion;
use metrics_page::MetricsPage;
use overrides::Change;
use page::{Answer, Page};
use refusals::Refusals;
use session::Sessions;
use tidegate_net::tcp;
use tidegate_overrides::port::Asked;
use tidegate_server::{AdminConnection, AdminConnections};
use tidegate_status::page::Part;
use tidegate_telemetry::metrics::Format;
use tidegate_tower::Answered;

/// The longest time to receive a head, and the longest time that a connection may wait for its next request.
const HEADER: Duration = Duration::from_secs(5);
/// The most bytes that are buffered for a head.
const MAX_BUFFER: usize = 16 * 1024;
/// The longest time that a connection may stay open.
const LIFETIME: Duration = Duration::from_secs(60);
/// The age of a connection at which its stream of events ends. So the stream ends cleanly before [`LIFETIME`] closes the connection, and
/// the browser reconnects.
const STREAM: Duration = Duration::from_secs(55);

/// The answer to a refused request.
type Refusal = Box<Response<Bytes>>;

/// The state of the admin port, and the status that it serves.
#[derive(Debug)]
pub(crate) struct Admin {
    status: Arc<LiveStatus>,
    reloader: Reloader,
    page: Page,
    stopping: watch::Receiver<bool>,
    sessions: Sessions,
    refusals: Refusals,
    metrics: MetricsPage,
}

impl Admin {
    /// Fails if the system gives no random numbers.
    pub(crate) fn new(
        status: Arc<LiveStatus>,
        reloader: Reloader,
        stopping: watch::Receiver<bool>,
    ) -> Result<Self, Unspecified> {
        Ok(Self {
            page: Page::new(status.clone()),
            status,
            reloader,
            stopping,
            sessions: Sessions::new()?,
            refusals: Refusals::default(),
            metrics: MetricsPage::new(),
        })
    }
}

/// Serves the admin port until the future is dropped.
pub(crate) async fn serve(listener: TcpListener, admin: Arc<Admin>) {
    let connections = Arc::new(AdminConnections::default());
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                // Without these options, a client that stops reading its stream would not be noticed.
                tcp::set_options(&socket);
                connections.open(peer.ip(), |connection| {
                    let served = serve_connection(socket, peer, connection, admin.clone());
                    // Errors are not logged, because probes and other clients often hang up.
                    tokio::spawn(async { drop(timeout(LIFETIME, served).await) }).abort_handle()
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections on the admin port");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve_connection(
    socket: TcpStream,
    peer: SocketAddr,
    connection: AdminConnection,
    admin: Arc<Admin>,
) -> hyper::Result<()> {
    let connection = &connection;
    let ends = Instant::now() + STREAM;
    let service = service_fn(move |request: Request<Incoming>| {
        let admin = admin.clone();
        async move {
            connection.busy();
            let answer = admin.answer(request, peer, connection, ends).await;
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
    /// Answers a request. Refusals are counted and logged. A 401 to a request without credentials is only counted, because a browser sends
    /// its first request without credentials.
    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
        connection: &AdminConnection,
        ends: Instant,
    ) -> Response<Answer> {
        let is_anonymous = !request.headers().contains_key(AUTHORIZATION);
        let answer = self.respond(request, peer, connection, ends).await;
        let answer = answer.unwrap_or_else(|refusal| refusal.map(at_once));
        let refusals = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
        // Refusals are made of `Bytes`, whose data about the answer are in its extensions.
        if refusals.contains(&answer.status())
            && let Some(answered) = answer.extensions().get::<Answered>()
            && let Some(error) = answered.error
        {
            let snapshot = self.status.current.load();
            snapshot.stack.metrics.admin().refused(error);
            if answer.status() == StatusCode::FORBIDDEN || !is_anonymous {
                self.refusals.log(error, peer.ip());
            }
        }
        answer
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
        connection: &AdminConnection,
        ends: Instant,
    ) -> Result<Response<Answer>, Refusal> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let snapshot = self.status.current.load_full();
        let access = Access::new(&snapshot.admin, &self.sessions);
        let asker = || access.asker(&head.method, &head.headers);
        if let Some(question) = Question::of(path) {
            let audit = self.audit(asker()?, peer);
            let answer = question.answer(&head.method, snapshot.clone(), audit).await;
            return Ok(answer.map(at_once));
        }
        if let Some(question) = LimitQuestion::of(path) {
            let audit = self.audit(asker()?, peer);
            let query = head.uri.query().unwrap_or_default();
            let answer = question.answer(&head.method, query, snapshot.clone(), audit);
            return Ok(answer.await.map(at_once));
        }
        if let Some(scope) = Asked::of(path) {
            let audit = self.audit(asker()?, peer);
            let body = overrides::read(&scope, &head, body, connection).await?;
            let change = Change {
                snapshot: snapshot.clone(),
                reloader: self.reloader.clone(),
                audit,
            };
            let answer = change.answer(scope, head, body).await;
            return Ok(answer.map(at_once));
        }
        access.check_open(&head.headers)?;
        if ![Method::GET, Method::HEAD].contains(&head.method) {
            let mut refusal =
                plain_text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allowed);
            return Ok(refusal.map(at_once));
        }
        if let Some(part) = Part::of(path, head.uri.query()) {
            let asker = asker()?;
            let mut answer = self.page.answer(part, asker.rights(), connection, ends);
            if let Some(cookie) = access.cookie(asker, part == Part::Document) {
                answer.headers_mut().insert(SET_COOKIE, cookie);
            }
            return Ok(answer);
        }
        let answer = match (path, why::id(path)) {
            ("/healthz", _) => plain_text(StatusCode::OK, "ok\n"),
            ("/readyz", _) => self.ready().await,
            ("/metrics", _) => self.metrics(Format::accepted(&head.headers)),
            ("/config", _) => asker().map(|_| config::answer(&snapshot))?,
            (_, Some(id)) => asker().map(|_| why::answer(&snapshot, id))?,
            (_, None) => plain_text(
                StatusCode::NOT_FOUND,
                "there are /, /status.json, /events, /healthz, /readyz, /metrics, /config, /overrides, /why/{id}, /clients/{name} and /limits/{name}\n",
            ),
        };
        Ok(answer.map(at_once))
    }

    fn audit(&self, asker: Asker<'_>, from: SocketAddr) -> Audit {
        Audit {
            by: asker.name().to_owned(),
            from,
            status: self.status.clone(),
        }
    }

    /// Answers 200 if the gateway can serve. The gateway cannot serve while it stops, is short of memory, lacks keys of tokens, or has a
    /// store that does not decide.
    async fn ready(&self) -> Response<Bytes> {
        if *self.stopping.borrow() {
            return plain_text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
        }
        let snapshot = self.status.current.load_full();
        let stack = &snapshot.stack;
        let policies = snapshot.budgets.policies.iter();
        let rules = policies.flat_map(|policy| policy.rules.iter());
        let limits = rules.map(|rule| &*rule.limit);
        let store = &self.status.store;
        match readiness(&stack.overload, &stack.clients, store, limits).await {
            Ok(()) => plain_text(StatusCode::OK, "ready\n"),
            Err(reason) => plain_text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        }
    }

    fn metrics(&self, format: Format) -> Response<Bytes> {
        let snapshot = self.status.current.load();
        let stack = &snapshot.stack;
        let overrides = self.status.overrides.overrides.figures().in_force;
        stack.metrics.overrides().show(overrides.by_action());
        let text = self.metrics.text(format, || {
            stack.metrics.text(
                &self.status.store,
                snapshot.shown(),
                &stack.overload,
                &stack.access_log,
                format,
            )
        });
        let mut response = Response::new(text);
        let kind = format.content_type();
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}

/// Returns an answer in JSON, which is not cached.
fn json(document: &impl Serialize) -> Response<Bytes> {
    // Writing numbers and strings as JSON cannot fail.
    let mut response = Response::new(serde_json::to_vec(document).unwrap_or_default().into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn at_once(body: Bytes) -> Answer {
    Either::Left(Full::new(body))
}

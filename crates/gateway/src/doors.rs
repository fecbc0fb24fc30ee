//! The listener for decisions: other programs ask whether a request may pass, and carry the request themselves.
//!
//! - [`ask`]: `/v1/ask`, for proxies that ask before they forward a request
//! - [`check`]: `/v1/check` and `/v1/settle`, for programs; [`question`] reads the questions, [`receipts`] keeps held units
//! - [`rate_limit`]: Envoy's `RateLimitService`

mod access;
mod ask;
mod bad_check;
mod check;
mod judgement;
mod places;
mod question;
pub(crate) mod rate_limit;
pub(crate) mod receipts;
mod refusal;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use prometheus_client::metrics::counter::Counter;
use tidegate_doors::{Domains, HEALTH_CHECK, SHOULD_RATE_LIMIT, health_service};
use tidegate_server::{ClientBody, ConnectionInfo, Dropped, Pressure, RequestGuard};
use tidegate_telemetry::Door;
use tidegate_telemetry::metrics::RouteMetrics;
use tidegate_tower::RateLimitLayer;
use tokio::time::timeout;

use crate::body::Body;
use crate::request::grpc;
use crate::request::problem::{CERTIFICATE_ENDED, OVERLOADED, Problem};
use crate::request::record::Ended;
use crate::request::target::Target;
use crate::stack::{Begun, Stack};
use ask::AskAnswer;
use rate_limit::refunds::Refunds;
use receipts::Receipts;
use refusal::{Refusal, Refusals};

/// The path of questions by proxies.
const ASK: &str = "/v1/ask";
const CHECK: &str = "/v1/check";
const SETTLE: &str = "/v1/settle";
const OPENAPI: &str = "/v1/openapi.json";

/// The most bytes of a call of `/v1/check` or `/v1/settle`.
const MAX_BODY: usize = 1024 * 1024;
/// The longest time in which a caller sends the body of its call.
const BODY: Duration = Duration::from_secs(10);

/// Everything that the listener for decisions needs.
#[derive(Debug)]
pub(crate) struct Doors {
    /// The SHA-256 hash of the token that callers send. `None` if they need no token.
    pub(crate) token: Option<[u8; 32]>,
    /// All limits of the configuration, by the index of their rules.
    pub(crate) limits: RateLimitLayer,
    /// The index of each rule of `limits`, by the name of its limit.
    pub(crate) names: HashMap<Box<str>, usize>,
    pub(crate) domains: Domains,
    /// The counters of checks that name limits.
    pub(crate) checks: Arc<RouteMetrics>,
    /// The counters of calls of the `RateLimitService`.
    pub(crate) calls: Arc<RouteMetrics>,
    pub(crate) receipts: Arc<Receipts>,
    pub(crate) refunds: Arc<Refunds>,
    /// The counters of descriptors without a limit, by domain.
    pub(crate) unmatched: HashMap<Box<str>, Counter>,
    /// The counter of descriptors of domains that the configuration does not have.
    pub(crate) unknown_domain: Counter,
}

/// A request to the listener that has begun.
#[derive(Debug)]
pub(crate) enum Call {
    /// A proxy asks about a request.
    Ask(Box<Begun>, AskAnswer),
    /// The question of a proxy is refused without a wait.
    Refused(Box<Response<Body>>, AskAnswer),
    /// A call of another kind.
    Other(Box<Request<ClientBody>>, ConnectionInfo, RequestGuard),
}

impl Doors {
    /// Runs the steps of a request that do not wait.
    pub(crate) fn begin(
        &self,
        stack: &Stack,
        request: Request<ClientBody>,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> Call {
        let path = request.uri().path();
        let rest = path.strip_prefix(ASK);
        if rest.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('/')) {
            return Call::Other(Box::new(request), connection, guard);
        }
        let (mut head, body) = request.into_parts();
        let answer = AskAnswer::of(&head.uri);
        match ask::become_original(&mut head, &connection) {
            Ok(()) => {
                let original = Request::from_parts(head, body);
                let begun = stack.begin(original, connection, guard, Door::Ask);
                Call::Ask(begun, answer)
            }
            Err(problem) => {
                let refusals = Refusals {
                    stack,
                    connection: &connection,
                    door: Door::Ask,
                    metrics: stack.metrics_of(None, Door::Ask),
                };
                let call = Request::from_parts(head, ());
                Call::Refused(Box::new(refusals.answer(&call, problem.into())), answer)
            }
        }
    }

    /// Runs the remaining steps of a request.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        snapshot: &Arc<impl AsRef<Stack> + Send + Sync + 'static>,
        call: Call,
    ) -> Result<Response<Ended>, Dropped> {
        Ok(match call {
            Call::Ask(begun, answer) => {
                let response = (**snapshot).as_ref().answer(begun).await?;
                answer.adapt(response)
            }
            Call::Refused(response, answer) => answer.adapt((*response).map(Ended::without_end)),
            Call::Other(request, connection, _guard) => {
                let kind = grpc::call(&request);
                let mut response = self.call(snapshot, *request, &connection).await;
                // Only the services answer in gRPC's own form.
                if let Some(kind) = kind
                    && !grpc::is_grpc(response.headers())
                {
                    response = grpc::translate(response, kind, None);
                }
                response.map(Ended::without_end)
            }
        })
    }

    /// Answers a call that is no question of a proxy.
    async fn call(
        self: &Arc<Self>,
        snapshot: &Arc<impl AsRef<Stack> + Send + Sync + 'static>,
        request: Request<ClientBody>,
        connection: &ConnectionInfo,
    ) -> Response<Body> {
        let stack = (**snapshot).as_ref();
        let endpoint = Endpoint::of(request.uri().path());
        let (door, metrics) = match endpoint {
            Some(Endpoint::RateLimit | Endpoint::Health) => (Door::RateLimitService, &self.calls),
            _ => (Door::Check, &self.checks),
        };
        let refusals = Refusals {
            stack,
            connection,
            door,
            metrics,
        };
        let endpoint = match self.accept(stack, endpoint, &request, connection) {
            Ok(endpoint) => endpoint,
            Err(refusal) => return refusals.answer(&request, refusal),
        };
        if let Endpoint::RateLimit | Endpoint::Health = endpoint {
            let head = Arc::new(head_of(&request));
            // Boxed, so that the futures of other calls are small.
            let answer = Box::pin(self.service(endpoint, snapshot, request, &head, connection));
            let Ok(response) = timeout(BODY, answer).await else {
                return refusals.answer(&head, Refusal::from(SLOW).closing());
            };
            if let Some(status) = grpc::refused(response.headers()) {
                refusals.record(&head, &stack.request_ids.next(), status, "bad_call");
            }
            return response;
        }
        let (head, body) = request.into_parts();
        let head = Request::from_parts(head, ());
        let answer = match endpoint {
            Endpoint::Check if head.method() != Method::POST => {
                Box::pin(check::look(self, stack, &head, connection)).await
            }
            Endpoint::Check => match json_body(&head, body).await {
                Ok(body) => check::check(self, stack, &head, &body, connection).await,
                Err(refusal) => Err(refusal),
            },
            Endpoint::Settle => {
                let body = json_body(&head, body).await;
                body.and_then(|body| check::settle(&self.receipts, &body))
            }
            _ => Ok(json(Bytes::from_static(tidegate_doors::OPENAPI.as_bytes()))),
        };
        answer.unwrap_or_else(|refusal| refusals.answer(&head, refusal))
    }

    /// Checks the head of a call.
    fn accept(
        &self,
        stack: &Stack,
        endpoint: Option<Endpoint>,
        request: &Request<ClientBody>,
        connection: &ConnectionInfo,
    ) -> Result<Endpoint, Refusal> {
        let target = Target::of(request).map_err(|problem| Refusal::from(problem).closing());
        // Before the result of the target, which refuses CONNECT and TRACE without the header `Allow`.
        if let Some(allowed) = endpoint.map(Endpoint::methods)
            && !allowed.split(", ").any(|method| request.method() == method)
        {
            let allowed = HeaderValue::from_static(allowed);
            let refusal = Refusal::from(Problem::method_not_allowed(allowed));
            return Err(match target {
                Ok(_) => refusal,
                Err(_) => refusal.closing(),
            });
        }
        target?;
        let endpoint = endpoint.ok_or(NO_DOOR)?;
        if connection.certificate_ended() {
            return Err(Refusal::from(CERTIFICATE_ENDED).closing());
        }
        access::check(self.token.as_ref(), request.headers())?;
        match stack.overload.pressure() {
            Pressure::Full => Err(Refusal::from(OVERLOADED).closing()),
            Pressure::None | Pressure::Near => Ok(endpoint),
        }
    }

    /// Answers a call of gRPC.
    async fn service(
        self: &Arc<Self>,
        endpoint: Endpoint,
        snapshot: &Arc<impl AsRef<Stack> + Send + Sync + 'static>,
        request: Request<ClientBody>,
        head: &Arc<Request<()>>,
        connection: &ConnectionInfo,
    ) -> Response<Body> {
        let response = if endpoint == Endpoint::RateLimit {
            let (doors, snapshot, head) = (self.clone(), snapshot.clone(), head.clone());
            rate_limit::answer(doors, snapshot, request, head, connection).await
        } else {
            let drains = *connection.drain().borrow();
            health_service(request, !drains).await
        };
        response.map(Body::rpc)
    }
}

/// A path of calls, except the paths of questions by proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    RateLimit,
    Health,
    Check,
    Settle,
    OpenApi,
}

impl Endpoint {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            SHOULD_RATE_LIMIT => Self::RateLimit,
            HEALTH_CHECK => Self::Health,
            CHECK => Self::Check,
            SETTLE => Self::Settle,
            OPENAPI => Self::OpenApi,
            _ => return None,
        })
    }

    /// Returns the allowed methods, for the header `Allow`.
    const fn methods(self) -> &'static str {
        match self {
            Self::RateLimit | Self::Health | Self::Settle => "POST",
            Self::Check => "GET, HEAD, POST",
            Self::OpenApi => "GET, HEAD",
        }
    }
}

/// Returns a copy of a call's head without its headers.
fn head_of<B>(request: &Request<B>) -> Request<()> {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.version_mut() = request.version();
    head
}

/// Reads the JSON of a call.
async fn json_body(head: &Request<()>, body: ClientBody) -> Result<Bytes, Refusal> {
    let kind = head.headers().get(CONTENT_TYPE);
    let kind = kind.map(|kind| kind.as_bytes().split(|byte| *byte == b';'));
    let kind = kind.and_then(|mut parts| parts.next()).unwrap_or_default();
    if !kind.trim_ascii().eq_ignore_ascii_case(b"application/json") {
        return Err(NOT_JSON.into());
    }
    let reading = Limited::new(body, MAX_BODY).collect();
    let problem = match timeout(BODY, reading).await {
        Ok(Ok(read)) => return Ok(read.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => TOO_LARGE,
        Ok(Err(_)) => BROKEN,
        Err(_) => SLOW,
    };
    Err(Refusal::from(problem).closing())
}

/// Returns an answer with this JSON.
fn json(text: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

const NO_DOOR: Problem = Problem::new(
    StatusCode::NOT_FOUND,
    "no_route",
    "This listener answers /v1/check, /v1/settle, /v1/ask, /v1/openapi.json and Envoy's RateLimitService.",
);
const NOT_JSON: Problem = Problem::new(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "not_json",
    "A call needs a body with Content-Type: application/json.",
);
const SLOW: Problem = Problem::new(
    StatusCode::REQUEST_TIMEOUT,
    "body_timeout",
    "The body of the call has not arrived within 10 s.",
);
const TOO_LARGE: Problem = Problem::new(
    StatusCode::PAYLOAD_TOO_LARGE,
    "body_too_large",
    "The body of a call has at most 1 MiB.",
);
const BROKEN: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "bad_body",
    "The body of the call cannot be read.",
);

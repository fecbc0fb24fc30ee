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
mod question;
pub(crate) mod rate_limit;
pub(crate) mod receipts;

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
use tidegate_telemetry::metrics::RouteMetrics;
use tidegate_tower::RateLimitLayer;
use tokio::time::timeout;

use crate::body::Body;
use crate::request::grpc;
use crate::request::problem::{OVERLOADED, Problem};
use crate::request::record::Ended;
use crate::request::target::Target;
use crate::stack::{Begun, CERTIFICATE_ENDED, Stack};
use ask::AskAnswer;
use rate_limit::refunds::Refunds;
use receipts::Receipts;

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
    /// The call is answered without a wait.
    Answered(Box<Response<Body>>),
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
        match ask::original(request, &connection) {
            Ok((original, answer)) => {
                let door = tidegate_telemetry::Door::Ask;
                let begun = stack.begin(original, connection, guard, door);
                Call::Ask(Box::new(begun), answer)
            }
            Err(problem) => Call::Answered(Box::new(problem.respond())),
        }
    }

    /// Runs the remaining steps of a request.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        snapshot: Arc<impl AsRef<Stack> + Send + Sync + 'static>,
        call: Call,
    ) -> Result<Response<Ended>, Dropped> {
        Ok(match call {
            Call::Ask(begun, answer) => {
                let response = (*snapshot).as_ref().answer(*begun).await?;
                answer.adapt(response)
            }
            Call::Answered(response) => (*response).map(Ended::without_end),
            Call::Other(request, connection, _guard) => {
                let kind = grpc::call(&request);
                let response = self.call(snapshot, *request, &connection).await;
                let response = match (response, kind) {
                    (Ok(response), _) => response,
                    (Err(problem), Some(kind)) => grpc::translate(problem.respond(), kind, None),
                    (Err(problem), None) => problem.respond(),
                };
                response.map(Ended::without_end)
            }
        })
    }

    /// Answers a call that is no question of a proxy.
    async fn call(
        self: &Arc<Self>,
        snapshot: Arc<impl AsRef<Stack> + Send + Sync + 'static>,
        request: Request<ClientBody>,
        connection: &ConnectionInfo,
    ) -> Result<Response<Body>, Problem> {
        let stack = (*snapshot).as_ref();
        let allowed = methods(request.uri().path()).ok_or(NO_DOOR)?;
        if !allowed.split(", ").any(|method| request.method() == method) {
            let allowed = HeaderValue::from_static(allowed);
            return Err(Problem::method_not_allowed(allowed));
        }
        Target::of(&request)?;
        if connection.certificate_ended() {
            return Err(CERTIFICATE_ENDED);
        }
        access::check(self.token.as_ref(), request.headers())?;
        if stack.overload.pressure() == Pressure::Full {
            return Err(OVERLOADED);
        }
        let (path, method) = (request.uri().path(), request.method());
        match path {
            SHOULD_RATE_LIMIT => {
                let answer = rate_limit::answer(self.clone(), snapshot, request, connection);
                // Boxed, so that the futures of other calls are small.
                let response = timeout(BODY, Box::pin(answer)).await.map_err(|_| SLOW)?;
                Ok(response.map(Body::rpc))
            }
            HEALTH_CHECK => {
                let drains = *connection.drain().borrow();
                let answer = health_service(request, !drains);
                let response = timeout(BODY, Box::pin(answer)).await.map_err(|_| SLOW)?;
                Ok(response.map(Body::rpc))
            }
            CHECK if [Method::GET, Method::HEAD].contains(method) => {
                Box::pin(check::look(self, stack, &request, connection)).await
            }
            CHECK => {
                let (head, body) = json_body(request).await?;
                check::check(self, stack, &head, &body, connection).await
            }
            SETTLE => {
                let (_, body) = json_body(request).await?;
                check::settle(&self.receipts, &body)
            }
            OPENAPI => {
                let document = Bytes::from_static(tidegate_doors::OPENAPI.as_bytes());
                Ok(json(document))
            }
            _ => Err(NO_DOOR),
        }
    }
}

/// Returns the methods of a path. `None` for a path that no door has.
fn methods(path: &str) -> Option<&'static str> {
    match path {
        SHOULD_RATE_LIMIT | HEALTH_CHECK | SETTLE => Some("POST"),
        CHECK => Some("GET, HEAD, POST"),
        OPENAPI => Some("GET, HEAD"),
        _ => None,
    }
}

/// Reads the JSON of a call. Returns the call's head, and the bytes of its body.
async fn json_body(request: Request<ClientBody>) -> Result<(Request<()>, Bytes), Problem> {
    let kind = request.headers().get(CONTENT_TYPE);
    let kind = kind.map(|kind| kind.as_bytes().split(|byte| *byte == b';'));
    let kind = kind.and_then(|mut parts| parts.next()).unwrap_or_default();
    if !kind.trim_ascii().eq_ignore_ascii_case(b"application/json") {
        return Err(NOT_JSON);
    }
    let (head, body) = request.into_parts();
    let reading = Limited::new(body, MAX_BODY).collect();
    let read = timeout(BODY, reading).await.map_err(|_| SLOW)?;
    let read = read.map_err(|error| match error.is::<LengthLimitError>() {
        true => TOO_LARGE,
        false => BROKEN,
    })?;
    Ok((Request::from_parts(head, ()), read.to_bytes()))
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

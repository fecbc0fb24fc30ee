//! One request, from its head to its answer.
//!
//! ```text
//! begin: check ─ match a route, once │ handle: that route's stack: limits ─ upstream ─ answer, whose end is the request's end
//! ```

mod begin;
mod unparsed;

use std::sync::Arc;
use std::time::Duration;

use begin::Next;
pub(crate) use begin::{Arrived, Begun};
use http::header::{CONNECTION, ORIGIN};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use tidegate_tower::Clients;
use tower::Service as _;

use crate::access_log::AccessLog;
use crate::body::Body;
use crate::cors::{Cors, Preflight};
use crate::grpc;
use crate::metrics::{GatewayMetrics, RouteMetrics};
use crate::outcome::RequestOutcome;
use crate::problem::Problem;
use crate::request_end::{Answered, RequestEnd};
use crate::request_id::RequestIds;
use crate::routes::Routes;
use crate::stack::{Stack, UnmatchedStack};
use tidegate_server::{ClientBody, Dropped, Overload};

/// What serves all requests of a gateway.
#[derive(Debug)]
pub(crate) struct Frontend {
    pub(crate) routes: Routes<Route>,
    pub(crate) unmatched: UnmatchedStack,
    pub(crate) unmatched_metrics: Arc<RouteMetrics>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) metrics: Arc<GatewayMetrics>,
    pub(crate) access_log: AccessLog,
    pub(crate) request_ids: Arc<RequestIds>,
    pub(crate) overload: Arc<Overload>,
}

const OVERLOADED: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "overloaded",
    "The gateway is short of memory.",
);
/// When a request that was shed may be sent again: as soon as others may have ended.
const COME_BACK: Duration = Duration::from_secs(1);

/// A route with everything that serves it.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: Arc<str>,
    pub(crate) stack: Stack,
    /// Whose pages may read its answers, whoever gives them.
    pub(crate) cors: Option<Cors>,
    pub(crate) metrics: Arc<RouteMetrics>,
}

impl Frontend {
    /// Answers one request, unless it is to be dropped.
    pub(crate) async fn handle(&self, begun: Begun) -> Result<Response<Body>, Dropped> {
        let Begun {
            request,
            connection,
            mut end,
            next,
        } = begun;
        let call = grpc::call(&request);
        let mut problem = None;
        let mut response = match next {
            Next::Shed => return Ok(shed(request.version(), end, call)),
            Next::Serve {
                route,
                is_preflight,
            } => {
                let route = self.routes.at(route);
                match &route.cors {
                    None => serve(route, request).await,
                    // Boxed: most routes have none, and need not make room for it.
                    Some(cors) => Box::pin(serve_pages(route, cors, request, is_preflight)).await,
                }
            }
            Next::Refuse { status, closes } => {
                problem = Some(status);
                let Ok(mut response) = self.unmatched.clone().call(request).await;
                if closes {
                    // What follows on this connection may not be what it seems.
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                response
            }
        };
        match (end.answered(&mut response), call) {
            (Answered::NotAtAll, _) => return Err(Dropped::default()),
            (Answered::ByUs, Some(kind)) => {
                // The status that others are told may be the configuration's own.
                let meant = match end.outcome() {
                    RequestOutcome::Limited => Some(StatusCode::TOO_MANY_REQUESTS),
                    RequestOutcome::Rejected => problem,
                    _ => None,
                };
                response = grpc::translate(response, kind, meant);
            }
            (Answered::ByUs | Answered::ByUpstream, _) => {}
        }
        if let Some(tunnel) = response.body_mut().take_tunnel() {
            tokio::spawn(tunnel.run(end, connection.drain().clone()));
            return Ok(response);
        }
        response.body_mut().ends(end);
        Ok(response)
    }
}

/// Refuses a request before anything is done for it: no route is looked for, and no limit is charged.
fn shed(version: Version, mut end: RequestEnd, call: Option<HeaderValue>) -> Response<Body> {
    let mut response = OVERLOADED.retry_after(COME_BACK).respond();
    end.shed(response.status());
    if version < Version::HTTP_2 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    if let Some(kind) = call {
        response = grpc::translate(response, kind, None);
    }
    response.body_mut().ends(end);
    response
}

fn serve(route: &Route, request: Request<ClientBody>) -> impl Future<Output = Response<Body>> {
    // Every layer of a stack is always ready: what has to wait waits in its future.
    let answer = route.stack.clone().call(request);
    async move {
        let Ok(response) = answer.await;
        response
    }
}

/// Serves a route that tells browsers which pages may read its answers.
async fn serve_pages(
    route: &Route,
    cors: &Cors,
    mut request: Request<ClientBody>,
    is_preflight: bool,
) -> Response<Body> {
    if is_preflight {
        request.extensions_mut().insert(Preflight);
    }
    let origin = request.headers().get(ORIGIN).cloned();
    let mut response = serve(route, request).await;
    cors.tell(origin, &mut response);
    response
}

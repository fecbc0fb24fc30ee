//! One request, from its head to its answer.
//!
//! ```text
//! check ─ match a route, once ─ that route's stack: limits ─ upstream ─ answer, whose end is the request's end
//! ```

mod unparsed;

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HOST, ORIGIN};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use tidegate_tower::{Clients, Peer};
use tokio::sync::watch;
use tower::Service as _;

use crate::access_log::{AccessLog, Record};
use crate::activity::InRequest;
use crate::body::Body;
use crate::client_body::ClientBody;
use crate::cors::{Cors, Preflight};
use crate::dropped::Dropped;
use crate::grpc;
use crate::metrics::{GatewayMetrics, RouteMetrics};
use crate::outcome::RequestOutcome;
use crate::overload::{Overload, Pressure};
use crate::problem::Problem;
use crate::proxy::X_REQUEST_ID;
use crate::request_end::{Answered, RequestEnd};
use crate::request_id::{RequestId, RequestIds};
use crate::routes::Routes;
use crate::stack::{Stack, UnmatchedStack};
use crate::target::{Target, rewritten};
use tidegate_config::Timeouts;

/// What serves all requests of a gateway.
#[derive(Debug)]
pub(crate) struct Frontend {
    pub(crate) routes: Routes<Route>,
    pub(crate) unmatched: UnmatchedStack,
    pub(crate) unmatched_metrics: Arc<RouteMetrics>,
    pub(crate) clients: Arc<Clients>,
    /// Whether trusted peers begin a connection with a PROXY protocol header.
    pub(crate) proxy_protocol: bool,
    pub(crate) timeouts: Timeouts,
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
/// Another connection would begin with a handshake, in which the client shows what it has by then.
const CERTIFICATE_ENDED: Problem = Problem::new(
    StatusCode::MISDIRECTED_REQUEST,
    "certificate_expired",
    "The client certificate of this connection has expired.",
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

/// How a request reached us.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) peer: Peer,
    /// The peer's address, as text.
    pub(crate) hop: &'a HeaderValue,
    /// Whether TLS protects the connection.
    pub(crate) is_tls: bool,
    /// Whether the certificate that the client showed has ended since.
    pub(crate) certificate_ended: bool,
    pub(crate) in_request: InRequest,
    /// Becomes true when the gateway stops.
    pub(crate) drain: &'a watch::Receiver<bool>,
}

/// What whoever forwards a request is to tell of it, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    /// The peer's address, as text.
    pub(crate) hop: HeaderValue,
    /// Whether it came over TLS.
    pub(crate) is_tls: bool,
    pub(crate) request_id: RequestId,
}

impl Frontend {
    /// Answers one request, unless it is to be dropped.
    pub(crate) async fn handle(
        &self,
        mut request: Request<ClientBody>,
        arrival: Arrival<'_>,
    ) -> Result<Response<Body>, Dropped> {
        if self.overload.pressure() == Pressure::Full {
            return Ok(self.shed(&request, arrival));
        }
        let target = match arrival.certificate_ended {
            true => Err(CERTIFICATE_ENDED),
            false => Target::of(&request),
        };
        let found = target.and_then(|target| {
            let found = self.routes.of(&request, &target)?;
            Ok((found, rewritten(&request, &target)))
        });
        let request_id = self.request_id(&request, arrival.peer);
        // From here on the request is logged and counted, also if its client leaves and this future is dropped.
        let record = self.access_log.is_on();
        let record = record.then(|| {
            let route = found
                .as_ref()
                .ok()
                .map(|(found, _)| found.route.name.clone());
            self.record(&request, &request_id, route, arrival.peer)
        });
        let mut end = RequestEnd::begin(
            record,
            self.access_log.clone(),
            found
                .as_ref()
                .map_or(&self.unmatched_metrics, |(found, _)| &found.route.metrics)
                .clone(),
            arrival.in_request,
        );
        let version = request.version();
        let call = grpc::call(&request);
        request.extensions_mut().insert(arrival.peer);
        request.extensions_mut().insert(Arrived {
            hop: arrival.hop.clone(),
            is_tls: arrival.is_tls,
            request_id,
        });
        let problem = found.as_ref().err().map(|problem| problem.status);
        let mut response = match found {
            Ok((found, (uri, host))) => {
                if let Some(uri) = uri {
                    *request.uri_mut() = uri;
                }
                if let Some(host) = host {
                    request.headers_mut().insert(HOST, host);
                }
                if let Some(values) = found.values {
                    request.extensions_mut().insert(values);
                }
                match &found.route.cors {
                    None => serve(found.route, request).await,
                    // Boxed: most routes have none, and need not make room for it.
                    Some(cors) => {
                        let is_preflight = found.is_preflight;
                        Box::pin(serve_pages(found.route, cors, request, is_preflight)).await
                    }
                }
            }
            Err(problem) => {
                let malformed = problem.is_malformed();
                let mut response = self.answer(problem, request).await;
                if malformed && version < Version::HTTP_2 {
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
            tokio::spawn(tunnel.run(end, arrival.drain.clone()));
            return Ok(response);
        }
        response.body_mut().ends(end);
        Ok(response)
    }

    /// Whether a connection from `peer` begins with a PROXY protocol header, as far as we believe it.
    pub(crate) fn is_told_by(&self, peer: Peer) -> bool {
        self.proxy_protocol && self.clients.trusted.contains(peer.address.ip())
    }

    pub(crate) const fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    pub(crate) fn metrics(&self) -> &GatewayMetrics {
        &self.metrics
    }

    /// Refuses a request before anything is done for it: no route is looked for, and no limit is charged.
    fn shed(&self, request: &Request<ClientBody>, arrival: Arrival<'_>) -> Response<Body> {
        let record = self.access_log.is_on();
        let record = record.then(|| {
            let request_id = self.request_id(request, arrival.peer);
            self.record(request, &request_id, None, arrival.peer)
        });
        let mut end = RequestEnd::begin(
            record,
            self.access_log.clone(),
            self.unmatched_metrics.clone(),
            arrival.in_request,
        );
        let mut response = OVERLOADED.retry_after(COME_BACK).respond();
        end.shed(response.status());
        if request.version() < Version::HTTP_2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        if let Some(kind) = grpc::call(request) {
            response = grpc::translate(response, kind, None);
        }
        response.body_mut().ends(end);
        response
    }

    async fn answer(&self, problem: Problem, mut request: Request<ClientBody>) -> Response<Body> {
        request.extensions_mut().insert(problem);
        let Ok(response) = self.unmatched.clone().call(request).await;
        response
    }

    /// The access log's record of a request that has just begun.
    fn record<B>(
        &self,
        request: &Request<B>,
        id: &RequestId,
        route: Option<Arc<str>>,
        peer: Peer,
    ) -> Record {
        let client_ip = self.clients.origin(peer, request.headers());
        Record::new(
            request,
            id,
            route,
            peer.address.ip().to_canonical(),
            client_ip,
        )
    }

    /// The ID that a trusted peer gave the request, or a new one.
    fn request_id(&self, request: &Request<ClientBody>, peer: Peer) -> RequestId {
        let given = self
            .clients
            .trusts(peer)
            .then(|| request.headers().get(X_REQUEST_ID));
        match given.flatten() {
            Some(id) => RequestId::given(id),
            None => self.request_ids.next(),
        }
    }
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

//! The steps of a request, in order. Read this file first.
//!
//! `begin` runs immediately when a request's head has arrived, and `answer` runs in the request's future. A request that no route matches
//! takes the same steps, but is charged only to the limits under `always`, and its answer is an error (RFC 9457). A head that is not valid
//! HTTP is handled in `unparsed`.

mod doors;
mod finish;
mod own_budgets;
mod reserves;
mod serve;
mod unparsed;
mod untrusted;

use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderMap, Request, Response, Version};
use tidegate_identity::{Access, Clients};
use tidegate_server::{ClientBody, ConnectionInfo, Dropped, Overload, Pressure, RequestGuard};
use tidegate_tower::{OverrideTable, Peer, RateLimitLayer, Reject, RequestContext};
use tower::{Layer as _, Service as _, service_fn};

use crate::body::Body;
use crate::budgets::Budgets;
use crate::forward::{Forwarding, X_REQUEST_ID};
use crate::request::cors::Cors;
use crate::request::grpc;
use crate::request::health::Health;
use crate::request::info::RequestInfo;
use crate::request::own_headers::OwnHeaders;
use crate::request::problem::{CERTIFICATE_ENDED, OVERLOADED, Problem, unmatched};
use crate::request::record::{Ended, RequestEnd};
use crate::request::routes::Routes;
use crate::request::target::{Target, rewritten};
pub(crate) use doors::DoorMetrics;
use doors::ask;
use finish::LastSteps;
use serve::serve;
use tidegate_telemetry::access_log::{AccessLog, Record};
use tidegate_telemetry::metrics::{GatewayMetrics, RouteMetrics};
use tidegate_telemetry::traces::Traces;
use tidegate_telemetry::{Door, RequestId, RequestIds};

/// The parts that all requests share.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) overload: Arc<Overload>,
    pub(crate) routes: Routes<Route>,
    /// The limits for requests without a route: only the limits under `always`.
    pub(crate) unmatched: RateLimitLayer,
    /// The configured answer to a request without a route. If `None`, the gateway answers with its own problem details (RFC 9457).
    pub(crate) no_route: Option<Arc<Reject>>,
    pub(crate) unmatched_metrics: Arc<RouteMetrics>,
    /// The counters of asked requests that no route matches. `None` if the gateway has no listener for decisions.
    pub(crate) unmatched_asks: Option<Arc<RouteMetrics>>,
    pub(crate) clients: Arc<Clients>,
    /// The rules that deny clients on every route, if there are any.
    pub(crate) access: Option<Arc<Access>>,
    pub(crate) overrides: OverrideTable,
    pub(crate) metrics: Arc<GatewayMetrics>,
    pub(crate) access_log: AccessLog,
    pub(crate) traces: Traces,
    pub(crate) request_ids: Arc<RequestIds>,
    /// Whether answers contain the request ID.
    pub(crate) request_id_in_answers: bool,
    /// Answers health checks, if the configuration names a path for them.
    pub(crate) health: Option<Arc<Health>>,
    /// Headers that the gateway adds to its own answers if the request has no route.
    pub(crate) own_headers: OwnHeaders,
}

/// A route with all parts that serve it.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: Arc<str>,
    /// The pattern of the route's path, as in the configuration.
    pub(crate) pattern: Arc<str>,
    pub(crate) limits: RateLimitLayer,
    /// Whether a limit reserves units by a number in the body of the request.
    pub(crate) reads_requests: bool,
    pub(crate) source: AnswerSource,
    /// The CORS headers of the route's answers, if the configuration has `cors` for the route.
    pub(crate) cors: Option<Cors>,
    /// Headers that the gateway adds to its own answers.
    pub(crate) own_headers: OwnHeaders,
    pub(crate) metrics: Arc<RouteMetrics>,
    /// The counters of requests that other programs carry. `None` if the gateway has no listener for decisions.
    pub(crate) doors: Option<DoorMetrics>,
}

/// The source of a route's answers.
#[derive(Debug)]
pub(crate) enum AnswerSource {
    /// An upstream.
    Upstream(Arc<Forwarding>),
    /// The gateway, which answers with the client's own budgets.
    Budgets(Arc<Budgets>),
}

/// A request that has begun, and that no limit has charged yet. Dropping it counts and logs the request as abandoned.
#[derive(Debug)]
pub(crate) struct Begun {
    request: Request<ClientBody>,
    info: RequestInfo,
    end: Box<RequestEnd>,
    next: Next,
    /// Whether a trusted proxy sent the request without a header that names the client.
    is_unnamed: bool,
    door: Door,
}

/// The future of the answer from the limits, or from the service behind the limits.
type Answering<'s> = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send + 's>>;

/// The next step for a request.
#[derive(Clone, Debug)]
enum Next {
    /// Shed the request, because memory is short.
    Shed,
    /// Answer with the problem.
    Refuse(Problem),
    /// Serve the request by the route with this index, for [`Routes::at`].
    Serve(usize),
}

impl Stack {
    /// Runs the first steps, which do not wait. They run before hyper polls the request's future, because hyper drops the future unpolled
    /// if the connection ends right after the head. Such a request must be counted and logged as well.
    pub(crate) fn begin(
        &self,
        mut request: Request<ClientBody>,
        connection: ConnectionInfo,
        guard: RequestGuard,
        door: Door,
    ) -> Box<Begun> {
        let mut info = RequestInfo {
            request_id: self.request_id(&request, &connection),
            connection,
            trace: None,
        };
        // Shed: the first step, so that a request uses little memory while memory is short. A shed request is only counted and logged.
        if self.overload.pressure() == Pressure::Full {
            let record = self
                .access_log
                .is_on()
                .then(|| self.record(&request, &info, None, false).by_door(door));
            let (log, metrics) = (self.access_log.clone(), self.metrics_of(None, door).clone());
            return Box::new(Begun {
                request,
                info,
                end: RequestEnd::begin(record, None, log, metrics, Some(guard)),
                next: Next::Shed,
                is_unnamed: false,
                door,
            });
        }
        // Target: host, path and framing are checked once, so that all later steps read the same values.
        let connection = &info.connection;
        let target = match connection.certificate_ended() {
            true => Err(CERTIFICATE_ENDED),
            false => Target::of(&request),
        };
        // Proxies: a peer whose headers show a mistake in the configuration of proxies is reported to the operator.
        let is_unnamed = target
            .as_ref()
            .is_ok_and(|target| self.check_proxy(target, connection));
        // Route: the first route that matches. The route is looked up before the record is made, because requests are counted and logged by
        // route.
        let result = target.and_then(|target| {
            let route_match = self.routes.of(&request, &target)?;
            Ok((route_match, rewritten(&request, &target)))
        });
        // Record: from here on, the request is counted and logged with any outcome.
        let route = result.as_ref().ok().map(|(it, _)| it.route);
        let trace = self
            .traces
            .begin(request.headers(), connection.is_trusted());
        info.trace = trace;
        let connection = &info.connection;
        let pattern = route.map(|route| &route.pattern);
        let recording = self.traces.record(trace, connection.is_tls(), pattern);
        let record = (self.access_log.is_on() || recording.is_some()).then(|| {
            let route = route.map(|route| route.name.clone());
            let has_spans = recording.is_some();
            self.record(&request, &info, route, has_spans)
                .by_door(door)
                .of_trace(trace.map(|trace| trace.trace_id))
        });
        let (log, metrics) = (
            self.access_log.clone(),
            self.metrics_of(route, door).clone(),
        );
        let end = RequestEnd::begin(record, recording, log, metrics, Some(guard));
        let mut context = RequestContext::new(connection.peer());
        let next = match result {
            Ok((route_match, (uri, host))) => {
                if let Some(uri) = uri {
                    *request.uri_mut() = uri;
                }
                if let Some(host) = host {
                    request.headers_mut().insert(HOST, host);
                }
                context.path_values = route_match.values;
                context.is_preflight = route_match.is_preflight;
                Next::Serve(route_match.at)
            }
            Err(problem) => Next::Refuse(problem),
        };
        let certificate = connection.certificate();
        let certificate =
            certificate.filter(|_| door == Door::Proxy && self.clients.read_certificates());
        context.certificate = certificate.cloned();
        request.extensions_mut().insert(context);
        Box::new(Begun {
            request,
            info,
            end,
            next,
            is_unnamed,
            door,
        })
    }

    /// Runs the remaining steps, which may wait.
    ///
    /// Not an `async fn`, because the future of an `async fn` has room for each value that it moves, and every move copies the future.
    pub(crate) fn answer(
        &self,
        begun: Box<Begun>,
    ) -> impl Future<Output = Result<Response<Ended>, Dropped>> + Send {
        let Begun {
            request,
            info,
            end,
            next,
            is_unnamed,
            door,
        } = *begun;
        let is_ask = door == Door::Ask;
        let route = match next {
            Next::Serve(at) => Some(self.routes.at(at)),
            Next::Shed | Next::Refuse(_) => None,
        };
        let problem = match &next {
            Next::Refuse(problem) => Some(problem),
            Next::Shed | Next::Serve(_) => None,
        };
        let is_shed = matches!(next, Next::Shed);
        // After a malformed request, the position of the next request in the connection's bytes is uncertain, so the connection is closed.
        let closes = is_shed || problem.is_some_and(Problem::is_malformed);
        let last_steps = LastSteps {
            stack: self,
            route,
            end,
            request_id: self.request_id_in_answers.then(|| info.request_id.clone()),
            connection: info.connection.clone(),
            // gRPC: every step below may refuse the call, and a gRPC client understands only refusals that are translated for gRPC.
            call: grpc::call(&request),
            origin: route.and_then(|route| route.origin(&request)),
            problem: problem.map(|problem| problem.status),
            closes: closes && request.version() < Version::HTTP_2,
            is_shed,
            is_unnamed,
            is_ask,
        };
        let answering = match (route, next) {
            (Some(route), _) if is_ask => ask(&route.limits, request),
            (Some(route), _) => serve(route, request, info),
            // A proxy may ask about requests that no route matches here, because it forwards them itself.
            (None, Next::Refuse(problem)) if is_ask && !problem.is_malformed() => {
                ask(&self.unmatched, request)
            }
            (None, Next::Refuse(problem)) => self.refuse(request, problem),
            (None, Next::Shed | Next::Serve(_)) => Box::pin(ready(Ok(OVERLOADED.respond()))),
        };
        async move {
            let Ok(response) = answering.await;
            last_steps.finish(response)
        }
    }

    /// Whether all requests of a client at this address are denied. The result has no meaning for the address of a trusted proxy, because
    /// its requests come from many clients.
    pub(crate) fn denies(&self, ip: IpAddr) -> bool {
        let peer = Peer::connected((ip, 0).into());
        let address = || self.clients.origin(peer, &HeaderMap::new());
        let denied = |access: &Arc<Access>| access.denies_address(address()).is_some();
        self.access.as_ref().is_some_and(denied) || self.overrides.blocks(address)
    }

    /// Returns the access log's record of a request that has just begun.
    fn record<B>(
        &self,
        request: &Request<B>,
        info: &RequestInfo,
        route: Option<Arc<str>>,
        has_spans: bool,
    ) -> Record {
        let (id, peer) = (&info.request_id, info.connection.peer());
        let client_ip = self.clients.origin(peer, request.headers());
        self.access_log
            .record(request, id, route, peer.address, client_ip, has_spans)
    }

    /// Answers a request that has no route with a problem. Charges the request to the limits under `always`, so that these limits also
    /// bound clients that guess paths.
    fn refuse<B: Send + 'static>(&self, request: Request<B>, problem: Problem) -> Answering<'_> {
        let no_route = self.no_route.clone();
        let answer = service_fn(move |_: Request<B>| {
            let answer = unmatched(problem.clone(), no_route.as_deref());
            ready(Ok::<_, Infallible>(answer))
        });
        self.unmatched.layer(answer).call(request)
    }

    /// Returns the request ID that a trusted peer sent, or a new request ID.
    pub(crate) fn request_id<B>(
        &self,
        request: &Request<B>,
        connection: &ConnectionInfo,
    ) -> RequestId {
        let given = connection
            .is_trusted()
            .then(|| request.headers().get(X_REQUEST_ID));
        match given.flatten() {
            Some(id) => RequestId::given(id),
            None => self.request_ids.next(),
        }
    }
}

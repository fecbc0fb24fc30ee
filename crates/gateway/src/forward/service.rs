//! The innermost service of a route, which streams a request to an upstream and the answer back.

use std::convert::Infallible;
use std::future::ready;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, UPGRADE};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use prometheus_client::metrics::counter::Counter;
use tidegate_identity::Clients;
use tidegate_tower::{RequestContext, Transmission, accept_readable};
use tower::{Service, service_fn};

use super::answer_head::{check, has_no_body, wanted_upgrade};
use super::edits;
use super::error::{NO_HOST, TOO_LARGE, UPSTREAM_FAILED, explain};
use super::headers::{self, Origin};
use super::read_headers::ReadHeaders;
use super::request_body::{self, BodyBounds};
use super::sticky::{self, Preference};
use super::upgrade::Upgrade;
use crate::body::{Body, ReadAhead, UpstreamBody, note};
use crate::outcome::ForwardOutcome;
use crate::request::info::RequestInfo;
use crate::request::problem::Problem;
use crate::request::{cors, grpc};
use tidegate_config::routes::{ForwardSettings, UpstreamHost};
use tidegate_net::headers::remove_hop_by_hop;
use tidegate_net::tls::Offer;
use tidegate_server::ClientBody;
use tidegate_telemetry::Forwarded;
use tidegate_telemetry::metrics::RouteMetrics;
use tidegate_upstream::{
    Answer, Attempts, BodyState, HashedPart, Report, RequestBody, Retries, SendOptions, Sticky,
    Tunnel, Upstream,
};

/// Everything that a route needs to forward requests.
#[derive(Debug)]
pub(crate) struct Forwarding {
    pub(crate) settings: ForwardSettings,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) retries: Option<Retries>,
    pub(crate) clients: Arc<Clients>,
    /// The headers that the gateway reads on this route.
    pub(crate) read: Arc<ReadHeaders>,
    /// Counts the costs that bodies of answers contain; `None` if no limit reads such costs.
    pub(crate) body_costs: Option<Arc<RouteMetrics>>,
    /// Counts the bytes of request bodies.
    pub(crate) request_bytes: Counter,
    /// Counts request bodies that arrived too slowly.
    pub(crate) slow_bodies: Counter,
}

/// Returns the service that forwards one request after the limits have admitted it.
pub(crate) fn forward(
    route: Arc<Forwarding>,
    info: RequestInfo,
) -> impl Service<Request<ClientBody>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone
{
    service_fn(move |request: Request<ClientBody>| route.clone().forward(request, info.clone()))
}

/// The future of the answer.
type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// A request for the upstream, and the data that its answer needs.
struct Outgoing {
    request: Request<RequestBody>,
    method: Method,
    /// The client's address, for an upstream with `max_connections`.
    address: IpAddr,
    /// The state of the request's body, if it has one.
    body_state: Option<Arc<BodyState>>,
    preference: Preference,
    upgrade: Option<Upgrade>,
    /// Records for the limits whether the request was sent.
    transmission: Option<Transmission>,
    attempts: Attempts,
}

impl Forwarding {
    /// Returns whether forwarding needs the client's name. If so, the limits write the client into the [`RequestContext`].
    pub(crate) fn needs_client(&self) -> bool {
        let sticky = self.upstream.settings().sticky.as_ref();
        matches!(sticky, Some(Sticky::Hash(HashedPart::Client)))
    }

    /// Forwards a request. The steps that do not wait run at once, so that the future has room only for the changed request.
    fn forward(self: Arc<Self>, mut request: Request<ClientBody>, info: RequestInfo) -> Answering {
        if let Some(response) = self.answer_itself(&request, &info) {
            return Box::pin(ready(Ok(response)));
        }
        let address = self.address(&request, &info);
        let preference = self.preference(&request, &info);
        let transmission = RequestContext::of_mut(&mut request).transmission.take();
        let upgrade = Upgrade::of(&mut request, &self.settings.upgrades);
        let (mut request, body_state) = self.prepare(request, info);
        if let Some(upgrade) = &upgrade {
            upgrade.write(request.headers_mut());
        }
        let mut outgoing = Outgoing {
            method: request.method().clone(),
            request,
            address,
            body_state,
            preference,
            upgrade,
            transmission,
            attempts: Attempts::default(),
        };
        Box::pin(async move { Ok(self.complete(&mut outgoing).await) })
    }

    /// Returns the answer if the gateway itself answers the request.
    fn answer_itself(
        &self,
        request: &Request<ClientBody>,
        info: &RequestInfo,
    ) -> Option<Response<Body>> {
        // A preflight is answered first, because the later steps are for the announced request. For example, browsers would not follow a
        // redirect of a preflight.
        if RequestContext::of(request).is_preflight {
            let mut response = cors::answered();
            note(&mut response, ForwardOutcome::Preflight);
            return Some(response);
        }
        if self.is_too_large(request.headers()) {
            return Some(TOO_LARGE.respond());
        }
        let port = self
            .settings
            .edits
            .redirect
            .filter(|_| !is_https(request, info))?;
        let response = edits::to_https(request.headers(), request.uri(), port);
        Some(response.unwrap_or_else(|| NO_HOST.respond()))
    }

    /// Sends the request, and returns the answer with the record of the exchange.
    async fn complete(&self, outgoing: &mut Outgoing) -> Response<Body> {
        let started = Instant::now();
        let answer = self.exchange(outgoing).await;
        let answered = answer.is_ok();
        let body = outgoing.body_state.take();
        let forwarded = Forwarded {
            took: started.elapsed(),
            answered,
            too_slow: !answered && body.as_deref().is_some_and(BodyState::is_cut),
            attempts: std::mem::take(&mut outgoing.attempts),
            body,
        };
        let mut response = match answer {
            Ok(response) => response,
            Err(problem) => {
                // The upstream may have processed the request, even if the client caused the failure. So the limits charge the units that
                // the request reserved.
                let transmission = outgoing.transmission.iter();
                transmission.for_each(Transmission::unanswered);
                problem.respond()
            }
        };
        note(&mut response, ForwardOutcome::Sent(forwarded));
        response
    }

    /// Sends the request, and adapts the answer for the client.
    async fn exchange(&self, outgoing: &mut Outgoing) -> Result<Response<Body>, Problem> {
        let Outgoing {
            request,
            method,
            body_state,
            preference,
            upgrade,
            ..
        } = outgoing;
        let body_state = body_state.as_ref();
        let options = SendOptions {
            // An HTTP/2 connection is shared by requests, so it cannot become a tunnel.
            offer: match upgrade {
                Some(_) => Offer::Http1,
                None => Offer::Any,
            },
            timeouts: self.settings.timeouts.upstream,
            retries: self.retries.as_ref(),
            body_state: body_state.map(|body_state| &**body_state),
            transmission: outgoing.transmission.as_ref(),
            own_host: self.settings.edits.upstream_host == UpstreamHost::Upstream,
            affinity: preference.affinity,
            address: outgoing.address,
        };
        let sent = self
            .upstream
            .send(request, &options, &mut outgoing.attempts);
        let mut answer = sent
            .await
            .map_err(|error| explain(&error, options.body_state))?;
        if let Err(problem) = check(answer.response.headers()) {
            answer.report.into_iter().for_each(Report::failed);
            return Err(problem);
        }
        preference.tell(self.upstream.settings().sticky.as_ref(), &mut answer);
        if answer.response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switch(answer, upgrade.take());
        }
        let (is_shared, is_bounded) = (answer.lease.is_shared(), answer.lease.is_bounded());
        let (mut head, mut body) = self.adapt(answer, method, body_state);
        if is_shared {
            // If the answer fails before its head is passed on, the client receives a complete error in place of a part of the answer.
            body.begin().await.map_err(|_| UPSTREAM_FAILED)?;
        }
        let slow = self.settings.timeouts.slow;
        let body = match is_bounded {
            // Boxed, because most upstreams have no `max_connections`, and their requests should not reserve memory for this future.
            true => Body::ahead(
                Box::pin(ReadAhead::start(body, self.upstream.answers())).await,
                slow,
            ),
            false => Body::upstream(body, slow),
        };
        let mut body = body.counted(self.body_costs.clone());
        if has_no_body(head.status) {
            // An answer with this status has no body, but an HTTP/2 client would wait for a body of the given length (RFC 9110, 8.6).
            head.headers.remove(CONTENT_LENGTH);
        }
        if (*method == Method::HEAD || has_no_body(head.status)) && !body.is_end_stream() {
            body = Body::empty();
        }
        Ok(Response::from_parts(head, body))
    }

    /// Returns the head of the answer, without the headers of its connection, and its body.
    fn adapt(
        &self,
        answer: Answer,
        method: &Method,
        body_state: Option<&Arc<BodyState>>,
    ) -> (Parts, Box<UpstreamBody>) {
        let Answer {
            response,
            lease,
            report,
            ..
        } = answer;
        let (mut head, body) = response.into_parts();
        let version = head.version;
        let upgrade = wanted_upgrade(&head);
        remove_hop_by_hop(&mut head.headers);
        if let Some(upgrade) = upgrade {
            head.headers.insert(UPGRADE, upgrade);
            let upgrade = HeaderValue::from_static("upgrade");
            head.headers.insert(CONNECTION, upgrade);
        }
        head.version = Version::HTTP_11;
        if let Some(body_state) = body_state {
            body_state.set_talking(grpc::is_grpc(&head.headers));
        }
        // gRPC needs HTTP/2, so only answers on shared connections have a required trailer.
        let is_shared = lease.is_shared();
        let trailer = is_shared.then(|| grpc::trailer(method, &head)).flatten();
        let body = UpstreamBody::new(
            (body, version),
            (lease, report),
            body_state.cloned(),
            self.settings.timeouts.upstream.answer,
            trailer,
        );
        (head, body)
    }

    /// Passes the upstream's switch of protocols to the client. The upstream must switch to the protocol that the client requested.
    fn switch(&self, answer: Answer, upgrade: Option<Upgrade>) -> Result<Response<Body>, Problem> {
        let Answer {
            mut response,
            lease,
            report,
            ..
        } = answer;
        let upgrade = upgrade.filter(|upgrade| upgrade.is_granted(response.headers()));
        let upgrade = upgrade.ok_or(UPSTREAM_FAILED)?;
        report.into_iter().for_each(Report::succeeded);
        let upstream = hyper::upgrade::on(&mut response);
        remove_hop_by_hop(response.headers_mut());
        upgrade.write(response.headers_mut());
        let tunnel = Tunnel {
            client: upgrade.client,
            upstream,
            idle: self.settings.timeouts.tunnel,
            drain: self.settings.timeouts.drain,
            lease,
        };
        Ok(response.map(|_| Body::tunnel(tunnel)))
    }

    /// Changes the client's request into the request for the upstream. Returns the state of the request's body, too, if it has one.
    fn prepare(
        &self,
        mut request: Request<ClientBody>,
        info: RequestInfo,
    ) -> (Request<RequestBody>, Option<Arc<BodyState>>) {
        let client = RequestContext::of_mut(&mut request).client.take();
        let (mut head, body) = request.into_parts();
        let version = head.version;
        let has_body = !body.is_end_stream();
        let origin = Origin {
            peer: info.connection.peer().address.ip(),
            trusted: info.connection.is_trusted(),
            hop: info.connection.hop(),
            clients: &self.clients,
            request_id: info.request_id.into_header(),
            read: &self.read,
            client: client.as_ref(),
            is_tls: info.connection.is_tls(),
        };
        headers::to_upstream(&mut head.headers, origin, has_body);
        if let Some(trace) = info.trace {
            trace.write(&mut head.headers);
        }
        if let Some(path) = head.uri.path_and_query()
            && self.settings.edits.stripped > 0
        {
            edits::tell_prefix(&mut head.headers, path, self.settings.edits.stripped);
        }
        self.settings.edits.request_headers.apply(&mut head.headers);
        if self.body_costs.is_some() {
            accept_readable(&mut head.headers);
        }
        head.version = Version::HTTP_11;
        if let UpstreamHost::Fixed(host) = &self.settings.edits.upstream_host {
            head.headers.insert(HOST, host.clone());
        }
        if let Some(path) = head.uri.path_and_query() {
            let stripped = match self.settings.edits.stripped {
                0 => None,
                count => edits::without_segments(path, count),
            };
            head.uri = Uri::from(stripped.unwrap_or_else(|| path.clone()));
        }
        // Extensions are data of the gateway, which hyper's client must not interpret.
        head.extensions.clear();
        if !has_body {
            return (Request::from_parts(head, RequestBody::Empty), None);
        }
        let body_state = BodyState::new();
        let bounds = BodyBounds {
            most: self.settings.max_body,
            timeout: self.settings.timeouts.client,
            slow: self.settings.timeouts.slow,
            bytes: self.request_bytes.clone(),
            cuts: self.slow_bodies.clone(),
            read: self.read.clone(),
        };
        let body = request_body::streaming(body, version, bounds, body_state.clone());
        (Request::from_parts(head, body), Some(body_state))
    }

    /// Returns the client's address if the upstream has `max_connections`, because `max_connections_per_ip` divides the connections among
    /// addresses. Otherwise returns 0.0.0.0.
    fn address(&self, request: &Request<ClientBody>, info: &RequestInfo) -> IpAddr {
        let is_bounded = self.upstream.is_bounded();
        let peer = is_bounded.then(|| info.connection.peer());
        peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| {
            self.clients.address(peer, request.headers())
        })
    }

    /// Returns the server that a request prefers, if the upstream has sticky sessions.
    fn preference(&self, request: &Request<ClientBody>, info: &RequestInfo) -> Preference {
        let sticky = self.upstream.settings().sticky.as_ref();
        sticky.map_or_else(Preference::default, |sticky| Preference {
            affinity: sticky::affinity(sticky, request),
            is_https: is_https(request, info),
        })
    }

    /// Whether the length in the request's head exceeds the largest body.
    pub(crate) fn is_too_large(&self, headers: &HeaderMap) -> bool {
        headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok())
            .zip(self.settings.max_body)
            .is_some_and(|(length, most)| length > most)
    }
}

/// Whether the client's request came over TLS, to the gateway or to a trusted proxy.
fn is_https(request: &Request<ClientBody>, RequestInfo { connection, .. }: &RequestInfo) -> bool {
    let proto = request.headers().get(headers::X_FORWARDED_PROTO);
    match proto.filter(|_| connection.is_trusted()) {
        Some(proto) => proto.as_bytes().eq_ignore_ascii_case(b"https"),
        None => connection.is_tls(),
    }
}

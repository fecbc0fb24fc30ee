//! Requests that other programs carry: the proxies that ask, and the records of questions.

use std::convert::Infallible;
use std::future::ready;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, Version};
use tidegate_server::ClientBody;
use tidegate_telemetry::metrics::RouteMetrics;
use tidegate_telemetry::{Door, RequestId};
use tidegate_tower::{RateLimitLayer, RequestContext};
use tower::{Layer as _, Service as _, service_fn};

use super::{Answering, Route, Stack};
use crate::body::{Body, note};
use crate::outcome::ForwardOutcome;
use crate::request::record::RequestEnd;

/// The counters of a route's requests that other programs carry, by door.
#[derive(Clone, Debug)]
pub(crate) struct DoorMetrics {
    pub(crate) ask: Arc<RouteMetrics>,
    pub(crate) check: Arc<RouteMetrics>,
}

impl Stack {
    /// Returns the counters of a request by this door. `route` is `None` if no route matches the request.
    pub(crate) fn metrics_of<'s>(
        &'s self,
        route: Option<&'s Route>,
        door: Door,
    ) -> &'s Arc<RouteMetrics> {
        let proxied = route.map_or(&self.unmatched_metrics, |route| &route.metrics);
        let asked = match route {
            _ if door == Door::Proxy => return proxied,
            Some(route) => route.doors.as_ref().map(|doors| &doors.ask),
            None => self.unmatched_asks.as_ref(),
        };
        asked.unwrap_or(proxied)
    }

    /// Begins the access log record and the metrics of a question that came by `door`. `head` is the head of the call that asks it.
    pub(crate) fn begin_question<B>(
        &self,
        head: &Request<B>,
        id: &RequestId,
        door: Door,
        (peer, client_ip): (SocketAddr, IpAddr),
        (route, metrics): (Option<&Arc<str>>, &Arc<RouteMetrics>),
    ) -> Box<RequestEnd> {
        let log = &self.access_log;
        let record = log.is_on().then(|| {
            log.record(head, id, route.cloned(), peer, client_ip, false)
                .by_door(door)
        });
        RequestEnd::begin(record, None, log.clone(), metrics.clone(), None)
    }
}

/// Answers a proxy that asks whether a request may pass: 200, or the answer that a client of the gateway would get.
pub(super) fn ask(limits: &RateLimitLayer, mut request: Request<ClientBody>) -> Answering<'static> {
    let admit = service_fn(|mut request: Request<ClientBody>| {
        // The gateway never sees the answer to the request. So the limits charge the units that the request has reserved.
        if let Some(transmission) = RequestContext::of_mut(&mut request).transmission.take() {
            transmission.sent(Duration::ZERO);
            transmission.unanswered();
        }
        let mut response = Response::new(Body::empty());
        note(&mut response, ForwardOutcome::Admitted);
        ready(Ok::<_, Infallible>(response))
    });
    // The body belongs to the request of the proxy, not to the client's request.
    *request.version_mut() = Version::HTTP_11;
    limits.layer(admit).call(request)
}

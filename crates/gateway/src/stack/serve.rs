//! Serves a request by a route: its limits, then its upstream or the gateway itself.

use http::header::ORIGIN;
use http::{HeaderValue, Request, Response, StatusCode};
use tidegate_server::ClientBody;
use tower::{Layer as _, Service as _};

use super::own_budgets::own_budgets;
use super::reserves::read_reserves;
use super::{AnswerSource, Answering, Route};
use crate::body::Body;
use crate::forward::forward;
use crate::outcome::{Answered, ForwardOutcome};
use crate::request::info::RequestInfo;

/// Serves a request by a route.
pub(super) fn serve(
    route: &Route,
    request: Request<ClientBody>,
    info: RequestInfo,
) -> Answering<'_> {
    if route.reads_requests {
        return Box::pin(async move {
            let request = read_reserves(route, request).await;
            limited(route, request, info).await
        });
    }
    limited(route, request, info)
}

/// Serves a request behind its limits. The limits come before the upstream, because a refused request must not cost the upstream anything.
/// The limits name the client, call the store, and let the request wait for its turn. They answer a refused request, for example with 429.
/// When the upstream has answered an admitted request, the limits end the request's holds, and add their headers to the answer.
/// `poll_ready` is not called on either service, because both are always ready: a request waits in its own future.
fn limited(route: &Route, request: Request<ClientBody>, info: RequestInfo) -> Answering<'_> {
    match &route.source {
        // Forward: streams the request to the upstream, and the answer back.
        AnswerSource::Upstream(forwarding) => {
            let forward = forward(forwarding.clone(), info);
            route.limits.layer(forward).call(request)
        }
        AnswerSource::Budgets(budgets) => {
            let own = own_budgets(budgets.clone());
            route.limits.layer(own).call(request)
        }
    }
}

impl Route {
    /// Returns the `Origin` of a request, if the route has `cors`.
    pub(super) fn origin<B>(&self, request: &Request<B>) -> Option<HeaderValue> {
        let origin = self.cors.as_ref().and(request.headers().get(ORIGIN));
        origin.cloned()
    }

    /// Applies the route's edits and CORS headers to an answer.
    pub(super) fn adapt(
        &self,
        response: &mut Response<Body>,
        answered: &Answered,
        origin: Option<HeaderValue>,
    ) {
        let status = response.status();
        let headers = response.headers_mut();
        // The edits are applied after the limits, because the limits read the upstream's own headers.
        if answered.forwarded.is_answered()
            && status != StatusCode::SWITCHING_PROTOCOLS
            && let AnswerSource::Upstream(forwarding) = &self.source
        {
            let edits = &forwarding.settings.edits;
            edits.response_headers.apply(headers);
        }
        // The CORS headers are written after the limits, because a page must be able to read a refusal as well.
        if let Some(cors) = &self.cors {
            let is_preflight = matches!(answered.forwarded, ForwardOutcome::Preflight);
            cors.tell(origin, is_preflight, headers);
        }
    }
}

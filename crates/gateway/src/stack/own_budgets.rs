//! The answer of a route with `serve: budgets`.

use std::convert::Infallible;
use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use tidegate_server::ClientBody;
use tidegate_tower::RequestContext;
use tower::{Service, service_fn};

use crate::body::{Body, note};
use crate::budgets::Budgets;
use crate::outcome::ForwardOutcome;
use crate::request::cors;

/// Returns the service that answers an admitted request with the budgets of its client.
pub(super) fn own_budgets(
    budgets: Arc<Budgets>,
) -> impl Service<Request<ClientBody>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone
{
    service_fn(move |request: Request<ClientBody>| {
        let budgets = budgets.clone();
        Box::pin(async move { Ok::<_, Infallible>(answer(&budgets, request).await) })
    })
}

async fn answer(budgets: &Budgets, request: Request<ClientBody>) -> Response<Body> {
    if RequestContext::of(&request).is_preflight {
        let mut response = cors::answered();
        note(&mut response, ForwardOutcome::Preflight);
        return response;
    }
    // The body is not read. Without it, a reference to the request may be kept while the store answers.
    let request = request.map(drop);
    let report = budgets.of_caller(&request).await;
    // The report has texts and numbers alone, so it can always be written.
    let json = serde_json::to_vec(&report).unwrap_or_default();
    let mut response = Response::new(Body::from(bytes::Bytes::from(json)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    note(&mut response, ForwardOutcome::Served);
    response
}

//! Reads the beginning of a request's body before the limits decide, if a limit reserves units by a number in the body.

use std::time::Duration;

use http::Request;
use http_body::Body as _;
use tidegate_server::ClientBody;
use tidegate_tower::{READ_AHEAD, RequestContext};

use super::{AnswerSource, Route};

/// The longest time for which the beginning of a body is read.
const READ_AHEAD_TIME: Duration = Duration::from_secs(5);

/// Reads the units that a request reserves from the beginning of its body. A client that sends slowly waits no longer than
/// [`READ_AHEAD_TIME`] for its decision: then the most units are reserved.
pub(super) async fn read_reserves(
    route: &Route,
    mut request: Request<ClientBody>,
) -> Request<ClientBody> {
    // A request that is refused in any case, or whose body is too large, does not have to send its body.
    let is_too_large = match &route.source {
        AnswerSource::Upstream(forwarding) => forwarding.is_too_large(request.headers()),
        AnswerSource::Budgets(_) => false,
    };
    let is_preflight = RequestContext::of(&request).is_preflight;
    if is_preflight || is_too_large {
        return request;
    }
    let Some(mut reader) = route.limits.reserve_reader(&request) else {
        return request;
    };
    let body = request.body_mut();
    let has_ended = match body.is_end_stream() || reader.is_complete() {
        true => body.is_end_stream(),
        false => {
            let read = |part: &[u8]| {
                reader.read(part);
                reader.is_complete()
            };
            body.read_ahead(READ_AHEAD, READ_AHEAD_TIME, read).await
        }
    };
    let (reserves, texts) = reader.reserves(request.headers(), has_ended);
    let context = RequestContext::of_mut(&mut request);
    context.reserves = Some(reserves);
    context.texts = texts;
    request
}

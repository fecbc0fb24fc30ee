//! `/why/{id}`: the reason why a request was refused, by its request ID.

use bytes::Bytes;
use http::{Response, StatusCode};
use tidegate_net::path::decoded_part;
use tidegate_telemetry::metrics::{MOST_REFUSED, REFUSED_A_SECOND};
use tidegate_tower::problem;

use super::json;
use crate::runtime::snapshot::Snapshot;

/// The path before a request ID.
const WHY: &str = "/why/";

/// Returns the request ID in a path, without decoding it.
pub(super) fn id(path: &str) -> Option<&str> {
    path.strip_prefix(WHY).filter(|id| !id.is_empty())
}

pub(super) fn answer(snapshot: &Snapshot, id: &str) -> Response<Bytes> {
    let refused = &snapshot.stack.metrics.clients().refused;
    let Some(refused) = decoded_part(id).and_then(|id| refused.of(&id)) else {
        let detail = format!(
            "This gateway keeps no refusal with this request ID. It keeps the last {MOST_REFUSED} refusals, at most {REFUSED_A_SECOND} a \
             second; another gateway may have refused the request. An answer of 502 to 504 from a failed upstream is no refusal: its \
             cause is in the access log, under the same ID."
        );
        return problem(StatusCode::NOT_FOUND, "unknown_request_id", &detail);
    };
    json(&refused)
}

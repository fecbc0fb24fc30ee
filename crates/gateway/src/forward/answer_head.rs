//! Checks the head of an upstream's answer before the head is adapted for the client.

use http::header::UPGRADE;
use http::response::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use tidegate_net::head::HeadCount;

use super::error::UPSTREAM_FAILED;
use crate::request::problem::Problem;

/// Whether answers with this status have no body, even if a header gives a length (RFC 9110, 6.4.1).
pub(super) fn has_no_body(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Returns the protocol that an answer with status 426 requires. The client must receive the name of this protocol (RFC 9110, 15.5.22).
pub(super) fn wanted_upgrade(head: &Parts) -> Option<HeaderValue> {
    let required = head.status == StatusCode::UPGRADE_REQUIRED;
    head.headers.get(UPGRADE).filter(|_| required).cloned()
}

/// Refuses an answer whose end two readers could find in different places. Also refuses long lists in headers, because they take much time
/// to read.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let head = HeadCount::of(headers);
    let (codings, lengths) = (&head.transfer_encoding, &head.content_length);
    let framed = match (codings.count, lengths.count) {
        (0, 0) => true,
        // Requires digits, because hyper would accept `2, 2` as one length.
        (0, 1) => lengths.only().is_some_and(|length| {
            !length.is_empty() && length.as_bytes().iter().all(u8::is_ascii_digit)
        }),
        (1, 0) => codings
            .only()
            .is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked")),
        _ => false,
    };
    let is_good = framed && !head.has_long_list();
    is_good.then_some(()).ok_or(UPSTREAM_FAILED)
}

//! The answer to a request that is shed.

use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Response, StatusCode, Version};

use super::problem::Problem;
use crate::body::Body;

const OVERLOADED: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "overloaded",
    "The gateway is short of memory.",
);
/// When a request that was shed may be sent again: as soon as others may have ended.
const COME_BACK: Duration = Duration::from_secs(1);

/// The answer, for a request of this version.
pub(crate) fn answer(version: Version) -> Response<Body> {
    let mut response = OVERLOADED.retry_after(COME_BACK).respond();
    if version < Version::HTTP_2 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

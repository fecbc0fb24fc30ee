//! How refusals and headers are written down.

use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_tower::Reset;

use crate::value::{IetfDraft, MediaType, RejectBody, RejectStatus, Scalar};

/// Headers that tell of limits, beside `X-RateLimit-Limit` and `-Remaining`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Headers {
    /// How X-RateLimit-Reset is written, in seconds: epoch or delta. Default: epoch.
    pub(crate) reset: Option<Scalar<Reset>>,
    /// The draft of the IETF whose RateLimit-Policy and RateLimit are sent as well: draft-11. Default: none are.
    pub(crate) ietf: Option<Scalar<IetfDraft>>,
}

/// What a refusal by a limit looks like; Retry-After and the headers that tell of limits are sent in any case.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reject {
    /// Its status, 400 to 599. Default: 429.
    pub(crate) status: Option<Scalar<RejectStatus>>,
    /// The type of its body. Default: text/plain; charset=utf-8.
    pub(crate) content_type: Option<Scalar<MediaType>>,
    /// Its body, 16 KB at most. Default: problem details.
    pub(crate) body: Option<Scalar<RejectBody>>,
}

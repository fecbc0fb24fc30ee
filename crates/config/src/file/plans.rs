//! How plans and costs are written down.

use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Concurrency, FixedWindow, LeakyBucket, TokenBucket, Window};
use crate::value::{Count, Scalar};

/// A plan's quota for a limit: the algorithm and window that the limit has, with other numbers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct PlanQuota {
    /// As the limit's own.
    pub(crate) token_bucket: Option<TokenBucket>,
    /// As the limit's own.
    pub(crate) leaky_bucket: Option<LeakyBucket>,
    /// As the limit's own.
    pub(crate) fixed_window: Option<FixedWindow>,
    /// As the limit's own.
    pub(crate) sliding_window_log: Option<Window>,
    /// As the limit's own.
    pub(crate) sliding_window_counter: Option<Window>,
    /// As the limit's own.
    pub(crate) concurrency: Option<Concurrency>,
}

/// A cost that differs from request to request: either `header` and `max`, or `response_header` and `reserve`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 2, "maxProperties" = 2))]
pub(crate) struct Cost {
    /// The header that says it, believed from `trusted_proxies` only; without it a request costs 1.
    pub(crate) header: Option<Scalar<HeaderName>>,
    /// What a request costs that is said to cost more.
    pub(crate) max: Option<Scalar<Count>>,
    /// The header of the answer that says it, from 0 up; without it a request costs what was reserved.
    pub(crate) response_header: Option<Scalar<HeaderName>>,
    /// What is charged until then.
    pub(crate) reserve: Option<Scalar<Count>>,
}

//! Which pages of other origins may read a route's answers.

use http::{HeaderName, Method};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{CorsOrigin, MaxAge, Scalar};
use tidegate_yaml::Spanned;

/// What browsers are told of a route. The gateway answers their preflights itself, once these are charged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cors {
    /// Whose pages may read the answers: `https://app.example.com`, `https://*.example.com`, or `*` alone for all.
    pub(crate) origins: Spanned<Vec<Scalar<CorsOrigin>>>,
    /// The methods that they may send. Default: the route's, or GET, HEAD and POST where it has none.
    pub(crate) methods: Option<Spanned<Vec<Scalar<Method>>>>,
    /// The headers that they may set, or `*`. Default: those that need no leave, such as Accept.
    pub(crate) headers: Option<Vec<Scalar<HeaderName>>>,
    /// The headers of answers that they may read beside Retry-After and those that tell of limits, or `*`. Default: none.
    pub(crate) expose: Option<Vec<Scalar<HeaderName>>>,
    /// Whether requests may carry cookies and the like. Default: false.
    pub(crate) credentials: Option<Scalar<bool>>,
    /// How long browsers may keep the answer to a preflight, 1s to 1d. Default: as they like, mostly 5s.
    pub(crate) max_age: Option<Scalar<MaxAge>>,
}

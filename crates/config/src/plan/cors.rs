//! The plan of which pages of other origins may read a route's answers.

use std::time::Duration;

use http::{HeaderName, Method};

use tidegate_net::origin::OriginPattern;

/// What browsers are told of a route. A header called `*` is any.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CorsPlan {
    /// Whose pages may read its answers.
    pub origins: Origins,
    /// The methods of requests that they may send.
    pub methods: Vec<Method>,
    /// The headers of requests that they may set.
    pub headers: Vec<HeaderName>,
    /// The headers of answers that they may read, those that tell of limits among them.
    pub expose: Vec<HeaderName>,
    /// Whether requests may carry cookies and the like.
    pub credentials: bool,
    /// How long browsers may keep the answer to a preflight; none: as they like.
    pub max_age: Option<Duration>,
}

/// Origins of pages.
#[derive(Debug, Clone)]
pub enum Origins {
    /// All of them.
    Any,
    /// Those that one of these matches.
    Listed(Vec<OriginPattern>),
}

//! Values that browsers are told of a route.

use std::time::Duration;

use super::{Fault, Value};
use tidegate_net::origin::{NoOrigin, OriginPattern};

/// Whose pages may read answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CorsOrigin {
    /// Everybody's.
    Any,
    /// Those of these origins.
    Of(OriginPattern),
}

impl Value for CorsOrigin {
    const NAME: &'static str = "Origin";
    const WHAT: &'static str = "an origin";
    const ALLOWED: &'static str = "https://app.example.com, https://*.example.com (all below it), with a port if it is not the usual one, or * alone";

    fn read(text: &str) -> Result<Self, Fault> {
        if text == "*" {
            return Ok(Self::Any);
        }
        OriginPattern::parse(text).map(Self::Of).map_err(|why| match why {
            NoOrigin::Form => Fault::Form,
            NoOrigin::Null => Fault::Because(
                "`null` is the origin of sandboxed pages, which any page can create: it allows every page",
            ),
            NoOrigin::Path => Fault::Because("an origin has no path, and no slash at its end"),
            NoOrigin::UsualPort => {
                Fault::Because("browsers do not send the default port of a scheme: remove it")
            }
        })
    }
}

/// How long browsers may keep the answer to a preflight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MaxAge(pub(crate) Duration);

impl MaxAge {
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
}

impl Value for MaxAge {
    const NAME: &'static str = "MaxAge";
    const WHAT: &'static str = "a cache time for browsers";
    const ALLOWED: &'static str = "whole seconds from 1s to 1d, such as 600s or 10m";

    fn read(text: &str) -> Result<Self, Fault> {
        let age = Duration::read(text)?;
        let whole = age.subsec_nanos() == 0 && age <= Self::LONGEST;
        whole.then_some(Self(age)).ok_or(Fault::Form)
    }

    fn schema() -> serde_json::Map<String, serde_json::Value> {
        Duration::schema()
    }
}

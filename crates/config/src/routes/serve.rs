//! `upstream` and `serve`: the source of a route's answers, which is an upstream or the gateway itself.

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error as _};
use tidegate_upstream::UpstreamSettings;

use crate::check::Check;
use crate::routes::Route;
use crate::upstreams::{Upstreams, target};
use crate::value::word::choice;
use crate::yaml::Problem;

/// A route that has `upstream` or `serve`. The reader of the file refuses every other route, as it refuses a route without `path`.
#[derive(Debug)]
pub(crate) struct RouteWithSource(pub(crate) Route);

impl<'de> Deserialize<'de> for RouteWithSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let route = Route::deserialize(deserializer)?;
        match route.upstream.is_none() && route.serve.is_none() {
            true => Err(D::Error::missing_field("upstream")),
            false => Ok(Self(route)),
        }
    }
}

impl JsonSchema for RouteWithSource {
    fn schema_name() -> Cow<'static, str> {
        Route::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Route::json_schema(generator)
    }
}

/// The answers that the gateway itself makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serve {
    /// The budgets of the client that sends the request.
    Budgets,
}

choice!(
    Serve,
    "Serve",
    "an answer of the gateway",
    [("budgets", Self::Budgets)]
);

/// Returns the upstream of a route. `Some(None)` if the gateway itself answers. Refuses a route with both keys.
pub(super) fn upstream(
    check: &mut Check<'_>,
    route: &Route,
    upstreams: &mut Upstreams<'_>,
) -> Option<Option<Arc<UpstreamSettings>>> {
    let serve = match (&route.upstream, &route.serve) {
        (Some(upstream), None) => return target(check, upstream, upstreams).map(Some),
        (None, Some(serve)) => serve,
        // `RouteWithSource` has refused such a route.
        (None, None) => return None,
        (Some(_), Some(serve)) => {
            let problem = Problem::new(serve.place, "this route has an `upstream`, too");
            check.refuse(problem.note("allowed is one of `upstream` and `serve`"));
            return None;
        }
    };
    for (key, is_written) in [
        ("upgrade", route.upgrade.is_some()),
        ("retries", route.retries.is_some()),
        ("request_headers", route.request_headers.is_some()),
        ("strip_prefix", route.strip_prefix.is_some()),
        ("upstream_host", route.upstream_host.is_some()),
        ("redirect", route.redirect.is_some()),
        ("max_body", route.max_body.is_some()),
        ("timeouts", route.timeouts.is_some()),
    ] {
        if is_written {
            let message = format!("a route with `serve` has no `{key}`");
            check.refuse(Problem::new(serve.place, message));
        }
    }
    check.read(serve).map(|Serve::Budgets| None)
}

/// Returns the methods of a route without the key `methods`: GET if the gateway itself answers, any method otherwise.
pub(super) fn usual_methods(route: &Route) -> Option<Vec<Method>> {
    route.serve.is_some().then(|| vec![Method::GET])
}

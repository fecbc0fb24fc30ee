//! Which route a request takes: the first that matches.

use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode};
use tidegate_tower::{PathValues, Per};

use crate::config::RoutePlan;
use crate::host::HostPattern;
use crate::path::EncodedSlashes;
use crate::pattern::PathPattern;
use crate::problem::Problem;
use crate::target::{BAD_PATH, Target};

/// All routes in the order of the configuration, each with what `T` makes of it.
#[derive(Debug)]
pub(crate) struct Routes<T>(Vec<(Place, T)>);

/// Where a route applies.
#[derive(Debug)]
struct Place {
    host: Option<HostPattern>,
    path: PathPattern,
    methods: Option<Vec<Method>>,
    encoded_slashes: EncodedSlashes,
    // The names in the path that limits are counted per.
    counted: Vec<Arc<str>>,
}

/// A route that a request takes.
#[derive(Debug)]
pub(crate) struct Found<'r, T> {
    pub(crate) route: &'r T,
    /// What stands in the path for the names that limits are counted per, if there are any.
    pub(crate) values: Option<PathValues>,
}

impl<T> Routes<T> {
    /// The routes of a plan, each with what `make` makes of it.
    pub(crate) fn new<'a>(plans: &'a [RoutePlan], make: impl Fn(&'a RoutePlan) -> T) -> Self {
        let routes = plans.iter().map(|plan| {
            let place = Place {
                host: plan.host.clone(),
                path: plan.path.clone(),
                methods: plan.methods.clone(),
                encoded_slashes: plan.encoded_slashes,
                counted: counted(plan),
            };
            (place, make(plan))
        });
        Self(routes.collect())
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.0.len()
    }

    /// The first route that matches; else 404, or 405 if only the method is in the way.
    pub(crate) fn find(
        &self,
        target: &Target<'_>,
        method: &Method,
    ) -> Result<Found<'_, T>, Problem> {
        let here = || self.0.iter().filter(|(place, _)| place.holds(target));
        let found = here().find(|(place, _)| place.serves(method));
        if target.encoded_slashes == EncodedSlashes::Keep
            && found.is_none_or(|(place, _)| place.encoded_slashes == EncodedSlashes::Reject)
        {
            return Err(BAD_PATH);
        }
        if let Some((place, route)) = found {
            let values = place.values(target);
            return Ok(Found { route, values });
        }
        let mut allowed: Vec<&str> = here()
            .flat_map(|(place, _)| place.methods.iter().flatten())
            .map(Method::as_str)
            .collect();
        allowed.dedup();
        match HeaderValue::try_from(allowed.join(", ")) {
            Ok(allow) if !allowed.is_empty() => Err(Problem::method_not_allowed(allow)),
            _ => Err(NOT_FOUND),
        }
    }
}

impl Place {
    fn values(&self, target: &Target<'_>) -> Option<PathValues> {
        if self.counted.is_empty() {
            return None;
        }
        let value = |name: &Arc<str>| {
            let value = self.path.capture(&target.path, name)?;
            Some((name.clone(), Box::from(value)))
        };
        Some(PathValues(self.counted.iter().filter_map(value).collect()))
    }

    fn holds(&self, target: &Target<'_>) -> bool {
        let host = self.host.as_ref();
        host.is_none_or(|host| host.matches(&target.host)) && self.path.matches(&target.path)
    }

    fn serves(&self, method: &Method) -> bool {
        let methods = self.methods.as_ref();
        methods.is_none_or(|methods| methods.contains(method))
    }
}

/// The names in a route's path that one of its limits is counted per.
fn counted(plan: &RoutePlan) -> Vec<Arc<str>> {
    let per = plan.policy.rules.iter().flat_map(|rule| rule.per.iter());
    let names = per.filter_map(|per| match per {
        Per::Path(name) => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

const NOT_FOUND: Problem = Problem::new(
    StatusCode::NOT_FOUND,
    "no_route",
    "Nothing is served under this host and path.",
);

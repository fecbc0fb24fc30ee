//! Finds the first route that matches a request. An index of hosts and paths saves the comparison of a request with each route.

use std::sync::Arc;

use http::{HeaderValue, Method, Request, StatusCode};
use tidegate_tower::Per;

use super::conditions::{Met, meets};
use super::cors;
use super::problem::Problem;
use super::target::{BAD_PATH, Target};
use tidegate_config::routes::{RouteSettings, RouteShape};
use tidegate_net::path::EncodedSlashes;
use tidegate_net::route_index::RouteIndex;

/// All routes in the order of the configuration, each with a value of type `T`.
#[derive(Debug)]
pub(crate) struct Routes<T> {
    routes: Vec<(Place, T)>,
    index: RouteIndex,
}

/// The shape of a route, which determines the requests that match, and the options of the route.
#[derive(Debug)]
struct Place {
    shape: RouteShape,
    // Whether the route answers CORS preflights.
    has_cors: bool,
    // The names in the path pattern that the route's limits use in `per`.
    counted: Vec<Arc<str>>,
}

/// Names in a route's path pattern, each with its value in a request.
type PathValues = Vec<(Arc<str>, Box<str>)>;

/// A route that matches a request.
#[derive(Debug)]
pub(crate) struct RouteMatch<'r, T> {
    /// The route's index, for [`Routes::at`].
    pub(crate) at: usize,
    pub(crate) route: &'r T,
    /// The values in the path for the names by which limits split their budgets (`per`).
    pub(crate) values: PathValues,
    /// Whether the request is a CORS preflight that the gateway answers for the route.
    pub(crate) is_preflight: bool,
}

impl<T> Routes<T> {
    /// Makes the routes of these settings, each with the value that `make` returns for it.
    pub(crate) fn new<'a>(
        routes: &'a [RouteSettings],
        make: impl Fn(&'a RouteSettings) -> T,
    ) -> Self {
        Self::of_places(routes.iter().map(|settings| {
            let place = Place {
                shape: settings.shape.clone(),
                has_cors: settings.cors.is_some(),
                counted: counted(settings),
            };
            (place, make(settings))
        }))
    }

    /// Makes the routes of these shapes and values.
    #[cfg(any(test, feature = "bench"))]
    pub(crate) fn of_shapes(shapes: impl Iterator<Item = (T, RouteShape)>) -> Self {
        Self::of_places(shapes.map(|(route, shape)| {
            let place = Place {
                shape,
                has_cors: false,
                counted: Vec::new(),
            };
            (place, route)
        }))
    }

    fn of_places(places: impl Iterator<Item = (Place, T)>) -> Self {
        let routes: Vec<_> = places.collect();
        let mut index = RouteIndex::default();
        for (at, (Place { shape, .. }, _)) in routes.iter().enumerate() {
            index.add(shape.host.as_ref(), &shape.path, at);
        }
        Self { routes, index }
    }

    /// Returns the number of routes.
    pub(crate) const fn count(&self) -> usize {
        self.routes.len()
    }

    /// Returns the value of the route with this index, which [`RouteMatch::at`] contains.
    pub(crate) fn at(&self, at: usize) -> &T {
        &self.routes[at].1
    }

    /// Returns the first route whose value has this name.
    pub(crate) fn find_value(&self, is: impl Fn(&T) -> bool) -> Option<&T> {
        self.routes.iter().map(|(_, route)| route).find(|it| is(it))
    }

    /// Returns the route of a request. A CORS preflight gets the route of the announced request if that route has `cors`. Otherwise the
    /// preflight is matched like any other OPTIONS request.
    pub(crate) fn of<B>(
        &self,
        request: &Request<B>,
        target: &Target<'_>,
    ) -> Result<RouteMatch<'_, T>, Problem> {
        let route = cors::preflight_method(request)
            .and_then(|method| self.first(target, &method, true).ok().flatten());
        match route.filter(|at| self.routes[*at].0.has_cors) {
            Some(at) => Ok(self.route_match(at, target, true)),
            None => self.find(target, request.method()),
        }
    }

    #[inline]
    fn route_match(&self, at: usize, target: &Target<'_>, is_preflight: bool) -> RouteMatch<'_, T> {
        let (place, route) = &self.routes[at];
        RouteMatch {
            at,
            route,
            values: place.values(target),
            is_preflight,
        }
    }

    /// Returns the first route that matches. The error is 405 if a route matches in everything but its methods, and 404 if no route does.
    pub(crate) fn find(
        &self,
        target: &Target<'_>,
        method: &Method,
    ) -> Result<RouteMatch<'_, T>, Problem> {
        if let Some(at) = self.first(target, method, false)? {
            return Ok(self.route_match(at, target, false));
        }
        let methods = self
            .here(target)
            .map(|at| &self.routes[at].0)
            .filter(|place| place.is_met(target, false) == Met::Yes)
            .flat_map(|place| place.shape.methods.iter().flatten())
            .map(Method::as_str);
        let mut allowed = Vec::new();
        for method in methods {
            if !allowed.contains(&method) {
                allowed.push(method);
            }
        }
        match HeaderValue::try_from(allowed.join(", ")) {
            Ok(allow) if !allowed.is_empty() => Err(Problem::method_not_allowed(allow)),
            _ => Err(NOT_FOUND),
        }
    }

    /// Returns the index of the first route that matches and serves the method. The error is 400 for an ambiguous request, and for an
    /// encoded slash that the route rejects. For a CORS preflight, `method` is the method of the announced request.
    fn first(
        &self,
        target: &Target<'_>,
        method: &Method,
        is_preflight: bool,
    ) -> Result<Option<usize>, Problem> {
        let mut first = self.routes.len();
        let mut is_clear = true;
        self.index.at(&target.host, &target.path, |here| {
            for &at in here.iter().take_while(|at| **at < first) {
                let place = &self.routes[at].0;
                if !place.serves(method) {
                    continue;
                }
                let met = place.is_met(target, is_preflight);
                if met != Met::No {
                    (first, is_clear) = (at, met == Met::Yes);
                    break;
                }
            }
        });
        if !is_clear {
            return Err(UNCLEAR);
        }
        let route = self.routes.get(first);
        if target.encoded_slashes == EncodedSlashes::Keep
            && route.is_none_or(|(place, _)| place.shape.encoded_slashes == EncodedSlashes::Reject)
        {
            return Err(BAD_PATH);
        }
        Ok(route.map(|_| first))
    }

    /// Returns the indices of all routes that match a target's host and path, in the order of the configuration.
    pub(crate) fn here(&self, target: &Target<'_>) -> impl Iterator<Item = usize> {
        let mut all = Vec::new();
        self.index
            .at(&target.host, &target.path, |here| all.extend(here));
        all.sort_unstable();
        all.into_iter()
    }
}

impl Place {
    fn values(&self, target: &Target<'_>) -> PathValues {
        if self.counted.is_empty() {
            return Vec::new();
        }
        let value = |name: &Arc<str>| {
            let value = self.shape.path.capture(&target.path, name)?;
            Some((name.clone(), Box::from(value)))
        };
        self.counted.iter().filter_map(value).collect()
    }

    /// Whether the query and the headers meet the route's conditions.
    fn is_met(&self, target: &Target<'_>, is_preflight: bool) -> Met {
        let conditions = self.shape.conditions.as_ref();
        conditions.map_or(Met::Yes, |conditions| {
            meets(conditions, target.query, target.headers, is_preflight)
        })
    }

    fn serves(&self, method: &Method) -> bool {
        let methods = self.shape.methods.as_ref();
        methods.is_none_or(|methods| methods.contains(method))
    }
}

/// Returns the names in a route's path pattern by which its limits split their budgets (`per`).
fn counted(settings: &RouteSettings) -> Vec<Arc<str>> {
    settings
        .policy
        .rules
        .iter()
        .flat_map(|rule| rule.per.iter())
        .filter_map(|per| match per {
            Per::Path(name) => Some(name.clone()),
            _ => None,
        })
        .collect()
}

const UNCLEAR: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "ambiguous_request",
    "A parameter or a header that chooses the route is there more than once.",
);

const NOT_FOUND: Problem = Problem::new(
    StatusCode::NOT_FOUND,
    "no_route",
    "No route matches this host and path.",
);

#[cfg(test)]
mod tests;

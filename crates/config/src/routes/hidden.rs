//! Routes that no request can reach, because an earlier route matches all of their requests.

use crate::yaml::{Place, Problem};
use tidegate_net::route_index::RouteIndex;

use crate::check::Check;
use crate::routes::RouteSettings;
use crate::routes::taken::taken;

/// Refuses every route whose requests all match a single earlier route.
pub(crate) fn hidden(check: &mut Check<'_>, routes: &[(RouteSettings, Option<Place>)]) {
    // The index finds the few earlier routes that a route must be compared with. Comparing every pair of routes would take too long for
    // thousands of routes.
    let mut index = RouteIndex::default();
    for (at, (route, place)) in routes.iter().enumerate() {
        let near = index.near(route.shape.host.as_ref(), &route.shape.path);
        let hiding = near.iter().copied();
        let first = hiding.filter(|&other| hides(&routes[other].0, route)).min();
        taken(check, routes, &near, (route, *place));
        if let Some(other) = first {
            let (other, other_place) = &routes[other];
            let message = format!("the route `{}` is never reached", route.name);
            let (name, at) = (&other.name, check.source.at(*other_place));
            let problem = Problem::new(*place, message).note(format!(
                "`{name}`, at {at}, matches all of its requests first"
            ));
            check.refuse(problem.note("put the narrower route before the wider one"));
        }
        index.add(route.shape.host.as_ref(), &route.shape.path, at);
    }
}

/// Whether every request that matches `later` also matches `earlier`.
fn hides(earlier: &RouteSettings, later: &RouteSettings) -> bool {
    let (earlier, later) = (&earlier.shape, &later.shape);
    let has_methods = || match (&earlier.methods, &later.methods) {
        (None, _) => true,
        (Some(earlier), Some(later)) => later.iter().all(|method| earlier.contains(method)),
        (Some(_), None) => false,
    };
    earlier.covers_hosts(later)
        && earlier.path.covers(&later.path)
        && has_methods()
        && earlier.covers_conditions(later)
}

//! Routes that no request can reach, because an earlier one matches all that they match.

use crate::yaml::{Place, Problem};
use tidegate_net::route_index::RouteIndex;

use crate::check::Check;
use crate::routes::RoutePlan;
use crate::routes::conditions::cover;
use crate::routes::taken::taken;

/// Refuses every route that one earlier route hides.
pub(crate) fn hidden(check: &mut Check<'_>, routes: &[(RoutePlan, Option<Place>)]) {
    // Comparing each with each takes a while for thousands of routes.
    let mut index = RouteIndex::default();
    for (at, (route, place)) in routes.iter().enumerate() {
        let near = index.near(route.shape.host.as_ref(), &route.shape.path);
        let hiding = near.iter().copied();
        let first = hiding.filter(|&other| hides(&routes[other].0, route)).min();
        taken(check, routes, &near, (route, *place));
        if let Some(other) = first {
            let (other, other_place) = &routes[other];
            never_reached(check, route, *place, other, *other_place);
        }
        index.add(route.shape.host.as_ref(), &route.shape.path, at);
    }
}

fn never_reached(
    check: &mut Check<'_>,
    route: &RoutePlan,
    place: Option<Place>,
    other: &RoutePlan,
    other_place: Option<Place>,
) {
    let message = format!("the route `{}` is never reached", route.name);
    let at = check.source.at(other_place);
    check.refuse(
        Problem::new(place, message)
            .note(format!(
                "`{}`, at {at}, matches all of its requests first",
                other.name
            ))
            .note("put the narrower route before the wider one"),
    );
}

/// Whether every request that is for `later` is for `earlier` as well.
fn hides(earlier: &RoutePlan, later: &RoutePlan) -> bool {
    let host = match (&earlier.shape.host, &later.shape.host) {
        (None, _) => true,
        (Some(earlier), Some(later)) => earlier.covers(later),
        (Some(_), None) => false,
    };
    let methods = || match (&earlier.shape.methods, &later.shape.methods) {
        (None, _) => true,
        (Some(earlier), Some(later)) => later.iter().all(|method| earlier.contains(method)),
        (Some(_), None) => false,
    };
    let conditions = || {
        let (earlier, later) = (&earlier.shape.conditions, &later.shape.conditions);
        cover(earlier.as_deref(), later.as_deref())
    };
    host && earlier.shape.path.covers(&later.shape.path) && methods() && conditions()
}

//! Finds routes that take some methods of a later route, and have fewer limits than the later route.

use crate::yaml::{Place, Problem};

use crate::check::Check;
use crate::routes::RouteSettings;
use crate::routes::respelled::missing_limit;

/// Warns of the first of the `earlier` routes that takes requests of `route` and lacks a limit of `route`.
pub(crate) fn taken(
    check: &mut Check<'_>,
    routes: &[(RouteSettings, Option<Place>)],
    earlier: &[usize],
    (route, place): (&RouteSettings, Option<Place>),
) {
    for &at in earlier {
        let (taker, taker_place) = &routes[at];
        let methods = taken_methods(taker, route);
        let Some(limit) = missing_limit(taker, route).filter(|_| !methods.is_empty()) else {
            continue;
        };
        let message = format!(
            "the route `{}` takes {} of `{}` without its limit `{limit}`",
            taker.name,
            methods.join(", "),
            route.name
        );
        let at = check.source.at(place);
        let note = format!("put `{}` ({at}) first: the first match wins", route.name);
        check.warn(Problem::new(*taker_place, message).note(note));
        return;
    }
}

/// Returns the methods of a later route that an earlier route takes, if the earlier route matches more paths.
///
/// Authors often put a route for safe methods, such as GET, before a route for any method on purpose. So this function returns no methods
/// for such a pair.
fn taken_methods<'r>(earlier: &'r RouteSettings, later: &RouteSettings) -> Vec<&'r str> {
    let (wide, narrow) = (&earlier.shape, &later.shape);
    let is_wider = wide.covers_hosts(narrow)
        && wide.path.covers(&narrow.path)
        && !narrow.path.covers(&wide.path)
        && wide.covers_conditions(narrow);
    let Some(methods) = wide.methods.as_ref().filter(|_| is_wider) else {
        return Vec::new();
    };
    let own = narrow.methods.as_ref();
    let is_taken = |method: &&http::Method| own.is_none_or(|own| own.contains(method));
    let taken: Vec<_> = methods.iter().filter(is_taken).collect();
    let are_meant = narrow.methods.is_none() && taken.iter().all(|method| method.is_safe());
    match are_meant {
        true => Vec::new(),
        false => taken.into_iter().map(http::Method::as_str).collect(),
    }
}

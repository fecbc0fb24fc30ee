//! Routes that no request can reach, because an earlier one matches all that they match.

use std::collections::HashMap;

use crate::config::check::Check;
use crate::config::plan::RoutePlan;
use crate::config::report::{Place, Problem};
use crate::host::HostPattern;

impl Check<'_> {
    /// Refuses every route that one earlier route hides.
    pub(super) fn hidden(&mut self, routes: &[(RoutePlan, Option<Place>)]) {
        // Routes for one host cannot hide those for another, so thousands of hosts stay quick.
        let mut by_host: HashMap<Option<String>, Vec<usize>> = HashMap::new();
        for (at, (route, place)) in routes.iter().enumerate() {
            let same_host = exact(route).and_then(|host| by_host.get(&Some(host)));
            let any_host = by_host.get(&None);
            let earlier = same_host.into_iter().chain(any_host).flatten();
            let first = earlier.filter(|&&other| hides(&routes[other].0, route)).min();
            if let Some(&other) = first {
                let (other, other_place) = &routes[other];
                let message = format!("the route `{}` is never reached", route.name);
                let whose = match other_place {
                    Some(place) => format!("`{}`, at {},", other.name, self.source.at(*place)),
                    None => format!("`{}`", other.name),
                };
                let problem = Problem::new(*place, message)
                    .note(format!("{whose} matches all of its requests first"))
                    .note("put the narrower route before the wider one");
                self.refuse(problem);
            }
            by_host.entry(exact(route)).or_default().push(at);
        }
    }
}

/// The one host that a route is for, if it is for one.
fn exact(route: &RoutePlan) -> Option<String> {
    match &route.host {
        Some(HostPattern::Exact(host)) => Some(host.clone()),
        Some(HostPattern::Below(_)) | None => None,
    }
}

/// Whether every request that is for `later` is for `earlier` as well.
fn hides(earlier: &RoutePlan, later: &RoutePlan) -> bool {
    let host = match (&earlier.host, &later.host) {
        (None, _) => true,
        (Some(earlier), Some(later)) => earlier.covers(later),
        (Some(_), None) => false,
    };
    let methods = || match (&earlier.methods, &later.methods) {
        (None, _) => true,
        (Some(earlier), Some(later)) => later.iter().all(|method| earlier.contains(method)),
        (Some(_), None) => false,
    };
    host && earlier.path.covers(&later.path) && methods()
}

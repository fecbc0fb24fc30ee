//! Routes that no request can reach, because an earlier one matches all that they match.

use std::collections::HashMap;

use crate::config::check::Check;
use crate::config::plan::RoutePlan;
use crate::config::report::{Place, Problem};
use crate::host::HostPattern;

impl Check<'_> {
    /// Refuses every route that one earlier route hides.
    pub(super) fn hidden(&mut self, routes: &[(RoutePlan, Option<Place>)]) {
        // Comparing each with each takes a while for thousands of routes. Those for one host cannot
        // hide those for another, and of the rest only some paths are near enough.
        let mut by_host: HashMap<Option<&str>, Paths> = HashMap::new();
        for (at, (route, place)) in routes.iter().enumerate() {
            let path = route.path.to_string();
            let hosts = [None, exact(route)];
            let hosts = &hosts[..if hosts[1].is_some() { 2 } else { 1 }];
            let near = hosts.iter().filter_map(|host| by_host.get(host));
            let near = near.flat_map(|paths| paths.near(&path));
            let first = near.filter(|&other| hides(&routes[other].0, route)).min();
            if let Some(other) = first {
                let (other, other_place) = &routes[other];
                self.never_reached(route, *place, other, *other_place);
            }
            by_host.entry(exact(route)).or_default().add(&path, at);
        }
    }

    fn never_reached(
        &mut self,
        route: &RoutePlan,
        place: Option<Place>,
        other: &RoutePlan,
        other_place: Option<Place>,
    ) {
        let message = format!("the route `{}` is never reached", route.name);
        let whose = match other_place {
            Some(place) => format!("`{}`, at {},", other.name, self.source.at(place)),
            None => format!("`{}`", other.name),
        };
        self.refuse(
            Problem::new(place, message)
                .note(format!("{whose} matches all of its requests first"))
                .note("put the narrower route before the wider one"),
        );
    }
}

/// The one host that a route is for, if it is for one.
fn exact(route: &RoutePlan) -> Option<&str> {
    match &route.host {
        Some(HostPattern::Exact(host)) => Some(host),
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

/// Routes by the segments of their paths.
#[derive(Default)]
struct Paths {
    routes: Vec<usize>,
    below: HashMap<Box<str>, Self>,
}

/// What stands for every `{name}`; no literal segment can be this.
const NAMED: &str = "{}";
const REST: &str = "**";

impl Paths {
    fn add(&mut self, path: &str, route: usize) {
        let mut node = self;
        for segment in segments(path) {
            node = node.below.entry(segment.into()).or_default();
        }
        node.routes.push(route);
    }

    /// All routes whose path may cover a path, and perhaps some whose path does not.
    fn near(&self, path: &str) -> Vec<usize> {
        let mut found = Vec::new();
        let mut nodes = vec![self];
        for segment in segments(path) {
            let mut next = Vec::new();
            for node in nodes {
                found.extend(
                    node.below
                        .get(REST)
                        .into_iter()
                        .flat_map(|rest| &rest.routes),
                );
                next.extend(node.below.get(NAMED));
                next.extend(node.below.get(segment).filter(|_| segment != NAMED));
            }
            nodes = next;
        }
        for node in nodes {
            found.extend(
                node.below
                    .get(REST)
                    .into_iter()
                    .flat_map(|rest| &rest.routes),
            );
            found.extend(&node.routes);
        }
        found
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    let segments = path.trim_start_matches('/').split_terminator('/');
    segments.map(|segment| {
        if segment.starts_with('{') {
            NAMED
        } else {
            segment
        }
    })
}

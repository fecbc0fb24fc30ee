//! An index of routes by host and path. The cost of a lookup does not depend on the number of routes.
//!
//! A lookup finds all routes for which [`HostPattern::matches`] and [`PathPattern::matches`] are true, and no others. This module must not
//! read the methods of requests, and must not choose between matching routes.

use crate::host::{self, HostPattern};
use crate::path;
use crate::pattern::{self, PathPattern};
use crate::tree::Tree;

/// The indices of routes, by host and path.
#[derive(Debug, Default)]
pub struct RouteIndex(Tree<Paths>);

/// The paths of the routes of one host.
#[derive(Debug, Default)]
struct Paths {
    /// Routes that distinguish upper and lower case.
    exact: Tree<Vec<usize>>,
    /// Routes that ignore case, by the caseless form of their names. Most gateways have no such routes.
    caseless: Option<Box<Tree<Vec<usize>>>>,
}

impl RouteIndex {
    /// Adds a route. Each route must have a greater index than the previous route.
    pub fn add(&mut self, host: Option<&HostPattern>, path: &PathPattern, route: usize) {
        let paths = match host {
            Some(host) => self.0.entry(host.labels(), host.is_below()),
            None => self.0.entry(std::iter::empty(), true),
        };
        let tree = match path.ignores_case() {
            false => &mut paths.exact,
            true => paths.caseless.get_or_insert_default(),
        };
        tree.entry(path.segments(), path.has_rest()).push(route);
    }

    /// Calls `visit` with the indices of all routes that match a host and a normalised path. Each call gets a slice of ascending indices.
    pub fn at(&self, host: &str, path: &str, mut visit: impl FnMut(&[usize])) {
        let names = pattern::names(path).map(|name| Some(path::plain(name)));
        let caseless = names.clone().map(|name| name.map(pattern::caseless_cow));
        self.0.matching(host::labels(host).map(Some), |paths| {
            paths.exact.matching(names.clone(), |routes| visit(routes));
            if let Some(tree) = &paths.caseless {
                tree.matching(caseless.clone(), |routes| visit(routes));
            }
        });
    }

    /// Returns candidates for routes that match every request of a route with this host and path. The result contains all such routes, and
    /// perhaps others.
    pub fn near(&self, host: Option<&HostPattern>, path: &PathPattern) -> Vec<usize> {
        let mut near = Vec::new();
        let labels = host.into_iter().flat_map(HostPattern::labels);
        let caseless = path.segments().map(|name| name.map(pattern::caseless));
        self.0.matching(labels, |paths| {
            let mut add = |routes: &Vec<usize>| near.extend(routes);
            paths.exact.matching(path.segments(), &mut add);
            if let Some(tree) = &paths.caseless {
                tree.matching(caseless.clone(), &mut add);
            }
        });
        near
    }
}

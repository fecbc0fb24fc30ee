//! Which routes may be meant, by host and path, however many there are.
//!
//! This module must not know methods, or what becomes of several routes that fit: it gives all of them.

use crate::host::{self, HostPattern};
use crate::path;
use crate::pattern::{self, PathPattern};
use crate::tree::Tree;

/// Routes by where they apply, as numbers.
#[derive(Debug, Default)]
pub(crate) struct RouteIndex(Tree<Tree<Vec<usize>>>);

impl RouteIndex {
    /// Adds a route; each must have a greater number than the one before.
    pub(crate) fn add(&mut self, host: Option<&HostPattern>, path: &PathPattern, route: usize) {
        let paths = match host {
            Some(host) => self.0.entry(host.labels(), host.is_below()),
            None => self.0.entry(std::iter::empty(), true),
        };
        paths.entry(path.segments(), path.has_rest()).push(route);
    }

    /// Calls `found` with all routes that apply to a host and a normalised path, in slices that rise.
    pub(crate) fn at(&self, host: &str, path: &str, mut found: impl FnMut(&[usize])) {
        let names = pattern::names(path).map(|name| Some(path::plain(name)));
        self.0.matching(host::labels(host).map(Some), |paths| {
            paths.matching(names.clone(), |routes| found(routes));
        });
    }

    /// All routes that may apply wherever another one does, and perhaps some that do not.
    pub(crate) fn near(&self, host: Option<&HostPattern>, path: &PathPattern) -> Vec<usize> {
        let mut near = Vec::new();
        let labels = host.into_iter().flat_map(HostPattern::labels);
        self.0.matching(labels, |paths| {
            paths.matching(path.segments(), |routes| near.extend(routes));
        });
        near
    }
}

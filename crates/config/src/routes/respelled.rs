//! Finds routes whose limits a client can avoid: the client sends another spelling of the path, and a route with fewer limits takes this
//! spelling.
//!
//! The gateway compares paths letter by letter. An upstream that ignores case, or dots at the end of a name, serves `/API/login` and
//! `/api/login.` as `/api/login`. But the gateway charges these two spellings to the limits of another route, such as `/**`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::yaml::{Place, Problem};
use tidegate_net::host::HostPattern;
use tidegate_net::pattern::PathPattern;
use tidegate_net::route_index::RouteIndex;
use tidegate_tower::Rule;

use crate::check::Check;
use crate::routes::RouteSettings;

/// The name in examples of paths and hosts, in the place where a route matches any name.
pub(crate) const ANY: &str = "0";

/// Warns of each route that takes other spellings of paths of stricter routes, unless either route sets `case_insensitive`.
pub(crate) fn respelled(
    check: &mut Check<'_>,
    routes: &[(RouteSettings, Option<Place>)],
    index: &RouteIndex,
) {
    let mut laxer: BTreeMap<usize, Vec<(&RouteSettings, String)>> = BTreeMap::new();
    for (route, _) in routes {
        let Some(path) = other_spelling(&route.shape.path) else {
            continue;
        };
        let host = match &route.shape.host {
            None => ANY.to_owned(),
            Some(HostPattern::Exact(host)) => host.clone(),
            Some(HostPattern::Below(suffix)) => format!("{ANY}{suffix}"),
        };
        // Whether neither of the two routes sets `case_insensitive`.
        let is_unsaid =
            |at: &usize| [route, &routes[*at].0].map(|it| it.case_insensitive) == [None; 2];
        if let Some(at) = taker(index, routes, route, (&host, &path)).filter(is_unsaid)
            && missing_limit(&routes[at].0, route).is_some()
        {
            laxer.entry(at).or_default().push((route, path));
        }
    }
    for (at, stricter) in laxer {
        let (taker, place) = &routes[at];
        let (route, path) = &stricter[0];
        let more = match stricter.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let message = format!(
            "the route `{}` takes `{path}` without the limits of `{}`{more}",
            taker.name, route.name
        );
        check.warn(Problem::new(*place, message).note(
            "an upstream that ignores case, or dots at the end of a name, serves both alike: write `case_insensitive: true` \
             at the stricter routes, or `case_insensitive: false` here if it goes by the letter",
        ));
    }
}

/// Returns an index of all routes.
pub(crate) fn indexed(routes: &[(RouteSettings, Option<Place>)]) -> RouteIndex {
    let mut index = RouteIndex::default();
    for (at, (route, _)) in routes.iter().enumerate() {
        index.add(route.shape.host.as_ref(), &route.shape.path, at);
    }
    index
}

/// Returns a path that the pattern does not match, and that differs from a matching path only in case, or only in dots at the ends of
/// names. `None` if there is no such path.
fn other_spelling(path: &PathPattern) -> Option<String> {
    path.segments().flatten().next()?;
    let upper = example(path, str::to_ascii_uppercase);
    if !path.matches(&upper) {
        return Some(upper);
    }
    let dotted = example(path, |name| format!("{name}."));
    (!path.matches(&dotted)).then_some(dotted)
}

/// Makes a path that a pattern matches. Applies `spell` to each name in the pattern.
pub(crate) fn example(path: &PathPattern, spell: fn(&str) -> String) -> String {
    let names = path.segments().map(|name| name.map_or(ANY.into(), spell));
    names.flat_map(|name| ["/".to_owned(), name]).collect()
}

/// Returns the position in `routes` of the first route that takes this host and path, and a method and the conditions of `route`.
pub(crate) fn taker(
    index: &RouteIndex,
    routes: &[(RouteSettings, Option<Place>)],
    route: &RouteSettings,
    (host, path): (&str, &str),
) -> Option<usize> {
    let serves = |other: &RouteSettings| {
        let is_served = match (&route.shape.methods, &other.shape.methods) {
            (Some(mine), Some(theirs)) => mine.iter().any(|method| theirs.contains(method)),
            _ => true,
        };
        is_served && other.shape.covers_conditions(&route.shape)
    };
    let mut first: Option<usize> = None;
    index.at(host, path, |here| {
        let position = here.iter().find(|at| serves(&routes[**at].0));
        first = first.into_iter().chain(position.copied()).min();
    });
    first
}

/// Returns the first limit that a route enforces and `taker` lacks.
pub(crate) fn missing_limit<'r>(
    taker: &RouteSettings,
    route: &'r RouteSettings,
) -> Option<&'r str> {
    let theirs = &taker.policy.rules;
    let is_missing = |rule: &&Rule| !rule.limit.is_observed() && !has_limit(theirs, rule);
    let missing = route.policy.rules.iter().find(is_missing);
    missing.map(|rule| rule.limit.name())
}

/// Returns whether any of these rules has the limit of `rule`.
pub(crate) fn has_limit(rules: &[Rule], rule: &Rule) -> bool {
    rules
        .iter()
        .any(|other| Arc::ptr_eq(&other.limit, &rule.limit))
}

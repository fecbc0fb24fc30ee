//! Finds routes of one host whose limits a client can avoid: the client sends the same path under another host, and a later route without
//! `host` and with fewer limits takes the request.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::yaml::{Place, Problem};
use tidegate_net::route_index::RouteIndex;
use tidegate_upstream::UpstreamSettings;

use crate::check::Check;
use crate::routes::RouteSettings;
use crate::routes::respelled::{ANY, example, missing_limit, taker};

/// Warns of each route without `host` that takes the paths of earlier, stricter routes to the same upstream.
pub(crate) fn other_hosts(
    check: &mut Check<'_>,
    routes: &[(RouteSettings, Option<Place>)],
    index: &RouteIndex,
) {
    let mut laxer: BTreeMap<usize, Vec<(&str, &str)>> = BTreeMap::new();
    for (at, (route, _)) in routes.iter().enumerate() {
        if route.shape.host.is_none() {
            continue;
        }
        let path = example(&route.shape.path, str::to_owned);
        let path = if path.is_empty() { "/" } else { &path };
        let taker = taker(index, routes, route, (ANY, path));
        let Some(taker) = taker.filter(|taker| *taker > at) else {
            continue;
        };
        let other = &routes[taker].0;
        if is_same(&other.upstream, &route.upstream)
            && let Some(limit) = missing_limit(other, route)
            // If both routes have the same path, and each has a limit that the other lacks, the difference is probably intended. For
            // example, a route for one tenant and a default route for all other tenants may each have a limit of their own.
            && (route.shape.path != other.shape.path || missing_limit(route, other).is_none())
        {
            laxer.entry(taker).or_default().push((&route.name, limit));
        }
    }
    for (at, stricter) in laxer {
        let (taker, place) = &routes[at];
        let (route, limit) = stricter[0];
        let more = match stricter.len() {
            1 => String::new(),
            2 => "; and 1 more route".to_owned(),
            count => format!("; and {} more routes", count - 1),
        };
        let message = format!(
            "the route `{}` takes `{route}` under any other host, without its limit `{limit}`{more}",
            taker.name
        );
        check.warn(Problem::new(*place, message).note(
            "both lead to one upstream: leave `host` out of the stricter route, write it here, or list the limit here, too",
        ));
    }
}

/// Whether two routes have the same upstream.
fn is_same(one: &Option<Arc<UpstreamSettings>>, other: &Option<Arc<UpstreamSettings>>) -> bool {
    let both = one.as_ref().zip(other.as_ref());
    both.is_some_and(|(one, other)| Arc::ptr_eq(one, other))
}

//! Warns of a route for a single path that was probably meant for all paths below this path, too.

use crate::yaml::{Place, Problem};
use tidegate_net::pattern::PathPattern;

use crate::check::Check;
use crate::routes::RouteSettings;

pub(crate) fn prefixes(check: &mut Check<'_>, routes: &[(RouteSettings, Option<Place>)]) {
    for (route, place) in routes {
        let others = || routes.iter().map(|(other, _)| &other.shape.path);
        if !is_prefix_by_name(&route.shape.path)
            || others().any(|other| is_below(other, &route.shape.path))
        {
            continue;
        }
        let path = route.shape.path.to_string();
        let path = path.trim_end_matches('/');
        let shown = if path.is_empty() { "/" } else { path };
        let message = format!("the route `{}` matches the path {shown} alone", route.name);
        let note = format!("`{path}/**` matches {shown} and all paths below it");
        check.warn(Problem::new(*place, message).note(note));
    }
}

/// Whether a path looks like a prefix: `/`, or a path that ends in a name such as `api` or `v1`.
fn is_prefix_by_name(path: &PathPattern) -> bool {
    if path.has_rest() {
        return false;
    }
    match path.segments().last() {
        None => true,
        Some(None) => false,
        Some(Some(name)) => {
            let version = name.strip_prefix(['v', 'V']).unwrap_or_default();
            let is_version =
                !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
            is_version || name.eq_ignore_ascii_case("api")
        }
    }
}

/// Whether `other` takes paths below `path`. If so, the route of `path` was probably meant for this path alone.
fn is_below(other: &PathPattern, path: &PathPattern) -> bool {
    let mut names = other.segments();
    let starts_alike = path.segments().all(|name| names.next() == Some(name));
    starts_alike && (other.has_rest() || names.next().is_some())
}

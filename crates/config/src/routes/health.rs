//! `health`: the path at which listeners answer health checks.

use crate::yaml::Problem;
use tidegate_net::pattern::PathPattern;

use crate::check::Check;
use crate::routes::RouteSettings;
use crate::value::{Fault, Scalar, Value};

/// One exact path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HealthPath(PathPattern);

impl Value for HealthPath {
    const NAME: &'static str = "HealthPath";
    const WHAT: &'static str = "one path";
    const ALLOWED: &'static str = "a path such as /healthz, without {name}, /** or a final slash";

    fn read(text: &str) -> Result<Self, Fault> {
        let path = PathPattern::parse(text).map_err(|_| Fault::Form)?;
        let is_one = !path.has_rest() && path.segments().all(|segment| segment.is_some());
        let is_exact = is_one && path.to_string() == text;
        is_exact.then_some(Self(path)).ok_or(Fault::Form)
    }
}

/// Reads the path of health checks. Warns of a route for the same path, because GET, HEAD and OPTIONS of this path do not reach the route.
pub(crate) fn health(
    check: &mut Check<'_>,
    written: Option<&Scalar<HealthPath>>,
    routes: &[RouteSettings],
) -> Option<Box<str>> {
    let scalar = written?;
    let HealthPath(path) = check.read(scalar)?;
    let path = path.to_string();
    let hidden = routes.iter().find(|route| {
        let own = &route.shape.path;
        !own.has_rest() && own.matches(&path)
    });
    if let Some(route) = hidden {
        let message = format!("the route `{}` has this path as well", route.name);
        let note = "GET, HEAD and OPTIONS of it are answered by `health`, and reach no upstream";
        check.warn(Problem::new(scalar.place, message).note(note));
    }
    Some(path.into())
}

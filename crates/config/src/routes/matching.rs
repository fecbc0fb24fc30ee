//! `name`, `host`, `path`, `methods`, `case_insensitive`, `encoded_slashes`: which requests a route takes.

use http::Method;
use tidegate_net::host::HostPattern;
use tidegate_net::path::EncodedSlashes;
use tidegate_net::pattern::PathPattern;
use tidegate_yaml::Problem;

use crate::check::Check;
use crate::routes::conditions::Conditions;
use crate::value::Scalar;
use crate::value::word::name;

/// Which requests a route takes.
#[derive(Clone, Debug)]
pub struct RouteShape {
    /// The hosts it is for; none: any.
    pub host: Option<HostPattern>,
    /// The paths it is for.
    pub path: PathPattern,
    /// The methods it is for, with HEAD where GET is; none: any.
    pub methods: Option<Vec<Method>>,
    /// What their queries and headers must say; none: anything.
    pub conditions: Option<Box<Conditions>>,
    /// What becomes of encoded slashes in its paths.
    pub encoded_slashes: EncodedSlashes,
}

name!(
    /// The name of a route.
    pub(crate) RouteName,
    "a route's name",
    "1 to 128 characters, without control characters",
    |c| !c.is_control()
);

/// Methods, each once, and all of them among those that are served; none: any is.
pub(crate) fn methods(
    check: &mut Check<'_>,
    scalars: &[Scalar<Method>],
    served: Option<&[Method]>,
) -> Vec<Method> {
    let mut methods = Vec::new();
    for scalar in scalars {
        let Some(method) = check.read(scalar) else {
            continue;
        };
        if methods.contains(&method) {
            let problem = Problem::new(scalar.place, format!("`{}` is here twice", scalar.raw));
            check.refuse(problem);
        }
        if let Some(served) = served.filter(|served| !served.contains(&method)) {
            let served: Vec<_> = served.iter().map(Method::as_str).collect();
            let message = format!("this route does not serve {method}");
            let note = format!("its methods are {}", served.join(", "));
            check.refuse(Problem::new(scalar.place, message).note(note));
        }
        methods.push(method);
    }
    methods
}

/// Whoever answers GET answers HEAD.
pub(crate) fn with_head(mut methods: Vec<Method>) -> Vec<Method> {
    if methods.contains(&Method::GET) && !methods.contains(&Method::HEAD) {
        methods.push(Method::HEAD);
    }
    methods
}

#[cfg(test)]
mod tests;

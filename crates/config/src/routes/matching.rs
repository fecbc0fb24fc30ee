//! `name`, `host`, `path`, `methods`, `case_insensitive`, `encoded_slashes`: the requests that a route takes.

use crate::yaml::{Place, Problem, Spanned, slip};
use http::Method;
use tidegate_net::host::HostPattern;
use tidegate_net::path::EncodedSlashes;
use tidegate_net::pattern::PathPattern;

use crate::check::Check;
use crate::routes::conditions::Conditions;
use crate::value::Scalar;
use crate::value::word::name;

/// The requests that a route takes.
#[derive(Clone, Debug)]
pub struct RouteShape {
    /// The hosts that the route matches. `None` matches any host.
    pub host: Option<HostPattern>,
    /// The paths that the route matches.
    pub path: PathPattern,
    /// The methods that the route matches. If GET is in this list, HEAD is as well. `None` matches any method.
    pub methods: Option<Vec<Method>>,
    /// The parameters and headers that requests must have. `None` means no such condition.
    pub conditions: Option<Box<Conditions>>,
    /// The treatment of encoded slashes in paths of requests.
    pub encoded_slashes: EncodedSlashes,
}

impl RouteShape {
    /// Returns whether this route matches each host that `other` matches.
    pub(crate) fn covers_hosts(&self, other: &Self) -> bool {
        let is_covered = |own: &HostPattern| other.host.as_ref().is_some_and(|it| own.covers(it));
        self.host.as_ref().is_none_or(is_covered)
    }

    /// Returns whether this route matches each query and each set of headers that `other` matches.
    pub(crate) fn covers_conditions(&self, other: &Self) -> bool {
        let conditions = self.conditions.as_ref();
        conditions.is_none_or(|own| own.cover(other.conditions.as_deref()))
    }
}

name!(
    /// The name of a route.
    pub(crate) RouteName,
    "a route's name",
    "1 to 128 characters, without control characters",
    |c| !c.is_control()
);

/// The note in the error for an empty list of `methods`.
pub(crate) const NO_METHODS: &str = "no request can match: leave out `methods` for any method";

/// The usual methods. A method that differs from a usual method by one typing mistake gets a warning.
const USUAL: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Reads a list of methods, and refuses repetitions. If `served` has the methods of the route, refuses methods that are not among them.
/// `empty` is the note in the error for an empty list.
pub(crate) fn methods(
    check: &mut Check<'_>,
    written: &Spanned<Vec<Scalar<Method>>>,
    served: Option<&[Method]>,
    empty: &str,
) -> Vec<Method> {
    if written.value.is_empty() {
        check.refuse(Problem::new(written.place, "this list is empty").note(empty));
    }
    let mut methods = Vec::new();
    for scalar in &written.value {
        let Some(method) = check.read(scalar) else {
            continue;
        };
        if let Some(meant) = slip(method.as_str(), USUAL) {
            let problem = Problem::new(scalar.place, format!("`{method}` is no registered method"));
            check.warn(problem.note(format!("did you mean `{meant}`?")));
        }
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

/// Refuses a path with an encoded slash if the gateway rejects all requests with encoded slashes. Warns of a segment such as `:id`, which
/// other routers read as the name of a parameter.
pub(crate) fn literal(
    check: &mut Check<'_>,
    path: &PathPattern,
    place: Option<Place>,
    slashes: Option<EncodedSlashes>,
) {
    let text = path.to_string();
    let slash = ["%2F", "%5C"]
        .into_iter()
        .find(|slash| text.contains(slash));
    if let Some(slash) = slash.filter(|_| slashes != Some(EncodedSlashes::Keep)) {
        let message = format!("no request can match: `{slash}` in a path is answered with 400");
        let problem = Problem::new(place, message);
        check.refuse(problem.note("write `encoded_slashes: keep` on this route to let it through"));
    }
    let is_name = |name: &&str| {
        let letters = name.strip_prefix(':').unwrap_or_default();
        letters.starts_with(|c: char| c.is_ascii_alphabetic())
    };
    if let Some(name) = text.split('/').find(is_name) {
        let problem = Problem::new(place, format!("`{name}` matches only these letters"));
        let written = &name[1..];
        check.warn(problem.note(format!(
            "a segment that may be anything is written `{{{written}}}`"
        )));
    }
}

/// Adds HEAD to a list that contains GET, because a server that answers GET also answers HEAD.
pub(crate) fn with_head(mut methods: Vec<Method>) -> Vec<Method> {
    if methods.contains(&Method::GET) && !methods.contains(&Method::HEAD) {
        methods.push(Method::HEAD);
    }
    methods
}

#[cfg(test)]
mod tests;

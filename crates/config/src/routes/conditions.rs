//! `query`, `request_has`: the parameters and headers that a request must have to match the route.

use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::hash::Hash;

use crate::yaml::{Place, Problem};
use http::{HeaderName, HeaderValue};
use tidegate_identity::Clients;
use tidegate_net::headers::is_ours;

use crate::check::Check;
use crate::routes::Route;
use crate::routes::variables::no_wildcard;
use crate::value::header::HeaderText;
use crate::value::net::{ParameterName, ParameterText};
use crate::value::{Scalar, Value};

/// The parameters and headers that a request must have to match a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Parameters of the query with their values, without escapes.
    pub query: Vec<(Box<str>, Box<str>)>,
    /// Headers with their values.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Conditions {
    /// Whether each request that meets the conditions `others` also meets these conditions. `None` means that `others` has no condition.
    pub(crate) fn cover(&self, others: Option<&Self>) -> bool {
        let none = Self::default();
        let others = others.unwrap_or(&none);
        self.query.iter().all(|one| others.query.contains(one))
            && self.headers.iter().all(|one| others.headers.contains(one))
    }

    /// Adds the names of parameters and headers to a route's name. Leaves out their values, which may be secrets.
    pub(crate) fn describe(&self, name: &mut String) {
        let parameters: Vec<&str> = self.query.iter().map(|(name, _)| &**name).collect();
        if !parameters.is_empty() {
            name.push('?');
            name.push_str(&parameters.join("&"));
        }
        for (header, _) in &self.headers {
            name.push(' ');
            name.push_str(header.as_str());
        }
    }

    /// Writes a line with the conditions. Leaves out the values of headers, which may be secrets.
    pub(crate) fn explain(&self, text: &mut String) -> fmt::Result {
        let query = self
            .query
            .iter()
            .map(|(name, value)| format!("{name}={value} in the query"));
        let headers = self
            .headers
            .iter()
            .map(|(name, _)| format!("one value of {name}"));
        let all: Vec<_> = query.chain(headers).collect();
        writeln!(text, "takes:    requests with {}", all.join(", "))
    }
}

/// Reads the conditions of a route, if it has any.
pub(crate) fn conditions(
    check: &mut Check<'_>,
    route: &Route,
    clients: &Clients,
) -> Option<Box<Conditions>> {
    let mut conditions = Conditions::default();
    let mut seen = HashSet::new();
    for (name, value) in route.query.iter().flat_map(|query| &query.0) {
        let (value, place) = (check.read(value), value.place);
        if let Some(ParameterName(name)) =
            once(check, name, &mut seen, |ParameterName(it)| it.clone())
            && let Some(ParameterText(value)) = value
        {
            no_wildcard(check, &value, place);
            no_escape(check, &value, place);
            conditions.query.push((name.into(), value.into()));
        }
    }
    let vouched: Vec<_> = clients.vouched_headers().cloned().collect();
    let mut seen = HashSet::new();
    for (name, value) in route.request_has.iter().flat_map(|headers| &headers.0) {
        let (place, value_place) = (name.place, value.place);
        let value = check.read_hidden(value);
        let Some(name) = once(check, name, &mut seen, HeaderName::clone) else {
            continue;
        };
        if is_ours(&name, &vouched) {
            let message = format!("a route cannot choose requests by the header `{name}`");
            let note =
                "it belongs to the connection, or says where a request or a client comes from";
            check.refuse(Problem::new(place, message).note(note).without_line());
        } else if let Some(HeaderText(value)) = value {
            no_wildcard(check, value.to_str().unwrap_or_default(), value_place);
            conditions.headers.push((name, value));
        }
    }
    (conditions != Conditions::default()).then(|| Box::new(conditions))
}

/// Warns of an escape, such as `%20`, in a value that is compared without escapes.
fn no_escape(check: &mut Check<'_>, value: &str, place: Option<Place>) {
    let mut escapes = value.split('%').skip(1);
    let is_escape = |rest: &str| {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit);
        digits.take(2).count() == 2
    };
    if escapes.any(is_escape) {
        let problem = Problem::new(place, "this value is compared without escapes").without_line();
        check.warn(problem.note("write the characters themselves, such as `a b` for `a%20b`"));
    }
}

/// Reads the name of a parameter or header. Refuses a name that is already in `seen`.
fn once<T: Value, K: Eq + Hash>(
    check: &mut Check<'_>,
    scalar: &Scalar<T>,
    seen: &mut HashSet<K>,
    key: impl Fn(&T) -> K,
) -> Option<T> {
    let name = check.read_hidden(scalar)?;
    if seen.insert(key(&name)) {
        return Some(name);
    }
    let message = format!("`{}` is here twice", scalar.raw);
    // The value in the same line may be a secret, so the error does not show the line.
    check.refuse(Problem::new(scalar.place, message).without_line());
    None
}

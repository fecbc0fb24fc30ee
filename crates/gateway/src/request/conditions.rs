//! Compares the query and the headers of a request with the conditions of a route.
//!
//! A condition is met only if the request has the parameter or the header exactly once, with the expected value. Servers differ in which of
//! several values they read. So a request with the expected value and further values is ambiguous, and the gateway refuses it.

use http::header::ACCESS_CONTROL_REQUEST_HEADERS;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_config::routes::Conditions;
use tidegate_net::headers::tokens;
use tidegate_tower::query_values;

/// Whether a request meets a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    No,
    Yes,
    /// The request has the expected value and further values. Some servers would read the expected value, and some would read another.
    Unclear,
}

impl Met {
    /// Compares `values` with the expected value. Only a single value can meet the condition.
    fn by<T>(values: impl Iterator<Item = T>, is_right: impl Fn(T) -> bool) -> Self {
        let (count, right) = values.fold((0_usize, false), |(count, right), value| {
            (count + 1, right || is_right(value))
        });
        match (count, right) {
            (1, true) => Self::Yes,
            (_, true) => Self::Unclear,
            (_, false) => Self::No,
        }
    }
}

/// Returns `Met::No` if a condition is not met, `Met::Unclear` if the result of a condition is unclear, and otherwise `Met::Yes`. A CORS
/// preflight contains only the names of the announced request's headers. So for a preflight the values of headers are not compared.
pub(crate) fn meets(
    conditions: &Conditions,
    query: Option<&str>,
    headers: &HeaderMap,
    is_preflight: bool,
) -> Met {
    let parameters = conditions.query.iter();
    let parameters = parameters.map(|(name, value)| has_parameter(query, name, value));
    let header_met = |(name, value): &(HeaderName, HeaderValue)| match is_preflight {
        true => names_header(headers, name),
        false => has_header(headers, name, value),
    };
    let mut all = Met::Yes;
    for met in parameters.chain(conditions.headers.iter().map(header_met)) {
        match met {
            Met::No => return Met::No,
            Met::Unclear => all = Met::Unclear,
            Met::Yes => {}
        }
    }
    all
}

pub(crate) fn has_parameter(query: Option<&str>, name: &str, value: &str) -> Met {
    let values = query.into_iter().flat_map(|it| query_values(it, name));
    Met::by(values, |it| *it == *value.as_bytes())
}

pub(crate) fn has_header(headers: &HeaderMap, name: &HeaderName, value: &HeaderValue) -> Met {
    let values = headers.get_all(name).iter();
    let values = values.map(|value| value.as_bytes().trim_ascii());
    Met::by(values, |it| *it == *value.as_bytes())
}

fn names_header(headers: &HeaderMap, name: &HeaderName) -> Met {
    let mut named = tokens(headers, &ACCESS_CONTROL_REQUEST_HEADERS);
    match named.any(|token| token.eq_ignore_ascii_case(name.as_str())) {
        true => Met::Yes,
        false => Met::No,
    }
}

#[cfg(test)]
mod tests;

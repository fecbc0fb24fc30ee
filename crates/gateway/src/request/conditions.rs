//! Whether a request says what a route asks of its query and headers.
//!
//! A value counts only if it is there once. Servers differ in which of several values they read. So a request that says one of them
//! as asked, and another beside it, may be meant for two routes, and is refused.

use http::header::ACCESS_CONTROL_REQUEST_HEADERS;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_config::routes::Conditions;
use tidegate_net::headers::tokens;
use tidegate_tower::query_values;

/// What a request is asked for beside its host, path and method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    /// Whether it is a CORS preflight, which names the headers of the request that it asks about, and no values.
    pub(crate) is_preflight: bool,
}

/// Whether something that is asked for is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    No,
    Yes,
    /// Some servers would say so, and others would not.
    Unclear,
}

impl Met {
    /// Of `values`, exactly one may be there.
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

impl Said<'_> {
    /// Whether all conditions are met. If one is not, the others do not matter.
    pub(crate) fn meets(&self, conditions: &Conditions) -> Met {
        let query = conditions.query.iter();
        let query = query.map(|(name, value)| self.has_parameter(name, value));
        let headers = conditions.headers.iter();
        let headers = headers.map(|(name, value)| self.has_header(name, value));
        let mut all = Met::Yes;
        for met in query.chain(headers) {
            match met {
                Met::No => return Met::No,
                Met::Unclear => all = Met::Unclear,
                Met::Yes => {}
            }
        }
        all
    }

    pub(crate) fn has_parameter(&self, name: &str, value: &str) -> Met {
        let values = self.query.into_iter();
        let values = values.flat_map(|query| query_values(query, name));
        Met::by(values, |found| *found == *value.as_bytes())
    }

    pub(crate) fn has_header(&self, name: &HeaderName, value: &HeaderValue) -> Met {
        if self.is_preflight {
            let mut named = tokens(self.headers, &ACCESS_CONTROL_REQUEST_HEADERS);
            return match named.any(|token| token.eq_ignore_ascii_case(name.as_str())) {
                true => Met::Yes,
                false => Met::No,
            };
        }
        let values = self.headers.get_all(name).iter();
        let values = values.map(|value| value.as_bytes().trim_ascii());
        Met::by(values, |found| *found == *value.as_bytes())
    }
}

#[cfg(test)]
mod tests;

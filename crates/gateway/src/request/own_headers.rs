//! Headers that `response_headers` adds to the gateway's own answers, such as `Strict-Transport-Security` to a 429.

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_config::routes::HeaderEdits;
use tidegate_net::headers::describes_answer;

/// Headers of the gateway's own answers.
#[derive(Debug)]
pub(crate) struct OwnHeaders(Box<[(HeaderName, HeaderValue)]>);

impl OwnHeaders {
    /// Takes the headers that `edits` sets, except headers that describe a single answer. For example, operators set `Cache-Control` for the
    /// upstream's pages. If a refusal had this header, a cache could store the refusal.
    pub(crate) fn of(edits: &HeaderEdits) -> Self {
        let set = edits.set.iter();
        let set = set.filter(|(name, _)| !describes_answer(name));
        Self(set.cloned().collect())
    }

    /// Adds each header that the answer does not have yet.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0 {
            headers.entry(name).or_insert_with(|| value.clone());
        }
    }
}

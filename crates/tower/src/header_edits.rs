//! Changes of headers, before or after limits have read them.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

/// Headers that are set and removed.
#[derive(Clone, Debug, Default)]
pub struct HeaderEdits {
    /// In place of whatever was there.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// All of that name.
    pub remove: Vec<HeaderName>,
}

impl HeaderEdits {
    /// Makes the changes.
    pub fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
    }
}

/// In the extensions of an answer to a request with a [`Transmission`](crate::Transmission): changes of its headers. The limits read the cost
/// from the headers as they came. Then these changes are made, and then the headers that tell of limits are written.
#[derive(Clone, Debug)]
pub struct LateEdits(pub Arc<HeaderEdits>);

//! Questions of other programs: may a request pass that another process carries?
//!
//! A question has no request that this process could forward. It names the rules to charge, and for each rule the values that the rule is
//! counted per. A question never waits: if a limit delays its requests, the answer has the time to wait.

use http::Request;

/// The entries of a descriptor, in the extensions of a question's request.
#[derive(Clone, Debug, Default)]
pub struct Descriptor(pub Vec<(Box<str>, Box<str>)>);

impl Descriptor {
    /// Returns all values under a key of the request's descriptor, in their order.
    pub(crate) fn values<'a, B>(
        request: &'a Request<B>,
        key: &str,
    ) -> impl Iterator<Item = &'a str> {
        let descriptor = request.extensions().get::<Self>();
        let entries = descriptor.into_iter().flat_map(|it| &it.0);
        let of_key = entries.filter(move |(other, _)| **other == *key);
        of_key.map(|(_, value)| &**value)
    }
}

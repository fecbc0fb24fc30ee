//! Headers of requests and answers.

use http::HeaderMap;

/// Returns the value of a header. Panics if the header has several values, or if the value is not text.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values
        .next()?
        .to_str()
        .unwrap_or_else(|_| panic!("{name} is not text"));
    assert!(values.next().is_none(), "{name} is there more than once");
    Some(value)
}

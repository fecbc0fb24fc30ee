//! Reads the largest number in a header.

use http::{HeaderMap, HeaderName};

/// Returns the largest of the numbers in a header. So if a client sends a small number, the larger number that a proxy appends still
/// counts. Ignores text that is not a whole number.
pub(crate) fn largest(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let values = headers.get_all(name).iter();
    let values = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    values.filter_map(number).max()
}

/// Parses a number in decimal digits. A number above `u64::MAX` is read as `u64::MAX`.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    Some(digits.parse().unwrap_or(u64::MAX))
}

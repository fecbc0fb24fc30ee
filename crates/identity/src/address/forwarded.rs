//! `Forwarded` (RFC 7239), read from its right end.
//!
//! The client may have written the left end of the header. A quote that the client opened must not swallow the elements that proxies
//! appended. So elements are cut off from the right, where trusted proxies write.

use std::iter;
use std::net::IpAddr;

/// Returns the hops of one header line, the last hop first. A hop is `None` if its address is hidden, missing or malformed.
pub(super) fn hops(line: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    // Empty elements of a list are skipped (RFC 9110, 5.6.1).
    let elements = rsplit_unquoted(line, b',').filter(|element| !element.trim_ascii().is_empty());
    elements.map(|element| {
        let mut named = rsplit_unquoted(element, b';').filter_map(|pair| {
            let (name, value) = pair.split_at(pair.iter().position(|byte| *byte == b'=')?);
            name.trim_ascii()
                .eq_ignore_ascii_case(b"for")
                .then_some(&value[1..])
        });
        // An element with two `for` parameters has no valid hop.
        let (first, second) = (named.next(), named.next());
        first.filter(|_| second.is_none()).and_then(node)
    })
}

/// Returns the address of a node such as `192.0.2.1`, `"192.0.2.1:4711"` or `"[2001:db8::1]:4711"`. `None` for `unknown` and for hidden
/// names such as `_hidden`. The node's port may be hidden.
fn node(value: &[u8]) -> Option<IpAddr> {
    let value = value.trim_ascii();
    let quoted = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""));
    let value = quoted.unwrap_or(value);
    super::parse(without_hidden_port(value).unwrap_or(value))
}

/// Removes a hidden port, such as `_gate` of `192.0.2.1:_gate` (RFC 7239, 6.3). `None` if the port is not hidden.
fn without_hidden_port(value: &[u8]) -> Option<&[u8]> {
    let colon = value.iter().rposition(|byte| *byte == b':')?;
    let (address, port) = (&value[..colon], value[colon + 1..].strip_prefix(b"_")?);
    let is_hidden = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let ends_in_digit = address.last().is_some_and(u8::is_ascii_digit);
    let is_whole = address.ends_with(b"]") || ends_in_digit && !address.contains(&b':');
    (is_whole && !port.is_empty() && port.iter().all(is_hidden)).then_some(address)
}

/// Splits `text` at each separator outside of quotes. Returns the last part first.
fn rsplit_unquoted(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    iter::from_fn(move || {
        let text = rest?;
        let mut quoted = false;
        for (index, byte) in text.iter().enumerate().rev() {
            if *byte == b'"' && !is_escaped(text, index) {
                quoted = !quoted;
            } else if *byte == separator && !quoted {
                rest = Some(&text[..index]);
                return Some(&text[index + 1..]);
            }
        }
        rest = None;
        Some(text)
    })
}

/// Whether the character at `index` is escaped, because an odd number of backslashes stands before it.
fn is_escaped(text: &[u8], index: usize) -> bool {
    let before = text[..index].iter().rev();
    before.take_while(|byte| **byte == b'\\').count() % 2 == 1
}

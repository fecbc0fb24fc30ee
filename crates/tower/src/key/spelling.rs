//! Spellings that some servers take for one.

use std::borrow::Cow;

use crate::query::decoded;

/// Whether servers may take `found` for `name`: some ignore case, and PHP makes one of all characters but letters and digits.
pub(super) fn folds_to(found: &[u8], name: &str) -> bool {
    let fold = |byte: &u8| match byte {
        byte if byte.is_ascii_alphanumeric() => byte.to_ascii_lowercase(),
        _ => b'_',
    };
    found.iter().map(fold).eq(name.as_bytes().iter().map(fold))
}

/// A value without its percent-encoding, which only some servers decode.
pub(super) fn percent_decoded(value: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match value.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        true => Cow::Owned(decoded(&value).collect()),
        false => value,
    }
}

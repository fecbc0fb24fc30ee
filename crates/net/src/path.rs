//! Normalises the paths of requests: `/api//login`, `/api/x/../login` and `/api/%6Cogin` all become `/api/login`.
//!
//! A path is normalised once. Route, key and upstream use the result, so another spelling of a path does not get another budget. A path
//! that servers may read in different ways is refused. This module must not depend on routes, queries or any other part of HTTP.

use std::borrow::Cow;

/// Returns the normal form of a path, borrowed if the path is already normal.
///
/// Dot segments are resolved, and `//` becomes `/`. Escapes of unreserved characters are decoded once. All other escapes get upper-case
/// digits. A trailing slash and `;parameters` remain in the path.
///
/// # Errors
///
/// The path is invalid, or servers may read it in different ways.
pub fn normalize(raw: &str, slashes: EncodedSlashes) -> Result<Cow<'_, str>, PathError> {
    if !raw.starts_with('/') {
        return Err(PathError::Relative);
    }
    if is_normal(raw.as_bytes(), slashes) {
        return Ok(Cow::Borrowed(raw));
    }
    let path = respell(raw, slashes)?;
    Ok(match path == raw {
        true => Cow::Borrowed(raw),
        false => Cow::Owned(path),
    })
}

/// The number of times that a segment is decoded to find hidden dot segments, because some servers decode a path several times.
const DECODINGS: usize = 4;

/// The treatment of `%2F` and `%5C`. Some servers treat them as ordinary characters, others as `/`.
///
/// The treatment depends on the route, but the path must match a route first. So normalise first with [`Reject`](Self::Reject). After
/// [`PathError::EncodedSlash`], normalise again with [`Keep`](Self::Keep). Use the second result only if the matching route keeps encoded
/// slashes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EncodedSlashes {
    /// The path is refused.
    #[default]
    Reject,
    /// The escapes remain in the path, as a part of their segment. A dot segment between two such escapes is refused.
    Keep,
}

/// The reason why a path is refused. The texts contain no part of the path, so they may be sent to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path does not start with `/`.
    #[error("the path does not start with a slash")]
    Relative,
    /// A `\`, which some servers read as `/`.
    #[error("the path has a backslash")]
    Backslash,
    /// A character outside ASCII that is not escaped.
    #[error("the path has a character outside ASCII that is not percent-encoded")]
    NotAscii,
    /// A control character, a space, `?` or `#` that is not escaped.
    #[error("the path has a character that must be percent-encoded")]
    Character,
    /// A broken escape: `%zz`, or `%2` at the end.
    #[error("the path has a percent sign without two hexadecimal digits")]
    BrokenEscape,
    /// An escaped slash or backslash, `%2F` or `%5C`, under [`EncodedSlashes::Reject`].
    #[error("the path has a percent-encoded slash or backslash")]
    EncodedSlash,
    /// An escaped control character: `%00` to `%1F`, or `%7F`.
    #[error("the path has a percent-encoded control character")]
    EncodedControl,
    /// An escape that never occurs in UTF-8, such as the start of an overlong encoding of `/`.
    #[error("the path has a percent-encoded byte that is not UTF-8")]
    NotUtf8,
    /// A dot segment with parameters, such as `..;a`. Some servers read it as `..`.
    #[error("the path has a dot segment with parameters")]
    DotParameters,
    /// A hidden dot segment: `..%2F`, `..%3B` or `%252e%252e`. Some servers decode it and then read it as `..`.
    #[error("the path has a dot segment that appears when it is decoded")]
    HiddenDots,
}

/// Returns a part of a normal path in the form that routes and keys compare.
///
/// A normal path may contain `+` or `%2B`. Both are forwarded as received, because some upstreams distinguish them. But both must match the
/// same route and key, so [`plain`] returns `+` for both. [`plain`] does not decode `%3B`, because a bare `;` would begin parameters.
pub fn plain(part: &str) -> Cow<'_, str> {
    if !has_escape(part) || is_plainly(part, part) {
        return Cow::Borrowed(part);
    }
    Cow::Owned(plain_bytes(part).map(char::from).collect())
}

/// Whether [`plain`] would return `expected`. Unlike `plain`, this never allocates.
pub fn is_plainly(part: &str, expected: &str) -> bool {
    if !has_escape(part) {
        return part == expected;
    }
    plain_bytes(part).eq(expected.bytes())
}

/// Returns whether a part has a `%`. For texts as short as segments, `str::contains` would be slower.
fn has_escape(part: &str) -> bool {
    part.bytes().any(|byte| byte == b'%')
}

fn plain_bytes(part: &str) -> impl Iterator<Item = u8> {
    let is_letter = |byte| Kind::of(byte) == Kind::Plain && byte != b';';
    unescaped(part.as_bytes(), is_letter)
}

/// Returns the bytes of a text. Decodes, once, the escapes of bytes for which `is_decoded` is true.
fn unescaped(text: &[u8], is_decoded: impl Fn(u8) -> bool) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        let byte = decode(rest).filter(|&byte| is_decoded(byte));
        rest = if byte.is_some() { &rest[3..] } else { after };
        Some(byte.unwrap_or(first))
    })
}

/// Whether a path is already normal. If not, the path may also be invalid.
fn is_normal(path: &[u8], slashes: EncodedSlashes) -> bool {
    path.iter()
        .enumerate()
        .all(|(at, &byte)| match Kind::of(byte) {
            Kind::Plain => true,
            Kind::Slash => !starts_dot_or_empty_segment(&path[at + 1..]),
            Kind::Percent => escaped(&path[at..], slashes).is_ok_and(|byte| {
                !is_unreserved(byte)
                    && !may_hide(byte)
                    && !path[at + 1..at + 3].iter().any(u8::is_ascii_lowercase)
            }),
            Kind::Escape | Kind::Refuse(_) => false,
        })
}

fn starts_dot_or_empty_segment(rest: &[u8]) -> bool {
    let name = match rest {
        [b'.', b'.', after @ ..] | [b'.', after @ ..] => after,
        _ => return rest.starts_with(b"/"),
    };
    matches!(name, [] | [b'/' | b';', ..])
}

fn respell(raw: &str, slashes: EncodedSlashes) -> Result<String, PathError> {
    let mut path = String::with_capacity(raw.len() + 2);
    for segment in raw[1..].split('/') {
        if !path.ends_with('/') {
            path.push('/');
        }
        let start = path.len();
        respell_segment(&mut path, segment.as_bytes(), slashes)?;
        // Dot segments are checked after decoding, because dots may be escaped.
        match &path[start..] {
            "." => path.truncate(start),
            ".." => {
                let parent = path[..start - 1].rfind('/').unwrap_or(0);
                path.truncate(parent + 1);
            }
            name if name.starts_with(".;") || name.starts_with("..;") => {
                return Err(PathError::DotParameters);
            }
            name if hides_dots(name) => return Err(PathError::HiddenDots),
            _ => {}
        }
    }
    Ok(path)
}

/// Whether an escape of this byte may hide a dot segment. The bytes are slashes, the start of parameters, and the start of a nested escape.
const fn may_hide(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\' | b';' | b'%')
}

/// Whether a dot segment appears when a normalised segment is decoded up to `DECODINGS` times.
fn hides_dots(segment: &str) -> bool {
    if !escapes(segment).any(|byte| byte.is_some_and(may_hide)) {
        return false;
    }
    let mut text = segment.as_bytes().to_vec();
    for _ in 0..DECODINGS {
        let decoded = decoded(&text);
        if decoded.len() == text.len() {
            return false;
        }
        text = decoded;
        let mut pieces = text.split(|byte| matches!(byte, b'/' | b'\\'));
        if pieces.any(is_dot_segment) {
            return true;
        }
    }
    false
}

/// Whether this is `.` or `..`, with or without parameters.
fn is_dot_segment(piece: &[u8]) -> bool {
    let name = piece.split(|byte| *byte == b';').next();
    matches!(name, Some(b"." | b".."))
}

fn respell_segment(
    path: &mut String,
    mut rest: &[u8],
    slashes: EncodedSlashes,
) -> Result<(), PathError> {
    while let Some(&first) = rest.first() {
        let mut taken = 1;
        match Kind::of(first) {
            Kind::Plain | Kind::Slash => path.push(char::from(first)),
            Kind::Escape => push_escape(path, first),
            Kind::Refuse(error) => return Err(error),
            Kind::Percent => {
                let byte = escaped(rest, slashes)?;
                taken = 3;
                if is_unreserved(byte) {
                    path.push(char::from(byte));
                } else {
                    push_escape(path, byte);
                }
            }
        }
        rest = &rest[taken..];
    }
    Ok(())
}

fn push_escape(path: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    path.push('%');
    path.push(char::from(DIGITS[usize::from(byte >> 4)]));
    path.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// Decodes the escape at the start of `rest`. Fails if a path may not contain the byte.
fn escaped(rest: &[u8], slashes: EncodedSlashes) -> Result<u8, PathError> {
    let byte = decode(rest).ok_or(PathError::BrokenEscape)?;
    let next = || rest.get(3..).and_then(decode);
    match byte {
        0x00..=0x1F | 0x7F => Err(PathError::EncodedControl),
        b'/' | b'\\' if slashes == EncodedSlashes::Reject => Err(PathError::EncodedSlash),
        0xC0 | 0xC1 | 0xF5..=0xFF => Err(PathError::NotUtf8),
        // These bytes begin overlong encodings of three and four bytes. A careless decoder reads `%E0%80%AF` as `/`.
        0xE0 if matches!(next(), Some(0x80..=0x9F)) => Err(PathError::NotUtf8),
        0xF0 if matches!(next(), Some(0x80..=0x8F)) => Err(PathError::NotUtf8),
        byte => Ok(byte),
    }
}

/// Decodes the escape at the start of `rest`, or returns `None` without an escape.
pub fn decode(rest: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = rest else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()
}

/// Decodes the escapes of a part of a path. Returns `None` if an escape is broken, or if the result is not UTF-8.
pub fn decoded_part(part: &str) -> Option<String> {
    if escapes(part).any(|byte| byte.is_none()) {
        return None;
    }
    String::from_utf8(decoded(part.as_bytes())).ok()
}

/// Returns the decoded byte for each `%` of a part, or `None` for a `%` without an escape.
fn escapes(part: &str) -> impl Iterator<Item = Option<u8>> {
    let signs = part.match_indices('%');
    signs.map(|(at, _)| decode(&part.as_bytes()[at..]))
}

/// Decodes every escape once.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    decoded.extend(unescaped(text, |_| true));
    decoded
}

/// The kind of a bare byte in a path (RFC 3986, section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Slash,
    Percent,
    /// A byte that is invalid in a URI, but that some clients send. It becomes an escape.
    Escape,
    Refuse(PathError),
}

/// The kind of each byte.
static KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Plain; 256];
    let mut byte = 0;
    while byte < kinds.len() {
        kinds[byte] = Kind::by_rules(byte as u8);
        byte += 1;
    }
    kinds
};

impl Kind {
    fn of(byte: u8) -> Self {
        KINDS[usize::from(byte)]
    }

    const fn by_rules(byte: u8) -> Self {
        match byte {
            _ if is_unreserved(byte) => Self::Plain,
            b'!' | b'$' | b'&'..=b',' | b':' | b';' | b'=' | b'@' => Self::Plain,
            b'/' => Self::Slash,
            b'%' => Self::Percent,
            b'"' | b'<' | b'>' | b'[' | b']' | b'^' | b'`' | b'{' | b'|' | b'}' => Self::Escape,
            b'\\' => Self::Refuse(PathError::Backslash),
            0x80.. => Self::Refuse(PathError::NotAscii),
            _ => Self::Refuse(PathError::Character),
        }
    }
}

const fn is_unreserved(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests;

//! Checks that `path::normalize` follows its rules for any text, and that patterns match its result by their rules.
//!
//! An input's last line is a path. Up to two lines before it are patterns of routes.

#![no_main]

use std::borrow::Cow;

use libfuzzer_sys::{Corpus, fuzz_target};
use tidegate_net::path::EncodedSlashes::{Keep, Reject};
use tidegate_net::path::{EncodedSlashes, PathError, is_plainly, normalize, plain};
use tidegate_net::pattern::PathPattern;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    let mut lines = text.rsplitn(3, '\n');
    let raw = lines.next().unwrap_or_default();
    let patterns: Vec<_> = lines
        .filter_map(|line| PathPattern::parse(line).ok())
        .collect();

    let (rejecting, keeping) = (normalize(raw, Reject), normalize(raw, Keep));
    match &rejecting {
        // `Reject` stops at the first encoded slash, so the results may differ.
        Err(PathError::EncodedSlash) => {}
        other => assert_eq!(*other, keeping, "slashes are the only difference"),
    }
    for (result, slashes) in [(rejecting, Reject), (keeping, Keep)] {
        match result {
            Ok(path) => {
                is_normal(raw, &path, slashes);
                is_one_for_upstreams(&path);
                is_what_all_spellings_become(raw, &path, slashes);
                meets(&patterns, &path);
            }
            Err(error) => is_refused_rightly(raw, error, slashes),
        }
    }
    Corpus::Keep
});

fn is_normal(raw: &str, path: &str, slashes: EncodedSlashes) {
    let again = normalize(path, slashes);
    assert!(
        matches!(again, Ok(Cow::Borrowed(same)) if same == path),
        "{path}: {again:?}"
    );
    assert!(path.starts_with('/') && !path.contains("//"), "{path}");
    assert!(path.len() <= raw.len() * 3, "{path}");
    for segment in path.split('/') {
        let name = segment.split(';').next();
        assert!(!matches!(name, Some("." | "..")), "{path}");
    }
    let bytes = path.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'%' => {
                let digits = path.get(at + 1..at + 3).unwrap_or_default();
                let upper = |b: u8| b.is_ascii_digit() || (b'A'..=b'F').contains(&b);
                assert!(digits.len() == 2 && digits.bytes().all(upper), "{path}");
                let meant = u8::from_str_radix(digits, 16).expect("two digits");
                assert!(!is_unreserved(meant), "{path}");
            }
            b'/' => {}
            // RFC 3986: unreserved characters, sub-delims, `:` and `@`.
            _ => assert!(
                is_unreserved(byte) || b"!$&'()*+,;=:@".contains(&byte),
                "{path}"
            ),
        }
    }
    assert_eq!(path, defined(raw), "by the definition");
}

/// Normalises a path without `normalize`: puts decoded segments on a stack.
fn defined(raw: &str) -> String {
    let mut stack: Vec<String> = Vec::new();
    let mut ends_open = false;
    for segment in raw.split('/').skip(1) {
        let segment = spelled(segment);
        ends_open = matches!(&*segment, "" | "." | "..");
        match &*segment {
            "" | "." => {}
            ".." => drop(stack.pop()),
            _ => stack.push(segment),
        }
    }
    let mut path: String = stack.iter().flat_map(|name| ["/", name]).collect();
    if ends_open || path.is_empty() {
        path.push('/');
    }
    path
}

fn spelled(segment: &str) -> String {
    let mut pieces = segment.split('%');
    let first = pieces.next().unwrap_or_default();
    let escaped = pieces.map(|piece| {
        let meant = u8::from_str_radix(&piece[..2], 16).expect("two digits");
        let escape = match is_unreserved(meant) {
            true => char::from(meant).to_string(),
            false => format!("%{meant:02X}"),
        };
        escape + &bare(&piece[2..])
    });
    std::iter::once(bare(first)).chain(escaped).collect()
}

fn bare(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '<' | '>' | '[' | ']' | '^' | '`' | '{' | '|' | '}' => {
            format!("%{:02X}", u32::from(c))
        }
        _ => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Requires that an upstream that decodes a path once sees the same segments as the gateway.
fn is_one_for_upstreams(path: &str) {
    // A kept encoded slash is no separator, but an upstream may treat it as a separator. So there must be no dot segment beside the encoded
    // slash.
    let disguised = path.replace("%2F", "/").replace("%5C", "/");
    for segment in decoded(&disguised).split(|byte| *byte == b'/').skip(1) {
        let name = segment.split(|byte| *byte == b';').next();
        assert!(!matches!(name, Some(b"." | b"..")), "{path}");
    }
    let kept = path.replace("%2F", "_").replace("%5C", "_");
    let decoded = decoded(&kept);
    for segment in decoded.split(|byte| *byte == b'/').skip(1) {
        assert!(!matches!(segment, b"." | b".."), "{path}");
    }
    assert_eq!(
        decoded.iter().filter(|byte| **byte == b'/').count(),
        kept.matches('/').count(),
        "{path}"
    );
    for (at, &byte) in decoded.iter().enumerate() {
        let next = decoded.get(at + 1).copied();
        assert!(byte >= b' ' && byte != 0x7F && byte != b'\\', "{path}");
        // A careless UTF-8 decoder reads these invalid bytes as ASCII, or drops them. So no decoded path may contain them.
        assert!(!matches!(byte, 0xC0 | 0xC1 | 0xF5..), "{path}");
        assert!(!matches!((byte, next), (0xE0, Some(0x80..0xA0))), "{path}");
        assert!(!matches!((byte, next), (0xF0, Some(0x80..0x90))), "{path}");
    }
}

/// Requires that other spellings of a path are normalised to the same path.
fn is_what_all_spellings_become(raw: &str, path: &str, slashes: EncodedSlashes) {
    // Spellings are made from the client's text and from the normal path. Dot segments in the client's text could hide a bug, and the
    // normal path has none.
    for text in [raw, path] {
        let spellings = [
            text.replace('/', "//"),
            text.replace('/', "/./"),
            text.replace('/', "/%2e/"),
            text.replace('/', "/x/../"),
            text.replace('/', "/x/%2E./"),
            format!("/..{text}"),
            format!("/x/%2e%2E{text}"),
            escaped(text),
            text.replace('~', "%7e"),
        ];
        for spelling in spellings {
            let result = normalize(&spelling, slashes);
            assert_eq!(result.as_deref(), Ok(path), "{spelling}");
        }
    }
    let lower = lower_case_escapes(path);
    assert_eq!(normalize(&lower, slashes).as_deref(), Ok(path), "{lower}");
    // Escapes are decoded once. So `%25` begins no further escape, and a path in which `%25` hides dots is refused.
    let twice = path.replace('%', "%25");
    match normalize(&twice, slashes) {
        Err(error) => assert_eq!(error, PathError::HiddenDots, "{twice}"),
        same => assert_eq!(same.as_deref(), Ok(&*twice)),
    }
}

fn is_refused_rightly(raw: &str, error: PathError, slashes: EncodedSlashes) {
    let has_escape = |wanted: fn(u8) -> bool| decoded_escapes(raw).iter().any(|b| wanted(*b));
    let right = match error {
        PathError::Relative => !raw.starts_with('/'),
        PathError::Backslash => raw.contains('\\'),
        PathError::NotAscii => !raw.is_ascii(),
        PathError::Character => raw.contains(|c: char| c.is_ascii_control() || " ?#".contains(c)),
        PathError::BrokenEscape => raw.contains('%'),
        PathError::EncodedSlash => {
            slashes == Reject && has_escape(|byte| matches!(byte, b'/' | b'\\'))
        }
        PathError::EncodedControl => has_escape(|byte| byte.is_ascii_control()),
        PathError::NotUtf8 => has_escape(|byte| byte >= 0x80),
        PathError::DotParameters => raw.contains(';'),
        PathError::HiddenDots => has_escape(|byte| matches!(byte, b'/' | b'\\' | b';' | b'%')),
    };
    assert!(right, "{raw}: {error}");
    let doubled = raw.replace('/', "//");
    assert_eq!(normalize(&doubled, slashes), Err(error), "{doubled}");
}

fn meets(patterns: &[PathPattern], path: &str) {
    let open = path.trim_end_matches('/');
    for pattern in patterns {
        let text = pattern.to_string();
        let matches = pattern.matches(path);
        // The gateway forwards these spellings unchanged, but each must match the same route and give the same key as the path.
        let alike = [
            format!("{open}/"),
            format!("{path};v=1"),
            path.replace('+', "%2B"),
            path.replace("%40", "@"),
        ];
        for alike in &alike {
            assert_eq!(pattern.matches(alike), matches, "{text}: {alike}");
        }
        if !matches {
            continue;
        }
        for name in text.split(['{', '}']).skip(1).step_by(2) {
            let value = pattern
                .capture(path, name)
                .expect("a segment for each name");
            assert!(!value.is_empty() && !value.contains(['/', ';']), "{value}");
            assert_eq!(plain(&value), value, "{path}");
            assert!(is_plainly(&value, &value), "{path}");
            for alike in &alike {
                let other = pattern.capture(alike, name);
                assert_eq!(other.as_deref(), Some(&*value), "{text}: {alike}");
            }
        }
    }
    if let [one, other] = patterns
        && one.covers(other)
        && other.matches(path)
    {
        assert!(one.matches(path), "{one} covers {other}: {path}");
    }
    // If the path is also a valid pattern, the pattern must match the path.
    if let Ok(pattern) = PathPattern::parse(path) {
        assert!(pattern.matches(path), "{path}");
        assert!(pattern.covers(&pattern), "{path}");
    }
}

/// Replaces every unreserved character by an escape with lower-case digits. Keeps existing escapes.
fn escaped(text: &str) -> String {
    let mut digits = 0;
    let escape = |c: char| {
        if digits > 0 {
            digits -= 1;
        } else if c == '%' {
            digits = 2;
        } else if c.is_ascii() && is_unreserved(c as u8) {
            return format!("%{:02x}", u32::from(c));
        }
        c.to_string()
    };
    text.chars().map(escape).collect()
}

fn lower_case_escapes(path: &str) -> String {
    let mut digits = 0;
    let lower = |c: char| {
        if c == '%' {
            digits = 3;
        }
        let in_escape = digits > 0;
        digits -= i32::from(in_escape);
        if in_escape { c.to_ascii_lowercase() } else { c }
    };
    path.chars().map(lower).collect()
}

fn decoded(path: &str) -> Vec<u8> {
    let mut pieces = path.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(&piece[..2], 16).expect("two digits"));
        bytes.extend(piece[2..].bytes());
    }
    bytes
}

/// Returns the decoded bytes of the complete escapes in a text.
fn decoded_escapes(raw: &str) -> Vec<u8> {
    let pieces = raw.split('%').skip(1);
    pieces
        .filter_map(|piece| u8::from_str_radix(piece.get(..2)?, 16).ok())
        .collect()
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

//! The trusted header, with the entries that the gateway's parser must accept, and the entries that the parser may accept.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::HeaderName;
use http::header::FORWARDED;

use super::{BARE, ELEMENTS, Lines, X_FORWARDED_FOR};

/// The header that carries the origin. All other headers are ignored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Believed {
    XForwardedFor,
    Forwarded,
}

impl Believed {
    pub(crate) fn name(&self) -> HeaderName {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR,
            Self::Forwarded => FORWARDED,
        }
    }

    pub(crate) fn lines<'a>(&self, lines: &Lines<'a>) -> Vec<&'a [u8]> {
        let believed = lines.iter().filter(|(name, _)| *name == self.name());
        believed.map(|(_, line)| *line).collect()
    }

    pub(crate) fn named<'a>(&self, lines: &[&'a [u8]]) -> Lines<'a> {
        lines.iter().map(|line| (self.name(), *line)).collect()
    }

    pub(crate) fn strangers(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::XForwardedFor => &BARE,
            Self::Forwarded => &ELEMENTS,
        }
    }

    /// Returns the entries of all lines of the trusted header, from left to right.
    pub(crate) fn entries<'a>(&self, lines: &Lines<'a>) -> Vec<&'a [u8]> {
        let entries_of = |line: &&'a [u8]| match self {
            Self::XForwardedFor => line.split(|byte| *byte == b',').collect::<Vec<_>>(),
            // Empty elements are skipped (RFC 9110, 5.6.1).
            Self::Forwarded => outside_quotes(line, b',')
                .into_iter()
                .filter(|element| !element.trim_ascii().is_empty())
                .collect(),
        };
        self.lines(lines).iter().flat_map(entries_of).collect()
    }

    /// Whether a line is complete in itself, because all of its quotes are closed.
    pub(crate) fn is_whole(&self, line: &[u8]) -> bool {
        match self {
            Self::XForwardedFor => true,
            Self::Forwarded => {
                let elements = elements(line);
                if let Some(elements) = &elements {
                    let from_the_right = outside_quotes(line, b',');
                    assert_eq!(elements.len(), from_the_right.len(), "one way to read it");
                }
                elements.is_some()
            }
        }
    }

    /// Returns the address of an entry if the gateway's parser must accept the entry.
    pub(crate) fn surely(&self, entry: &[u8]) -> Option<IpAddr> {
        match self {
            Self::XForwardedFor => surely(entry),
            Self::Forwarded => {
                let elements = elements(entry)?;
                let [pairs] = elements.as_slice() else {
                    return None;
                };
                let mut nodes = pairs
                    .iter()
                    .filter(|(name, _)| name.eq_ignore_ascii_case(b"for"));
                let ((_, node), None) = (nodes.next()?, nodes.next()) else {
                    return None;
                };
                // In `Forwarded` an IPv6 address without brackets is invalid. The gateway accepts it, because its parser for
                // `X-Forwarded-For` reads it, too.
                surely(node)
            }
        }
    }

    /// Returns the address of an entry if the gateway's parser may accept the entry.
    pub(crate) fn perhaps(&self, entry: &[u8]) -> Option<IpAddr> {
        match self {
            Self::XForwardedFor => perhaps(entry),
            Self::Forwarded => {
                let pairs = outside_quotes(entry, b';').into_iter();
                let mut nodes = pairs.filter_map(|pair| {
                    let equals = pair.iter().position(|byte| *byte == b'=')?;
                    let is_for = pair[..equals].trim_ascii().eq_ignore_ascii_case(b"for");
                    is_for.then_some(&pair[equals + 1..])
                });
                // An entry with two addresses is invalid.
                let (node, None) = (nodes.next()?, nodes.next()) else {
                    return None;
                };
                perhaps(node)
            }
        }
    }
}

/// Splits a line at the separators outside of quotes. Counts the quotes from the right end, which is outside of quotes even if a quote was
/// left open further left. Returns the parts from left to right.
fn outside_quotes(line: &[u8], separator: u8) -> Vec<&[u8]> {
    let mut is_quote = vec![false; line.len()];
    let mut escaped = false;
    for (at, byte) in line.iter().enumerate() {
        is_quote[at] = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
    }
    let mut parts = Vec::new();
    let (mut end, mut quotes) = (line.len(), 0);
    for at in (0..line.len()).rev() {
        quotes += usize::from(is_quote[at]);
        if line[at] == separator && quotes % 2 == 0 {
            parts.push(&line[at + 1..end]);
            end = at;
        }
    }
    parts.push(&line[..end]);
    parts.reverse();
    parts
}

/// Returns the elements of a line of `Forwarded`, each with the names and values of its pairs. Reads the line from the left. Returns `None`
/// if the line does not follow the grammar of RFC 7239.
fn elements(line: &[u8]) -> Option<Vec<Vec<Pair>>> {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let token = |text: &mut &[u8]| {
        let length = text.iter().take_while(|byte| is_tchar(**byte)).count();
        let (token, rest) = text.split_at(length);
        *text = rest;
        (length > 0).then(|| token.to_vec())
    };
    let mut rest = line.trim_ascii();
    let mut elements = vec![Vec::new()];
    loop {
        let name = token(&mut rest)?;
        rest = rest.strip_prefix(b"=")?;
        let value = match rest.strip_prefix(b"\"") {
            Some(quoted) => {
                let mut value = Vec::new();
                let mut bytes = quoted.iter().enumerate();
                loop {
                    match bytes.next()? {
                        (at, b'"') => {
                            rest = &quoted[at + 1..];
                            break;
                        }
                        // Escapes stay encoded, because no address needs them.
                        (_, b'\\') => value.extend([b'\\', *bytes.next()?.1]),
                        (_, byte) => value.push(*byte),
                    }
                }
                value
            }
            None => token(&mut rest)?,
        };
        elements.last_mut()?.push((name, value));
        if let Some(next) = rest.strip_prefix(b";") {
            rest = next;
            continue;
        }
        rest = rest.trim_ascii_start();
        match rest.strip_prefix(b",") {
            Some(next) => rest = next.trim_ascii_start(),
            None => return rest.is_empty().then_some(elements),
        }
        elements.push(Vec::new());
    }
}

type Pair = (Vec<u8>, Vec<u8>);

/// Returns the address of an entry in a form that the gateway's parser must accept: bare, `[v6]`, with a port, or with a zone.
fn surely(entry: &[u8]) -> Option<IpAddr> {
    let entry = std::str::from_utf8(entry.trim_ascii()).ok()?;
    let is_port =
        |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok();
    if let Some(rest) = entry.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        let fits = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        return without_zone(inside)?
            .parse()
            .ok()
            .filter(|_| fits)
            .map(Ipv6Addr::into);
    }
    let with_port = || {
        let (host, port) = entry.split_once(':')?;
        host.parse()
            .ok()
            .filter(|_| is_port(port))
            .map(Ipv4Addr::into)
    };
    let with_zone = || {
        without_zone(entry)?
            .parse()
            .ok()
            .map(|address: Ipv6Addr| address.into())
    };
    entry.parse().ok().or_else(with_port).or_else(with_zone)
}

/// Returns the text before the zone, if any. Returns `None` if the zone is invalid.
fn without_zone(text: &str) -> Option<&str> {
    let Some((address, zone)) = text.split_once('%') else {
        return Some(text);
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (!zone.is_empty() && zone.bytes().all(is_plain)).then_some(address)
}

/// Returns the address of an entry in a form that the gateway's parser may accept: also in quotes, with any zone, or with an invalid port.
fn perhaps(entry: &[u8]) -> Option<IpAddr> {
    let entry = std::str::from_utf8(entry).ok()?;
    let entry = entry.trim_matches(|c: char| c.is_whitespace() || c == '"');
    if let Some(rest) = entry.strip_prefix('[') {
        let (inside, _) = rest.split_once(']')?;
        let (address, _zone) = inside.split_once('%').unwrap_or((inside, ""));
        return address.parse().ok();
    }
    let (bare, _zone) = entry.split_once('%').unwrap_or((entry, ""));
    let with_port = || {
        entry
            .split_once(':')
            .and_then(|(host, _)| host.parse().ok())
    };
    bare.parse().ok().or_else(with_port)
}

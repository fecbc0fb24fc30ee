//! The normal form of a request's host, and the patterns of a route's `host`.
//!
//! Matching does not allocate.

use std::borrow::Cow;
use std::fmt;
use std::iter;
use std::net::Ipv6Addr;

/// Returns the host of an authority (`Api.Example.com.:8080`) in lower case, without port and final dot. Returns `None` if the authority is
/// not a host with an optional port.
pub fn host_of(authority: &str) -> Option<Cow<'_, str>> {
    let (name, port) = split_port(authority);
    if !port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit())) {
        return None;
    }
    host(name)
}

/// Splits an authority into its host and its port, if it has a port. The colons of `[::1]` belong to the host.
pub(crate) fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.bytes().rposition(|byte| byte == b':') {
        Some(at) if !authority.ends_with(']') => (&authority[..at], Some(&authority[at + 1..])),
        _ => (authority, None),
    }
}

/// A route's host: a single host, or `*.example.com`. This pattern matches every host below `example.com`, at any depth, but not
/// `example.com` itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// The host as [`host_of`] returns it.
    Exact(String),
    /// The end of all matching hosts: `.example.com` for the pattern `*.example.com`.
    Below(String),
}

impl HostPattern {
    /// Parses a host of the configuration. The text has no port, because every port matches.
    ///
    /// # Errors
    ///
    /// The text is not a host that a request can have.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let pattern = match text.strip_prefix("*.") {
            Some(name) => domain(name).map(|name| Self::Below(format!(".{name}"))),
            None => host(text).map(|host| Self::Exact(host.into_owned())),
        };
        pattern.ok_or_else(|| HostError(text.to_owned()))
    }

    /// Whether this pattern matches a host that [`host_of`] returned.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exact(exact) => host == exact,
            Self::Below(suffix) => host.ends_with(suffix.as_str()),
        }
    }

    /// Returns the labels of the pattern, the last first, with `None` for the wildcard.
    pub fn labels(&self) -> impl Iterator<Item = Option<&str>> + Clone {
        // A suffix begins with the dot after the wildcard.
        let (text, any) = match self {
            Self::Exact(host) => (host.as_str(), None),
            Self::Below(suffix) => (suffix.trim_start_matches('.'), Some(None)),
        };
        labels(text).map(Some).chain(any)
    }

    /// Whether this is a wildcard pattern such as `*.example.com`.
    pub const fn is_below(&self) -> bool {
        matches!(self, Self::Below(_))
    }

    /// Whether this pattern matches every host that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Exact(host)) => self.matches(host),
            (Self::Below(mine), Self::Below(theirs)) => theirs.ends_with(mine.as_str()),
            (Self::Exact(_), Self::Below(_)) => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Below(suffix) => write!(f, "*{suffix}"),
        }
    }
}

/// The reason why a host of the configuration is refused, with the allowed form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not allowed: a host is `api.example.com`, `*.example.com` or an address, without a port"
)]
pub struct HostError(String);

/// Returns the labels of a host, the last first. For texts as short as labels, `str::rsplit` would be slower.
pub fn labels(host: &str) -> impl Iterator<Item = &str> + Clone {
    let mut rest = Some(host);
    iter::from_fn(move || {
        let text = rest?;
        let dot = text.bytes().rposition(|byte| byte == b'.');
        let (before, label) = match dot {
            Some(dot) => (text.get(..dot), text.get(dot + 1..)),
            None => (None, Some(text)),
        };
        rest = before;
        label
    })
}

fn host(text: &str) -> Option<Cow<'_, str>> {
    let Some(bracketed) = text.strip_prefix('[') else {
        return domain(text);
    };
    let address: Ipv6Addr = bracketed.strip_suffix(']')?.parse().ok()?;
    Some(Cow::Owned(format!("[{address}]")))
}

fn domain(text: &str) -> Option<Cow<'_, str>> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let (mut label, mut is_lower) = (0_usize, true);
    for byte in name.bytes() {
        match byte {
            b'.' if label == 0 => return None,
            b'.' => label = 0,
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => label += 1,
            b'A'..=b'Z' => (label, is_lower) = (label + 1, false),
            _ => return None,
        }
    }
    match (label, is_lower) {
        (0, _) => None,
        (_, true) => Some(Cow::Borrowed(name)),
        (_, false) => Some(Cow::Owned(name.to_ascii_lowercase())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        HostPattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_host_matches_on_any_port_and_in_any_case() {
        let meets = |text: &str, authority: &str| {
            host_of(authority).is_some_and(|host| pattern(text).matches(&host))
        };
        for (text, authority) in [
            ("api.example.com", "api.example.com"),
            ("api.example.com", "API.Example.COM.:8080"),
            ("API.example.com.", "api.example.com:"),
            ("*.example.com", "a.example.com"),
            ("*.Example.com", "a.b.EXAMPLE.com:443"),
            ("127.0.0.1", "127.0.0.1:80"),
            ("[::1]", "[::1]"),
            ("[::1]", "[0:0::1]:80"),
            ("my_service", "my_service"),
        ] {
            assert!(meets(text, authority), "{text} matches {authority}");
        }
        for (text, authority) in [
            ("api.example.com", "example.com"),
            ("api.example.com", "x.api.example.com"),
            ("*.example.com", "example.com"),
            ("*.example.com", "aexample.com"),
            ("*.example.com", ".example.com"),
            ("*.example.com", "a.example.com.evil"),
        ] {
            assert!(!meets(text, authority), "{text} does not match {authority}");
        }
    }

    /// Part of S17 (crates/gateway/tests/wire/targets.rs): hosts that two readers could read in two ways.
    #[test]
    fn what_is_not_a_host_has_none() {
        assert_eq!(host_of("a.b:80").as_deref(), Some("a.b"));
        assert!(matches!(host_of("a.b:80"), Some(Cow::Borrowed(_))));
        for authority in [
            "",
            ":80",
            ".",
            "a..b",
            "a.b..",
            "a:b",
            "a:+80",
            "a:80:80",
            "a/../b",
            "a@b",
            "a b",
            "a%41",
            "ä",
            "*.a",
            "::1",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "[::1%25eth0]",
            "[a]",
            "[]",
        ] {
            assert_eq!(host_of(authority), None, "{authority}");
        }
    }

    #[test]
    fn a_refused_host_is_told_what_is_allowed() {
        for text in [
            "",
            "*",
            "*.",
            "*example.com",
            "a.*.com",
            "*.*.com",
            "a.com:80",
            "*.[::1]",
            "http://a",
        ] {
            let error = HostPattern::parse(text).unwrap_err().to_string();
            assert!(
                error.ends_with("`*.example.com` or an address, without a port"),
                "{text}: {error}"
            );
        }
        assert_eq!(pattern("API.example.com.").to_string(), "api.example.com");
        assert_eq!(pattern("*.Example.com").to_string(), "*.example.com");
    }

    #[test]
    fn a_host_covers_what_it_hides() {
        for (one, other) in [
            ("a.b", "A.b"),
            ("*.b", "a.b"),
            ("*.b", "*.b"),
            ("*.b", "*.a.b"),
        ] {
            assert!(pattern(one).covers(&pattern(other)), "{one} covers {other}");
        }
        for (one, other) in [
            ("a.b", "*.b"),
            ("*.b", "b"),
            ("*.a.b", "*.b"),
            ("*.b", "*.ab"),
            ("*.b", "ab"),
        ] {
            assert!(
                !pattern(one).covers(&pattern(other)),
                "{one} does not cover {other}"
            );
        }
    }
}

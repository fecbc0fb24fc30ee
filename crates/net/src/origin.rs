//! Patterns of a route's `cors`, which match the origins of web pages in the header `Origin`.
//!
//! Matching does not allocate, and accepts an origin only in the spelling of browsers.

use std::fmt;

use crate::host::{HostPattern, split_port};

/// A pattern of origins: a single origin, or `https://*.example.com`. The wildcard matches the origins of all hosts below `example.com`, at
/// any depth, but not the origin of `example.com` itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginPattern {
    /// The scheme and its separator: `https://`.
    scheme: String,
    /// The host and port. For `*.example.com`, only `.example.com` and the port.
    rest: String,
    is_below: bool,
}

/// The reason why a text is no valid origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoOrigin {
    /// The text does not have the form of an origin.
    Form,
    /// The text is `null`, which browsers send for all pages without an origin.
    Null,
    /// A path, a query or a fragment follows host and port.
    Path,
    /// The text has the default port of its scheme, which browsers omit.
    UsualPort,
}

impl OriginPattern {
    /// Parses an origin of the configuration.
    ///
    /// # Errors
    ///
    /// The text is not a scheme and a host with an optional port.
    pub fn parse(text: &str) -> Result<Self, NoOrigin> {
        if text == "null" {
            return Err(NoOrigin::Null);
        }
        let (scheme, authority) = text.split_once("://").ok_or(NoOrigin::Form)?;
        if authority.contains(['/', '?', '#']) {
            return Err(NoOrigin::Path);
        }
        let begins = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        if !begins || !scheme.chars().all(goes_on) {
            return Err(NoOrigin::Form);
        }
        let scheme = scheme.to_ascii_lowercase();
        let (host, port) = split_port(authority);
        let number = |port: &str| port.parse().ok().filter(|port: &u16| *port > 0);
        let port = port.map(|port| number(port).ok_or(NoOrigin::Form));
        let port = port.transpose()?;
        if matches!((&*scheme, port), ("http", Some(80)) | ("https", Some(443))) {
            return Err(NoOrigin::UsualPort);
        }
        let host = HostPattern::parse(host).map_err(|_| NoOrigin::Form)?;
        let is_below = host.is_below();
        let (HostPattern::Exact(mut rest) | HostPattern::Below(mut rest)) = host;
        if let Some(port) = port {
            rest.push_str(&format!(":{port}"));
        }
        Ok(Self {
            scheme: scheme + "://",
            rest,
            is_below,
        })
    }

    /// Whether this pattern matches the value of the header `Origin`.
    pub fn matches(&self, origin: &[u8]) -> bool {
        let Some(rest) = origin.strip_prefix(self.scheme.as_bytes()) else {
            return false;
        };
        if !self.is_below {
            return rest == self.rest.as_bytes();
        }
        rest.strip_suffix(self.rest.as_bytes())
            .is_some_and(|labels| labels.split(|byte| *byte == b'.').all(is_label))
    }
}

fn is_label(label: &[u8]) -> bool {
    let is_allowed = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    !label.is_empty() && label.iter().all(is_allowed)
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = if self.is_below { "*" } else { "" };
        write!(f, "{}{any}{}", self.scheme, self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> OriginPattern {
        OriginPattern::parse(text).unwrap_or_else(|why| panic!("{text}: {why:?}"))
    }

    #[test]
    fn an_origin_is_itself_or_one_below() {
        for (text, origin) in [
            ("https://app.example.com", "https://app.example.com"),
            ("HTTPS://App.Example.com", "https://app.example.com"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("https://a.example:80", "https://a.example:80"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("capacitor://localhost", "capacitor://localhost"),
            ("https://*.example.com", "https://a.example.com"),
            ("https://*.example.com", "https://a-1.b_2.example.com"),
            ("https://*.example.com:8443", "https://a.example.com:8443"),
        ] {
            assert!(pattern(text).matches(origin.as_bytes()), "{text}: {origin}");
        }
        for (text, origin) in [
            ("https://app.example.com", "http://app.example.com"),
            ("https://app.example.com", "https://app.example.com:8443"),
            ("https://app.example.com", "https://app.example.com.evil"),
            ("https://app.example.com", "https://app.example.com/"),
            ("https://app.example.com", "https://app.example.com."),
            ("https://app.example.com", "https://x.app.example.com"),
            ("https://app.example.com", ""),
            ("https://app.example.com", "null"),
            ("https://*.example.com", "https://example.com"),
            ("https://*.example.com", "https://.example.com"),
            ("https://*.example.com", "https://a..example.com"),
            ("https://*.example.com", "https://evilexample.com"),
            ("https://*.example.com", "https://evil/.example.com"),
            ("https://*.example.com", "https://evil:1.example.com"),
            ("https://*.example.com", "https://evil#.example.com"),
            ("https://*.example.com", "https://me@a.example.com"),
            ("https://*.example.com", "https://*.example.com"),
            ("https://*.example.com", "https://a.example.com:8443"),
            ("https://*.example.com:8443", "https://a.example.com"),
        ] {
            assert!(
                !pattern(text).matches(origin.as_bytes()),
                "{text}: {origin}"
            );
        }
    }

    #[test]
    fn what_is_no_origin_is_told_apart() {
        use NoOrigin::*;
        for (text, why) in [
            ("", Form),
            ("*", Form),
            ("app.example.com", Form),
            ("https://", Form),
            ("https://*", Form),
            ("https://a.*.com", Form),
            ("https://me@a.example", Form),
            ("https://a.example:0", Form),
            ("https://a.example:port", Form),
            ("https://a.example:*", Form),
            ("https://ä.example", Form),
            ("1s://a.example", Form),
            ("null", Null),
            ("https://a.example/", Path),
            ("https://a.example/app", Path),
            ("https://a.example?x", Path),
            ("https://a.example:443", UsualPort),
            ("http://a.example:80", UsualPort),
        ] {
            assert_eq!(OriginPattern::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn an_origin_is_shown_as_it_is_written() {
        for text in ["https://app.example.com:8443", "https://*.example.com"] {
            assert_eq!(pattern(text).to_string(), text);
        }
    }
}

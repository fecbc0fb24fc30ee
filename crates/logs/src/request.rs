//! Splits request lines and targets into their parts.

use std::ops::Range;

/// The parts of a request line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) method: Range<usize>,
    pub(crate) target: Range<usize>,
    pub(crate) protocol: Option<Range<usize>>,
}

/// The parts of a target.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) scheme: Option<Range<usize>>,
    pub(crate) host: Option<Range<usize>>,
    pub(crate) path: Option<Range<usize>>,
    pub(crate) query: Option<Range<usize>>,
}

/// Returns the parts of `GET /path HTTP/1.1`. `None` if the line is no request. For example, a client may have sent TLS to a port for HTTP.
pub(crate) fn parts(line: &[u8]) -> Option<Parts> {
    let method = memchr::memchr(b' ', line)?;
    if method == 0 || line == b"- - -" || !line[..method].iter().all(|byte| is_token(*byte)) {
        return None;
    }
    let start = method + 1;
    // Servers refuse a target with blanks, but log it unchanged. So the target ends at the blank before `HTTP/`.
    let last = memchr::memrchr(b' ', line).filter(|last| *last >= start);
    let protocol = last.filter(|last| line[last + 1..].starts_with(b"HTTP/"));
    let target = start..protocol.unwrap_or(line.len());
    if target.is_empty() || matches!(&line[..method], b"-") {
        return None;
    }
    Some(Parts {
        method: 0..method,
        target,
        protocol: protocol.map(|last| last + 1..line.len()),
    })
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Returns the parts of `/path?query`, of `http://host/path?query`, and of the `host:port` of CONNECT.
pub(crate) fn target(text: &[u8]) -> Target {
    let mut parts = Target::default();
    let mut start = 0;
    if !text.starts_with(b"/") {
        if text == b"*" {
            parts.path = Some(0..1);
            return parts;
        }
        let scheme = memchr::memmem::find(text, b"://")
            .filter(|at| text[..*at].iter().all(u8::is_ascii_alphabetic));
        let host = match scheme {
            Some(end) => {
                parts.scheme = Some(0..end);
                end + 3
            }
            None => 0,
        };
        let end = text[host..]
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?' | b'#'));
        start = end.map_or(text.len(), |end| host + end);
        // The target of CONNECT is only a host and a port. Any other text is a path without its slash, because the slash may be part of a
        // template's text.
        if scheme.is_none() && (end.is_some() || !text.contains(&b':')) {
            start = 0;
        } else {
            let name = without_default_port(&text[host..start], scheme.map(|end| &text[..end]));
            parts.host = Some(host..host + name);
        }
        if start == text.len() {
            return parts;
        }
    }
    let question = memchr::memchr(b'?', &text[start..]).map(|at| start + at);
    parts.path = Some(start..question.unwrap_or(text.len()));
    parts.query = question.map(|at| at + 1..text.len());
    parts
}

/// Returns the length of a host without the default port of its scheme.
fn without_default_port(host: &[u8], scheme: Option<&[u8]>) -> usize {
    let port: &[u8] = match scheme {
        Some(b"http") => b":80",
        Some(b"https") => b":443",
        _ => b"",
    };
    host.strip_suffix(port).unwrap_or(host).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_line_has_three_parts() {
        let of = |line: &'static str| {
            let parts = parts(line.as_bytes())?;
            let protocol = parts.protocol.map(|range| &line[range]);
            Some((&line[parts.method], &line[parts.target], protocol))
        };
        assert_eq!(
            of("GET /a?b HTTP/1.1"),
            Some(("GET", "/a?b", Some("HTTP/1.1")))
        );
        assert_eq!(
            of("GET /a b HTTP/1.1"),
            Some(("GET", "/a b", Some("HTTP/1.1")))
        );
        assert_eq!(of("GET /a"), Some(("GET", "/a", None)));
        assert_eq!(of("PRI * HTTP/2.0"), Some(("PRI", "*", Some("HTTP/2.0"))));
        for line in [
            "",
            "GET",
            "GET ",
            " / HTTP/1.1",
            "GET HTTP/1.1",
            "- - HTTP/1.1",
            "- http://a:80- -",
            r"\x16\x03 a",
            "<BADREQ>",
        ] {
            assert_eq!(of(line).filter(|it| it.0 != "GET"), None, "{line}");
        }
    }

    #[test]
    fn a_target_may_have_a_host() {
        let of = |text: &'static str| {
            let parts = target(text.as_bytes());
            [parts.scheme, parts.host, parts.path, parts.query]
                .map(|part| part.map_or("-", |range| &text[range]))
        };
        assert_eq!(of("/a?b?c"), ["-", "-", "/a", "b?c"]);
        assert_eq!(of("/a?"), ["-", "-", "/a", ""]);
        assert_eq!(of("//a://b"), ["-", "-", "//a://b", "-"]);
        assert_eq!(of("http://h:8080/a?x=1"), ["http", "h:8080", "/a", "x=1"]);
        assert_eq!(of("https://h:443/"), ["https", "h", "/", "-"]);
        assert_eq!(of("http://h"), ["http", "h", "-", "-"]);
        assert_eq!(of("http://[::1]:5/a"), ["http", "[::1]:5", "/a", "-"]);
        assert_eq!(of("h:443"), ["-", "h:443", "-", "-"]);
        assert_eq!(of("*"), ["-", "-", "*", "-"]);
        assert_eq!(of("a/b:c"), ["-", "-", "a/b:c", "-"]);
    }
}

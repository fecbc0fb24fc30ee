//! A strict reader of HTTP/1.1 messages. It skips no bytes, because a test could not fail on skipped bytes. Request smuggling needs a
//! message that two readers understand differently, so this reader refuses such messages.

use std::fmt;

/// One HTTP/1.1 message, a request or a response, as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The request line or the status line.
    pub start: String,
    /// Names and values in their order. Names have their case from the wire, and bytes beyond ASCII are read as Latin-1.
    pub headers: Vec<(String, String)>,
    /// The body, without its chunks.
    pub body: Vec<u8>,
    /// Names and values after the last chunk.
    pub trailers: Vec<(String, String)>,
}

/// The reason why bytes are not an HTTP/1.1 message that all readers understand in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(String);

/// The rule by which a message's body ends.
enum Framing {
    None,
    Length(usize),
    Chunked,
    Close,
}

/// A part of a message, with its length in bytes, or `None` if more bytes are needed.
type Read<T> = Result<Option<(T, usize)>, Malformed>;
type Fields = Vec<(String, String)>;

impl Message {
    /// Returns the status of a response. Panics on a request.
    pub fn status(&self) -> u16 {
        status_of(&self.start).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Returns the value of a header. The case of its name does not matter. Panics if the header has several values.
    pub fn header(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(
            values.len() <= 1,
            "{name} is there more than once: {values:?}"
        );
        values.first().copied()
    }

    /// Returns all values of a header. The case of its name does not matter.
    pub fn all(&self, name: &str) -> Vec<&str> {
        all(&self.headers, name)
    }

    /// Returns the body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is not text")
    }

    /// Reads all requests in these bytes. The last request must be complete.
    pub fn requests(mut bytes: &[u8]) -> Result<Vec<Self>, Malformed> {
        let mut requests = Vec::new();
        while !bytes.is_empty() {
            let (request, used) =
                Self::request(bytes)?.ok_or_else(|| malformed("cut short", bytes))?;
            requests.push(request);
            bytes = &bytes[used..];
        }
        Ok(requests)
    }

    /// Reads all responses of a closed connection from these bytes. This function cannot read answers to HEAD: their `Content-Length`
    /// counts a body that is not sent.
    pub fn responses(mut bytes: &[u8]) -> Result<Vec<Self>, Malformed> {
        let mut responses = Vec::new();
        while !bytes.is_empty() {
            let (response, used) =
                Self::response(bytes, false, true)?.ok_or_else(|| malformed("cut short", bytes))?;
            responses.push(response);
            bytes = &bytes[used..];
        }
        Ok(responses)
    }

    /// Reads the first request in these bytes.
    pub(crate) fn request(bytes: &[u8]) -> Read<Self> {
        let Some(((start, headers), head)) = head(bytes)? else {
            return Ok(None);
        };
        let parts: Vec<_> = start.split(' ').collect();
        let [method, target, "HTTP/1.1" | "HTTP/1.0"] = parts[..] else {
            return Err(malformed("request line", start.as_bytes()));
        };
        if method.is_empty() || target.is_empty() {
            return Err(malformed("request line", start.as_bytes()));
        }
        let framing = framing(&headers, Framing::None)?;
        Self::with_body(start, headers, framing, bytes, head, false)
    }

    /// Reads the first response in these bytes. `to_head` is true for an answer to HEAD, `closed` if no more bytes will come.
    pub(crate) fn response(bytes: &[u8], to_head: bool, closed: bool) -> Read<Self> {
        let Some(((start, headers), head)) = head(bytes)? else {
            return Ok(None);
        };
        let mut framing = framing(&headers, Framing::Close)?;
        match status_of(&start)? {
            100..200 | 204 if !matches!(framing, Framing::Close) => {
                return Err(malformed(
                    "a body's length where no body may be",
                    start.as_bytes(),
                ));
            }
            100..200 | 204 | 304 => framing = Framing::None,
            _ if to_head => framing = Framing::None,
            _ => {}
        }
        Self::with_body(start, headers, framing, bytes, head, closed)
    }

    fn with_body(
        start: String,
        headers: Fields,
        framing: Framing,
        bytes: &[u8],
        head: usize,
        closed: bool,
    ) -> Read<Self> {
        let rest = &bytes[head..];
        let read = match framing {
            Framing::None => Some(((Vec::new(), Vec::new()), 0)),
            Framing::Length(length) => rest
                .get(..length)
                .map(|body| ((body.to_vec(), Vec::new()), length)),
            Framing::Chunked => chunked(rest)?,
            Framing::Close => closed.then(|| ((rest.to_vec(), Vec::new()), rest.len())),
        };
        Ok(read.map(|((body, trailers), used)| {
            (
                Self {
                    start,
                    headers,
                    body,
                    trailers,
                },
                head + used,
            )
        }))
    }
}

/// Reads the start line, the headers and the empty line after them.
pub(crate) fn head(bytes: &[u8]) -> Read<(String, Fields)> {
    let Some((start, start_length)) = line(bytes)? else {
        return Ok(None);
    };
    let Some((headers, length)) = fields(&bytes[start_length..])? else {
        return Ok(None);
    };
    Ok(Some(((start, headers), start_length + length)))
}

/// Reads header lines and the empty line after them.
fn fields(bytes: &[u8]) -> Read<Fields> {
    let (mut fields, mut used) = (Vec::new(), 0);
    while let Some((line, length)) = line(&bytes[used..])? {
        used += length;
        if line.is_empty() {
            return Ok(Some((fields, used)));
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| malformed("a line without a colon", line.as_bytes()))?;
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) {
            return Err(malformed("name of a header", line.as_bytes()));
        }
        fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    Ok(None)
}

/// Reads a line that ends in CRLF, and returns it without CRLF. The line may contain no other CR, LF or NUL.
fn line(bytes: &[u8]) -> Read<String> {
    let Some(end) = bytes
        .iter()
        .position(|byte| matches!(byte, b'\r' | b'\n' | 0))
    else {
        return Ok(None);
    };
    match &bytes[end..] {
        [b'\r', b'\n', ..] => Ok(Some((
            bytes[..end].iter().copied().map(char::from).collect(),
            end + 2,
        ))),
        [b'\r'] => Ok(None),
        _ => Err(malformed("a bare CR, LF or NUL", &bytes[..=end])),
    }
}

/// Reads chunks, trailers and the empty line after them.
fn chunked(bytes: &[u8]) -> Read<(Vec<u8>, Fields)> {
    let (mut body, mut used) = (Vec::new(), 0);
    while let Some((size_line, length)) = line(&bytes[used..])? {
        used += length;
        let digits = size_line.split(';').next().unwrap_or_default();
        let size =
            number(digits, 16).ok_or_else(|| malformed("size of a chunk", size_line.as_bytes()))?;
        if size == 0 {
            let Some((trailers, length)) = fields(&bytes[used..])? else {
                return Ok(None);
            };
            return Ok(Some(((body, trailers), used + length)));
        }
        match bytes[used..].split_at_checked(size) {
            Some((chunk, [b'\r', b'\n', ..])) => body.extend_from_slice(chunk),
            None | Some((_, [] | [b'\r'])) => return Ok(None),
            Some((_, rest)) => return Err(malformed("a chunk longer than its size", &rest[..2])),
        }
        used += size + 2;
    }
    Ok(None)
}

fn framing(headers: &Fields, otherwise: Framing) -> Result<Framing, Malformed> {
    let (codings, lengths) = (
        all(headers, "transfer-encoding"),
        all(headers, "content-length"),
    );
    match (&codings[..], &lengths[..]) {
        ([], []) => Ok(otherwise),
        ([], [length]) => number(length, 10)
            .map(Framing::Length)
            .ok_or_else(|| malformed("length", length.as_bytes())),
        ([coding], []) if coding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
        _ => Err(Malformed(format!(
            "transfer-encoding {codings:?} and content-length {lengths:?}"
        ))),
    }
}

/// Parses digits only: no sign, no space, no prefix, no overflow.
fn number(digits: &str, radix: u32) -> Option<usize> {
    let digits_only = digits.chars().all(|c| c.is_digit(radix));
    digits_only
        .then(|| usize::from_str_radix(digits, radix).ok())
        .flatten()
        .filter(|&n| n < usize::MAX / 2)
}

fn status_of(start: &str) -> Result<u16, Malformed> {
    let mut parts = start.splitn(3, ' ');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("HTTP/1.1" | "HTTP/1.0"), Some(status), Some(_)) if status.len() == 3 => {
            number(status, 10)
                .filter(|&status| status >= 100)
                .map(|status| status as u16)
        }
        _ => None,
    }
    .ok_or_else(|| malformed("status line", start.as_bytes()))
}

fn all<'a>(fields: &'a Fields, name: &str) -> Vec<&'a str> {
    fields
        .iter()
        .filter(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect()
}

fn malformed(what: &str, bytes: &[u8]) -> Malformed {
    Malformed(format!(
        "{what}: {:?}",
        String::from_utf8_lossy(&bytes[..bytes.len().min(200)])
    ))
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not strict HTTP/1.1: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests;

//! The Common and the Combined Log Format, and formats that begin like them.

mod behind;

use super::cursor::Cursor;
use crate::address::address;
use crate::error::LineError;
use crate::field::Field;
use crate::meaning::{Meaning, Unit};
use crate::record::{Record, Span, Values};
use crate::text::Escape;
use crate::time::number;

/// The meaning of the header `referer`.
const REFERER: Meaning = Meaning::Header(0);
/// The meaning of the header `user-agent`.
const USER_AGENT: Meaning = Meaning::Header(1);

/// The formats with the fields of the Common Log Format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clf {
    Common,
    /// With ` "referer" "user agent"`, like all formats below.
    Combined,
    /// Preceded by a virtual host and its port, as Apache writes it.
    Vhost,
    /// With ` "forwarded for"`, and perhaps a duration.
    NginxMain,
    /// With a duration.
    Timed,
    /// With sizes, durations, upstreams and an ID.
    IngressNginx,
}

/// Reads `192.0.2.7 - alice [22/Nov/2026:15:32:17 +0000] "GET / HTTP/1.1" 200 2326`, and the fields around it.
pub(crate) fn read(line: &[u8], form: Clf, values: &mut Values) -> Result<(), LineError> {
    let mut cursor = Cursor::new(line);
    let mut time = Meaning::End;
    if form == Clf::Vhost {
        vhost(&mut cursor, values)?;
        // Apache writes the time of the arrival.
        time = Meaning::Start;
    }
    front(&mut cursor, time, values)?;
    if form != Clf::Common {
        for meaning in [REFERER, USER_AGENT] {
            cursor.expect(b" \"", "expected a text in quotes")?;
            let span = cursor.quoted()?;
            cursor.take(values, meaning, span)?;
        }
    }
    match form {
        Clf::Common | Clf::Combined | Clf::Vhost => {}
        Clf::NginxMain => behind::main(&mut cursor, values)?,
        Clf::Timed => behind::durations(&mut cursor, values)?,
        Clf::IngressNginx => behind::ingress(&mut cursor, values)?,
    }
    if cursor.at < line.len() {
        return Err(cursor.error(match form {
            Clf::Common => "expected the end of the line behind the size",
            _ => "expected the end of the line behind the user agent",
        }));
    }
    Ok(())
}

/// Reads a virtual host, perhaps with its port. Drops the ports 80 and 443, because clients leave them out of `Host`.
fn vhost(cursor: &mut Cursor<'_>, values: &mut Values) -> Result<(), LineError> {
    let host = cursor.word();
    let name = host.bytes(cursor.line);
    if !is_host(name) || name == b"-" {
        return Err(LineError::at(0, "expected a virtual host"));
    }
    if cursor.rest().starts_with(b"- ") {
        return Err(cursor.error("expected the address of the client behind the virtual host"));
    }
    let bare = name.strip_suffix(b":443").or(name.strip_suffix(b":80"));
    let length = bare.unwrap_or(name).len();
    let host = Span::new(host.start(), host.start() + length, false);
    cursor.take(values, Meaning::Field(Field::Host), host)
}

/// Reads the fields up to the size of the answer.
fn front(cursor: &mut Cursor<'_>, time: Meaning, values: &mut Values) -> Result<(), LineError> {
    let line = cursor.line;
    let peer = cursor.word();
    if !is_host(peer.bytes(line)) {
        let what = "expected an address or a host name";
        return Err(LineError::at(peer.start(), what));
    }
    cursor.take(values, Meaning::Field(Field::Peer), peer)?;
    let identity = cursor.word();
    if address(identity.bytes(line)).is_some() {
        let what = "expected one address before the time";
        return Err(LineError::at(identity.start(), what));
    }
    // A user may have blanks and brackets in its name, but no quotes.
    let user = cursor.at;
    let close = memchr::memmem::find(cursor.rest(), b"] \"").map(|length| user + length);
    let open = close.and_then(|close| memchr::memrchr(b'[', &line[user..close]));
    let (Some(close), Some(open)) = (close, open.map(|length| user + length)) else {
        return Err(cursor.error("expected a time in brackets, and a request in quotes"));
    };
    cursor.take(values, time, Span::new(open + 1, close, false))?;
    let end = open.saturating_sub(1).max(user);
    if line[end] != b' ' {
        return Err(LineError::at(open, "expected a blank before the time"));
    }
    if line[user..end].starts_with(b"- ") {
        return Err(cursor.error("expected an identity, a user and a time behind the address"));
    }
    // Apache writes an empty user as `""`.
    if &line[user..end] != b"\"\"" {
        let escaped = line[user..end].contains(&b'\\');
        let user = Span::new(user, end, escaped);
        cursor.take(values, Meaning::Field(Field::User), user)?;
    }
    cursor.at = close + 3;
    let request = cursor.quoted()?;
    cursor.take(values, Meaning::Request, request)?;
    cursor.expect(b" ", "expected a blank behind the request")?;
    let status = cursor.filled_word("expected a status, such as 200")?;
    cursor.take(values, Meaning::Field(Field::Status), status)?;
    let size = cursor.filled_word("expected a number of bytes")?;
    cursor.take(values, Meaning::Field(Field::BytesOut), size)?;
    cursor.at = size.end();
    Ok(())
}

/// Whether a text can be an address, a name, `unix:`, or `-`.
fn is_host(text: &[u8]) -> bool {
    !text.is_empty()
        && text.iter().all(|byte| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'.' | b':' | b'-' | b'_' | b'%' | b'[' | b']')
        })
}

/// Reads the Common Log Format with ` "referer" "user agent" 17 "router" "http://server" 23ms` after it. Traefik escapes quotes but no
/// backslashes, so the end is read backwards.
pub(crate) fn traefik(line: &[u8], values: &mut Values) -> Result<(), LineError> {
    values.record.escape = Escape::Quote;
    let mut cursor = Cursor::new(line);
    front(&mut cursor, Meaning::Start, values)?;
    let start = cursor.at;
    let end = |what| LineError::at(start, what);
    let last = memchr::memrchr(b' ', line).unwrap_or(0);
    if last < start || !line.ends_with(b"ms") {
        return Err(end("expected the duration in ms at the end of the line"));
    }
    let duration = Span::new(last + 1, line.len() - 2, false);
    cursor.take(values, Meaning::Duration(Unit::Milliseconds), duration)?;
    // From the end: the server, the router, and the number of the request.
    let mut rest = &line[start..last];
    for _ in 0..2 {
        let inner = rest.strip_suffix(b"\"");
        let open = inner.and_then(|inner| memchr::memmem::rfind(inner, b" \""));
        rest = &rest[..open.ok_or_else(|| end("expected a router and a server in quotes"))?];
    }
    let blank = memchr::memrchr(b' ', rest)
        .filter(|blank| rest[blank + 1..].iter().all(u8::is_ascii_digit));
    let headers = blank
        .and_then(|blank| rest[..blank].strip_prefix(b" \"")?.strip_suffix(b"\""))
        .ok_or_else(|| end("expected a referer and a user agent in quotes, and a number"))?;
    let middle =
        between(headers).ok_or_else(|| end("expected a referer and a user agent in quotes"))?;
    let first = start + 2;
    let quoted = |from: usize, to: usize| Span::new(from, to, line[from..to].contains(&b'\\'));
    let referer = quoted(first, first + middle);
    let agent = quoted(first + middle + 3, first + headers.len());
    cursor.take(values, REFERER, referer)?;
    cursor.take(values, USER_AGENT, agent)
}

/// Returns the place of `" "` between two texts: the first place without a backslash before it. If every place has a backslash before it,
/// returns the first place.
fn between(text: &[u8]) -> Option<usize> {
    let mut first = None;
    for at in memchr::memmem::find_iter(text, b"\" \"") {
        if at == 0 || text[at - 1] != b'\\' {
            return Some(at);
        }
        first = first.or(Some(at));
    }
    first
}

/// Returns the number of lost lines that tidegate reports: `0.0.0.0 - - [time] "- /12-lines-lost -" 599 0`.
pub(crate) fn lost(line: &[u8], record: &Record) -> Option<u64> {
    if record.status != 599 || !line.starts_with(b"0.0.0.0 - - [") {
        return None;
    }
    let start = memchr::memmem::find(line, b"] \"- /")? + 6;
    let end = memchr::memmem::find(line, b"-lines-lost -\" 599 0")?;
    number(line.get(start..end)?)
}

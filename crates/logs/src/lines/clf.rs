//! The Common and the Combined Log Format, and formats that begin like them.

mod behind;

use super::cursor::Cursor;
use crate::address::address;
use crate::error::LineError;
use crate::field::Field;
use crate::record::{Record, Span};
use crate::slot::{Slot, Unit};
use crate::text::Escape;
use crate::time::TimeReader;

/// The number of the header `referer`.
const REFERER: Slot = Slot::Header(0);
/// The number of the header `user-agent`.
const USER_AGENT: Slot = Slot::Header(1);

/// The headers of lines, by their numbers.
pub(crate) const HEADERS: [&str; 2] = ["referer", "user-agent"];

/// The formats with the fields of the Common Log Format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clf {
    Common,
    /// With ` "referer" "user agent"`, as all that follow.
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

/// Reads `192.0.2.7 - alice [22/Nov/2026:15:32:17 +0000] "GET / HTTP/1.1" 200 2326`, and what stands before and behind it.
pub(crate) fn read(
    line: &[u8],
    form: Clf,
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    let mut cursor = Cursor::new(line);
    let mut time = Slot::End;
    if form == Clf::Vhost {
        vhost(&mut cursor, record, times)?;
        // Apache writes the time of the arrival.
        time = Slot::Start;
    }
    front(&mut cursor, time, record, times)?;
    if form != Clf::Common {
        for slot in [REFERER, USER_AGENT] {
            cursor.expect(b" \"", "expected a text in quotes")?;
            let span = cursor.quoted()?;
            cursor.take(record, slot, span, times)?;
        }
    }
    match form {
        Clf::Common | Clf::Combined | Clf::Vhost => {}
        Clf::NginxMain => behind::main(&mut cursor, record, times)?,
        Clf::Timed => behind::durations(&mut cursor, record, times)?,
        Clf::IngressNginx => behind::ingress(&mut cursor, record, times)?,
    }
    if cursor.at < line.len() {
        return Err(cursor.error(match form {
            Clf::Common => "expected the end of the line behind the size",
            _ => "expected the end of the line behind the user agent",
        }));
    }
    Ok(())
}

/// Reads a virtual host, perhaps with its port. Clients leave the ports 80 and 443 out.
fn vhost(
    cursor: &mut Cursor<'_>,
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    let line = cursor.line;
    let host = cursor.word();
    let name = host.bytes(line);
    if !is_host(name) || name == b"-" {
        cursor.at = 0;
        return Err(cursor.error("expected a virtual host"));
    }
    if cursor.rest().starts_with(b"- ") {
        return Err(cursor.error("expected the address of the client behind the virtual host"));
    }
    let bare = name.strip_suffix(b":443").or(name.strip_suffix(b":80"));
    let length = bare.unwrap_or(name).len();
    let host = Span::new(host.start(), host.start() + length, false);
    cursor.take(record, Slot::Text(Field::Host), host, times)
}

/// Reads up to the size.
fn front(
    cursor: &mut Cursor<'_>,
    time: Slot,
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    let line = cursor.line;
    let peer = cursor.word();
    if !is_host(peer.bytes(line)) {
        cursor.at = peer.start();
        return Err(cursor.error("expected an address or a host name"));
    }
    cursor.take(record, Slot::Peer, peer, times)?;
    let identity = cursor.word();
    if identity.bytes(line) != b"-" && address(identity.bytes(line)).is_some() {
        cursor.at = identity.start();
        return Err(cursor.error("expected one address before the time"));
    }
    // A user may have blanks and brackets in its name, but no quotes.
    let user = cursor.at;
    let close = memchr::memmem::find(cursor.rest(), b"] \"").map(|length| user + length);
    let open = close.and_then(|close| memchr::memrchr(b'[', &line[user..close]));
    let (Some(close), Some(open)) = (close, open.map(|length| user + length)) else {
        return Err(cursor.error("expected a time in brackets, and a request in quotes"));
    };
    cursor.take(record, time, Span::new(open + 1, close, false), times)?;
    let end = open.saturating_sub(1).max(user);
    if line[end] != b' ' {
        cursor.at = open;
        return Err(cursor.error("expected a blank before the time"));
    }
    if line[user..end].starts_with(b"- ") {
        cursor.at = user;
        return Err(cursor.error("expected an identity, a user and a time behind the address"));
    }
    // Apache writes an empty user as `""`.
    let user = if &line[user..end] == b"\"\"" {
        end
    } else {
        user
    };
    let escaped = line[user..end].contains(&b'\\');
    cursor.take(
        record,
        Slot::Text(Field::User),
        Span::new(user, end, escaped),
        times,
    )?;
    cursor.at = close + 3;
    let request = cursor.quoted()?;
    cursor.take(record, Slot::Request, request, times)?;
    cursor.expect(b" ", "expected a blank behind the request")?;
    let status = cursor.word();
    if status.bytes(line).is_empty() {
        cursor.at = status.start();
        return Err(cursor.error("expected a status, such as 200"));
    }
    cursor.take(record, Slot::Status, status, times)?;
    let size = cursor.word();
    if size.bytes(line).is_empty() {
        cursor.at = size.start();
        return Err(cursor.error("expected a number of bytes"));
    }
    cursor.take(record, Slot::BytesOut, size, times)?;
    cursor.at = size.end();
    Ok(())
}

/// An address, a name, `unix:`, or `-`.
fn is_host(text: &[u8]) -> bool {
    let is_part = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'.' | b':' | b'-' | b'_' | b'%' | b'[' | b']')
    };
    !text.is_empty() && text.iter().all(is_part)
}

/// Reads the same with ` "referer" "user agent" 17 "router" "http://server" 23ms`. Only quotes are escaped, backslashes are not:
/// so the end is read backwards.
pub(crate) fn traefik(
    line: &[u8],
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    record.escape = Escape::Quote;
    let mut cursor = Cursor::new(line);
    front(&mut cursor, Slot::Start, record, times)?;
    let start = cursor.at;
    let end = |what| LineError {
        column: start + 1,
        what,
    };
    let last = memchr::memrchr(b' ', line).unwrap_or(0);
    if last < start || !line.ends_with(b"ms") {
        return Err(end("expected the duration in ms at the end of the line"));
    }
    let duration = Span::new(last + 1, line.len() - 2, false);
    cursor.take(record, Slot::Duration(Unit::Milliseconds), duration, times)?;
    // The server, the router, and the number of the request.
    let mut rest = &line[start..last];
    for _ in 0..2 {
        let inner = rest.strip_suffix(b"\"");
        let open = inner.and_then(|inner| memchr::memmem::rfind(inner, b" \""));
        rest = &rest[..open.ok_or_else(|| end("expected a router and a server in quotes"))?];
    }
    let blank = memchr::memrchr(b' ', rest)
        .filter(|blank| rest[blank + 1..].iter().all(u8::is_ascii_digit));
    let headers = blank.map(|blank| &rest[..blank]);
    let headers = headers.and_then(|it| it.strip_prefix(b" \"")?.strip_suffix(b"\""));
    let headers = headers
        .ok_or_else(|| end("expected a referer and a user agent in quotes, and a number"))?;
    let middle =
        between(headers).ok_or_else(|| end("expected a referer and a user agent in quotes"))?;
    let first = start + 2;
    let last = first + headers.len();
    let has_escapes = |from: usize, to: usize| memchr::memchr(b'\\', &line[from..to]).is_some();
    let referer = Span::new(first, first + middle, has_escapes(first, first + middle));
    let agent = first + middle + 3;
    cursor.take(record, REFERER, referer, times)?;
    cursor.take(
        record,
        USER_AGENT,
        Span::new(agent, last, has_escapes(agent, last)),
        times,
    )
}

/// Where `" "` divides two texts: where its first quote is not escaped, if there is such a place.
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

/// How many requests tidegate says are missing: `0.0.0.0 - - [time] "- /12-lines-lost -" 599 0`.
pub(crate) fn lost(line: &[u8], record: &Record) -> Option<u64> {
    if record.status != 599 || !line.starts_with(b"0.0.0.0 - - [") {
        return None;
    }
    let start = memchr::memmem::find(line, b"] \"- /")? + 6;
    let end = memchr::memmem::find(line, b"-lines-lost -\" 599 0")?;
    crate::time::number(line.get(start..end)?)
}

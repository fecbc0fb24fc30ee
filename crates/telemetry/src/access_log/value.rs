//! The values of fields, and their text in each style.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tidegate_identity::Client;
use tidegate_store::Limit;
use tidegate_tower::Decided;

use super::style::{ESCAPE, Style, escape};
use super::timestamp::Clock;
use crate::request_id::hex;

/// The mark at the end of a text that was cut.
const MARK: &str = "…";

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// A number.
    Number(u64),
    /// An address.
    Address(IpAddr),
    /// An address with its port.
    Socket(SocketAddr),
    /// A fixed word of the gateway, which needs no escapes.
    Word(&'static str),
    /// A trace ID.
    Hex(u128),
    /// Bytes that a client may have chosen, and the most bytes that are written.
    Text(&'a [u8], usize),
    /// The client's name.
    Client(&'a Client),
    /// Names of limits, separated by commas.
    Limits(Limits<'a>),
    /// The time of the line minus this span.
    Before(Duration),
    /// The time of the line, in the Common Log Format.
    Local,
}

/// Some of the limits of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limits<'a> {
    /// The limits that refused the request.
    RefusedBy(&'a Decided),
    /// The observed limits that would have refused the request.
    WouldRefuse(&'a Decided),
}

impl Limits<'_> {
    fn write(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let mut separator = "";
        let one = |limit: &Limit| {
            out.write_str(separator)?;
            separator = ", ";
            out.write_str(limit.name())
        };
        match self {
            Self::RefusedBy(decided) => decided.refused_by().try_for_each(one),
            Self::WouldRefuse(decided) => decided.would_refuse().try_for_each(one),
        }
    }
}

/// The most characters of a client's name.
pub(super) const MAX_CLIENT: usize = 128;
/// The most characters of a list of names.
const MAX_NAMES: usize = 1_024;

impl Value<'_> {
    /// Appends the value to a line.
    // Inlined, like `Record::value`: a value between two functions would be written to memory and read again.
    #[inline(always)]
    pub(super) fn write(self, out: &mut Vec<u8>, style: Style, clock: &mut Clock) {
        let is_quoted = match self {
            // In the Common and the Combined Log Format, this field is for user names. The line already has the client's address, so a
            // client without another name gets `-`.
            Self::Client(Client::Ip(_)) if style == Style::OneWord => return out.push(b'-'),
            Self::Number(_) => false,
            Self::Address(_) | Self::Socket(_) | Self::Hex(_) | Self::Before(_) => {
                style == Style::Json
            }
            Self::Word(_) | Self::Text(..) | Self::Client(_) | Self::Limits(_) | Self::Local => {
                style.is_quoted()
            }
        };
        if is_quoted {
            out.push(b'"');
        }
        match self {
            Self::Number(number) => digits(out, number),
            Self::Address(address) => ip(out, address),
            Self::Socket(address) => socket(out, address),
            Self::Word(word) => out.extend_from_slice(word.as_bytes()),
            Self::Hex(number) => out.extend_from_slice(&hex(number)),
            Self::Text(bytes, longest) => text(out, style, bytes, longest),
            // Writes the same text as the `Display` of `Client`, but faster, because most lines have a client that is an address.
            Self::Client(Client::Ip(address)) => {
                out.extend_from_slice(b"ip:");
                ip(out, *address);
            }
            // A write to a Vec cannot fail.
            Self::Client(client) => {
                let _ = write!(Quoted::new(out, style, MAX_CLIENT), "{client}");
            }
            Self::Limits(limits) => {
                let _ = limits.write(&mut Quoted::new(out, style, MAX_NAMES));
            }
            Self::Before(span) => out.extend_from_slice(clock.before(span)),
            Self::Local => out.extend_from_slice(clock.local()),
        }
        if is_quoted {
            out.push(b'"');
        }
    }
}

fn digits(out: &mut Vec<u8>, number: u64) {
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(number).as_bytes());
}

/// Writes an address with its port as `Display` does, but faster.
fn socket(out: &mut Vec<u8>, address: SocketAddr) {
    if address.is_ipv6() {
        // A write to a Vec cannot fail.
        return drop(write!(out, "{address}"));
    }
    ip(out, address.ip());
    out.push(b':');
    digits(out, address.port().into());
}

/// Writes an address as `Display` does, but faster: `Display` takes a thousand instructions for an IPv4 address.
fn ip(out: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V4(address) = address else {
        return drop(write!(out, "{address}"));
    };
    let mut text = [0; "255.255.255.255".len()];
    let mut length = 0;
    let mut push = |byte| {
        text[length] = byte;
        length += 1;
    };
    for (nth, octet) in address.octets().into_iter().enumerate() {
        if nth > 0 {
            push(b'.');
        }
        if octet >= 100 {
            push(b'0' + octet / 100);
        }
        if octet >= 10 {
            push(b'0' + octet / 10 % 10);
        }
        push(b'0' + octet % 10);
    }
    // A copy of a fixed length takes fewer instructions.
    let end = out.len() + length;
    out.extend_from_slice(&text);
    out.truncate(end);
}

/// Writes a text without its quotes, at most the first `longest` bytes. In plain styles, each escape counts with its full length.
fn text(out: &mut Vec<u8>, style: Style, bytes: &[u8], longest: usize) {
    let mut end = bytes.len().min(longest);
    if style.is_plain() {
        let mut left = longest;
        let fits = |byte: &&u8| {
            let length = if style.is_as_it_is(**byte) { 1 } else { ESCAPE };
            left.checked_sub(length)
                .inspect(|rest| left = *rest)
                .is_some()
        };
        end = bytes.iter().take_while(fits).count();
    }
    let is_cut = end < bytes.len();
    // Moves the cut to the start of a character.
    let is_within = |byte: &u8| *byte & 0xc0 == 0x80;
    while is_cut && end > 0 && bytes.get(end).is_some_and(is_within) {
        end -= 1;
    }
    escape(out, style, &bytes[..end]);
    if is_cut {
        escape(out, style, MARK.as_bytes());
    }
}

/// A writer that escapes a text and bounds its length. It writes no quotes.
struct Quoted<'a> {
    out: &'a mut Vec<u8>,
    style: Style,
    /// The number of further characters that may be written.
    left: usize,
    is_cut: bool,
}

impl<'a> Quoted<'a> {
    /// Returns a writer of at most `longest` characters.
    const fn new(out: &'a mut Vec<u8>, style: Style, longest: usize) -> Self {
        Self {
            out,
            style,
            left: longest,
            is_cut: false,
        }
    }
}

impl fmt::Write for Quoted<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.is_cut {
            return Ok(());
        }
        if text.len() <= self.left && text.is_ascii() {
            escape(self.out, self.style, text.as_bytes());
            self.left -= text.len();
            return Ok(());
        }
        let end = text.char_indices().nth(self.left).map(|(end, _)| end);
        let kept = &text[..end.unwrap_or(text.len())];
        escape(self.out, self.style, kept.as_bytes());
        if end.is_some() {
            escape(self.out, self.style, MARK.as_bytes());
            self.is_cut = true;
        }
        self.left -= kept.chars().count();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: Value<'_>, style: Style) -> String {
        let mut out = Vec::new();
        value.write(&mut out, style, &mut Clock::default());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn whatever_bytes_there_are_stay_within_their_field() {
        let bytes = b"a\"b\\c\n\x7f\xc3\xbc\xff []";
        let value = Value::Text(bytes, 100);
        assert_eq!(
            written(value, Style::Text),
            "\"a\\\"b\\\\c\\n\\u{7f}ü\u{fffd} []\""
        );
        let json: String = serde_json::from_str(&written(value, Style::Json)).unwrap();
        assert_eq!(json, "a\"b\\c\n\u{7f}ü\u{fffd} []");
        assert_eq!(
            written(value, Style::Plain),
            r"a\x22b\x5Cc\x0A\x7F\xC3\xBC\xFF []"
        );
        let text = "\u{9b}31m \u{202e}\u{2800}".as_bytes();
        let value_of = |style| written(Value::Text(text, 100), style);
        assert_eq!(value_of(Style::Text), r#""\u{9b}31m \u{202e}\u{2800}""#);
        assert_eq!(value_of(Style::Json), r#""\u009b31m \u202e\u2800""#);
        assert!(value_of(Style::Plain).is_ascii());
        let one = written(value, Style::OneWord);
        assert_eq!(one, r"a\x22b\x5Cc\x0A\x7F\xC3\xBC\xFF\x20\x5B\x5D");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(
            written(Value::Text("abü".as_bytes(), 3), Style::Text),
            "\"ab…\""
        );
        assert_eq!(
            written(Value::Text("abü".as_bytes(), 4), Style::Text),
            "\"abü\""
        );
        assert_eq!(
            written(Value::Text(b"abc", 2), Style::Plain),
            r"ab\xE2\x80\xA6"
        );
        let client = Client::UserId("ü".repeat(200).into());
        assert!(written(Value::Client(&client), Style::OneWord).starts_with("user_id:"));
        let address = Client::Ip(std::net::Ipv4Addr::LOCALHOST.into());
        assert_eq!(written(Value::Client(&address), Style::OneWord), "-");
        let shown = written(Value::Client(&client), Style::Json);
        assert_eq!(shown, format!("\"user_id:{}…\"", "ü".repeat(120)));
    }

    #[test]
    fn addresses_are_written_as_they_display() {
        let v4 = [[0, 0, 0, 0], [1, 20, 199, 255], [100, 9, 10, 99]].map(IpAddr::from);
        let v6 = ["::1", "2001:db8::ff"].map(|address| address.parse().unwrap());
        for address in v4.into_iter().chain(v6) {
            let value = Value::Address(address);
            assert_eq!(written(value, Style::Text), address.to_string());
            let client = Client::Ip(address);
            let value = Value::Client(&client);
            assert_eq!(written(value, Style::Json), format!("\"{client}\""));
            let socket = SocketAddr::new(address, 8080);
            assert_eq!(
                written(Value::Socket(socket), Style::Text),
                socket.to_string()
            );
        }
    }

    #[test]
    fn what_needs_no_quotes_has_none_in_text() {
        let address = Value::Address(std::net::Ipv4Addr::LOCALHOST.into());
        assert_eq!(written(address, Style::Text), "127.0.0.1");
        assert_eq!(written(address, Style::Json), "\"127.0.0.1\"");
        assert_eq!(
            written(Value::Hex(0xab), Style::Plain),
            format!("{:032x}", 0xab)
        );
    }
}

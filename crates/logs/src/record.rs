//! The values of a line. Texts are stored as offsets in the line.

use std::net::IpAddr;
use std::ops::Range;

use crate::address::{address, address_with_port};
use crate::field::Field;
use crate::meaning::{Meaning, Unit};
use crate::request;
use crate::text::{Escape, Text};
use crate::time::{Time, TimeReader, number};

/// The most request headers that an entry has. Further headers are left out.
pub(crate) const MAX_HEADERS: usize = 8;

/// The values of an entry. Texts are stored as offsets in the line ([`Span`]). So a record holds no reference, and can be kept together
/// with a copy of the line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    pub(crate) arrival: u64,
    pub(crate) resolution: u32,
    pub(crate) stamp: Stamp,
    pub(crate) escape: Escape,
    /// The index of the parser's list of fields that was current when the line was read.
    pub(crate) version: u16,
    pub(crate) status: u16,
    pub(crate) upstream_status: u16,
    pub(crate) duration: Option<u64>,
    pub(crate) bytes_in: Option<u64>,
    pub(crate) bytes_out: Option<u64>,
    pub(crate) cost: Option<u64>,
    pub(crate) waited: Option<u64>,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) client_ip: Option<IpAddr>,
    pub(crate) texts: [Span; Field::TEXTS],
    pub(crate) headers: [Span; MAX_HEADERS],
    pub(crate) started: Option<Time>,
    pub(crate) ended: Option<Time>,
    /// When tidegate's limits decided.
    decided: Option<Time>,
    /// The path in nginx's `$uri`, which nginx has decoded. This path is used only if the line has no other path.
    uri: Span,
}

/// The values of the current line.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) record: Record,
    pub(crate) times: TimeReader,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    /// A decision of tidegate for another program that named limits and no request.
    Question,
    /// A line that is no request by its format: a comment, or a line of tidegate that is not in its access log.
    Other,
    /// The number of requests that the log reports as lost here.
    Lost(u64),
}

/// A part of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    /// Twice the length of the value, plus 1 if it has escapes. 0 if the line has no such value.
    coded: u32,
}

/// The event that a line's time stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamp {
    /// When the request arrived.
    Arrival,
    /// When the request ended. The line has a duration, which was subtracted.
    Shifted,
    /// When the request ended. The line has no duration, so the time of arrival is unknown.
    #[default]
    End,
}

impl Span {
    pub(crate) const fn new(start: usize, end: usize, escaped: bool) -> Self {
        Self {
            start: start as u32,
            coded: (end.saturating_sub(start) as u32) << 1 | escaped as u32,
        }
    }

    pub(crate) const fn start(self) -> usize {
        self.start as usize
    }

    pub(crate) const fn end(self) -> usize {
        self.start() + (self.coded >> 1) as usize
    }

    pub(crate) const fn is_escaped(self) -> bool {
        self.coded & 1 == 1
    }

    /// Returns a part of this span.
    fn part(self, range: Range<usize>) -> Self {
        let start = self.start();
        Self::new(start + range.start, start + range.end, self.is_escaped())
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.coded < 2
    }

    pub(crate) fn bytes(self, line: &[u8]) -> &[u8] {
        line.get(self.start()..self.end()).unwrap_or_default()
    }

    /// Returns the text, or `None` if it is empty.
    pub(crate) fn text(self, line: &[u8], escape: Escape) -> Option<Text<'_>> {
        let escape = self.is_escaped().then_some(escape);
        (!self.is_empty()).then(|| Text::new(self.bytes(line), escape))
    }
}

impl Record {
    /// If a time has a fraction, sets its resolution to a millisecond or finer. Writers leave out zeros at the end of a number, so a
    /// fraction with few digits may be exact.
    pub(crate) fn complete_fraction(&mut self, meaning: Meaning) {
        let time = match meaning {
            Meaning::Start => &mut self.started,
            Meaning::End => &mut self.ended,
            _ => return,
        };
        if let Some(time) = time
            && time.resolution < 1_000_000
        {
            time.resolution = time.resolution.min(1_000);
        }
    }

    /// Returns the fields that the line has, one bit each.
    pub(crate) fn seen(&self) -> u64 {
        let mut seen = 0;
        for (number, span) in self.texts.iter().enumerate() {
            seen |= u64::from(!span.is_empty()) << number;
        }
        for (field, is_there) in [
            (Field::Duration, self.duration.is_some()),
            (Field::Peer, self.peer.is_some()),
            (Field::ClientIp, self.client_ip.is_some()),
            (Field::Status, self.status != 0),
            (Field::UpstreamStatus, self.upstream_status != 0),
            (Field::BytesIn, self.bytes_in.is_some()),
            (Field::BytesOut, self.bytes_out.is_some()),
            (Field::Cost, self.cost.is_some()),
            (Field::Waited, self.waited.is_some()),
        ] {
            seen |= if is_there { field.bit() } else { 0 };
        }
        seen
    }

    /// Stores the parts of `GET /path?query HTTP/1.1`. If the text is no request line, no part is stored.
    fn request(&mut self, line: &[u8], span: Span) {
        let Some(parts) = request::parts(span.bytes(line)) else {
            return;
        };
        self.texts[Field::Method as usize] = span.part(parts.method);
        if let Some(protocol) = parts.protocol {
            self.texts[Field::Protocol as usize] = span.part(protocol);
        }
        self.target(line, span.part(parts.target));
    }

    fn target(&mut self, line: &[u8], span: Span) {
        let parts = request::target(span.bytes(line));
        for (field, range) in [
            (Field::Scheme, parts.scheme),
            (Field::Host, parts.host),
            (Field::Path, parts.path),
            (Field::Query, parts.query),
        ] {
            if let Some(range) = range {
                self.texts[field as usize] = span.part(range);
            }
        }
    }

    /// Computes the time of arrival.
    pub(crate) fn finish(&mut self) -> Result<(), &'static str> {
        let path = &mut self.texts[Field::Path as usize];
        if path.is_empty() {
            *path = self.uri;
        }
        let (time, stamp) = match (self.decided.or(self.started), self.ended, self.duration) {
            (Some(start), ..) => (start, Stamp::Arrival),
            (None, Some(end), None) => (end, Stamp::End),
            (None, Some(end), Some(duration)) => {
                let micros = end.micros.saturating_sub(duration);
                (Time { micros, ..end }, Stamp::Shifted)
            }
            (None, None, _) => return Err("expected a time, which the line lacks"),
        };
        (self.arrival, self.resolution, self.stamp) = (time.micros, time.resolution, stamp);
        Ok(())
    }

    /// Returns the approximate time when the line was written. The lines of a log are in the order of this time.
    pub(crate) fn written(&self) -> u64 {
        match self.ended {
            Some(end) => end.micros.max(self.arrival),
            None => self.arrival.saturating_add(self.duration.unwrap_or(0)),
        }
    }
}

impl Values {
    /// Stores a value, unless it is empty or `-`.
    pub(crate) fn take(
        &mut self,
        meaning: Meaning,
        line: &[u8],
        span: Span,
    ) -> Result<(), &'static str> {
        let value = span.bytes(line);
        if matches!(value, [] | b"-") {
            return Ok(());
        }
        let Self { record, times } = self;
        match meaning {
            Meaning::Skip | Meaning::Object(_) | Meaning::Lost | Meaning::Log => {}
            // A value that begins with `?` is only a query, so no path is stored. The same rule holds for the target of a request line.
            Meaning::Field(Field::Path) | Meaning::Uri if value.starts_with(b"?") => {}
            // A host name, or `unix:`, is no address, so it is left out.
            Meaning::Field(Field::Peer) => record.peer = address(value).or(record.peer),
            Meaning::Field(Field::ClientIp) => record.client_ip = address(value),
            Meaning::Field(Field::Status) => {
                record.status = status(value).ok_or("expected a status, such as 200")?;
            }
            Meaning::Field(Field::UpstreamStatus) => record.upstream_status = last_status(value),
            Meaning::Field(Field::BytesIn) => record.bytes_in = bytes(value)?,
            Meaning::Field(Field::BytesOut) => record.bytes_out = bytes(value)?,
            Meaning::Field(Field::Cost) => {
                record.cost = Some(number(value).ok_or("expected a whole number")?);
            }
            Meaning::Field(field) => {
                if let Some(place) = record.texts.get_mut(field as usize) {
                    *place = span;
                }
            }
            Meaning::Request => record.request(line, span),
            Meaning::Target => record.target(line, span),
            Meaning::Uri => record.uri = span,
            Meaning::Header(number) => {
                if let Some(place) = record.headers.get_mut(usize::from(number)) {
                    *place = span;
                }
            }
            Meaning::OtherPeer => record.peer = record.peer.or_else(|| address(value)),
            Meaning::PeerAndPort => record.peer = address_with_port(value),
            // A proxy writes -1 for an unknown duration.
            Meaning::Duration(_) if value.starts_with(b"-") => {}
            Meaning::Duration(unit) => record.duration = Some(duration(value, unit)?),
            Meaning::Waited(unit) => record.waited = Some(duration(value, unit)?),
            Meaning::Start => record.started = Some(finer(record.started, times.read(value))?),
            Meaning::End => record.ended = Some(finer(record.ended, times.read(value))?),
            Meaning::Decided => record.decided = Some(finer(None, times.read(value))?),
        }
        Ok(())
    }
}

fn duration(text: &[u8], unit: Unit) -> Result<u64, &'static str> {
    unit.read(text)
        .ok_or("expected a duration of at most 31 days")
}

/// Returns the time with the finer resolution.
fn finer(first: Option<Time>, other: Option<Time>) -> Result<Time, &'static str> {
    let other = other.ok_or("expected a time, such as 22/Nov/2026:15:32:17 +0000")?;
    Ok(first
        .filter(|first| first.resolution < other.resolution)
        .unwrap_or(other))
}

/// Reads a status. Returns 0 for `0`, `000` and HAProxy's `-1`, which all mean that there was no status.
fn status(text: &[u8]) -> Option<u16> {
    match text {
        b"0" | b"-1" | b"000" => Some(0),
        [b'1'..=b'9', _, _] => number(text).map(|status| status as u16),
        _ => None,
    }
}

/// Returns the last status of a list, such as nginx's `502, 200`.
fn last_status(text: &[u8]) -> u16 {
    let mut words = text.rsplit(|byte| matches!(byte, b' ' | b',' | b':'));
    let last = words.find(|word| !word.is_empty());
    last.and_then(status).unwrap_or(0)
}

/// Reads a number of bytes. -1 stands for an unknown number.
fn bytes(text: &[u8]) -> Result<Option<u64>, &'static str> {
    if text == b"-1" {
        return Ok(None);
    }
    number(text).map(Some).ok_or("expected a number of bytes")
}

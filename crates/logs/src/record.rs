//! What a line says, as places in it.

use std::net::IpAddr;

use crate::address::{address, address_with_port};
use crate::field::Field;
use crate::request;
use crate::slot::Slot;
use crate::text::{Escape, Text};
use crate::time::{Time, TimeReader, number};

/// The most request headers that an entry has. Further ones are left out.
pub(crate) const MAX_HEADERS: usize = 8;

/// No number.
const NONE: u64 = u64::MAX;

/// Where in its line each value of an entry is. It holds no reference, so it can be kept beside a copy of the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) arrival: u64,
    pub(crate) resolution: u32,
    pub(crate) stamp: Stamp,
    pub(crate) escape: Escape,
    /// Which fields lines could have when this one was read.
    pub(crate) version: u16,
    pub(crate) status: u16,
    pub(crate) upstream_status: u16,
    duration: u64,
    bytes_in: u64,
    bytes_out: u64,
    cost: u64,
    waited: u64,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) client_ip: Option<IpAddr>,
    pub(crate) texts: [Span; Field::TEXTS],
    pub(crate) headers: [Span; MAX_HEADERS],
    started: Option<Time>,
    pub(crate) ended: Option<Time>,
    /// When tidegate's limits were asked.
    decided: Option<Time>,
    /// The path as nginx decoded it, which counts if the line has no other.
    uri: Span,
}

/// A part of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    /// The length, and whether there are escapes in it. 0: there is no value.
    coded: u32,
}

/// What the time of a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// When the request arrived.
    Arrival,
    /// When it ended. The line has a duration, which was subtracted.
    Shifted,
    /// When it ended. The line has no duration: the request arrived some time before.
    End,
}

impl Span {
    const EMPTY: Self = Self { start: 0, coded: 0 };

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

    const fn is_empty(self) -> bool {
        self.coded < 2
    }

    pub(crate) fn bytes(self, line: &[u8]) -> &[u8] {
        line.get(self.start()..self.end()).unwrap_or_default()
    }

    /// An empty text is none.
    pub(crate) fn text(self, line: &[u8], escape: Escape) -> Option<Text<'_>> {
        let escape = self.is_escaped().then_some(escape);
        (!self.is_empty()).then(|| Text::new(self.bytes(line), escape))
    }
}

const fn known(value: u64) -> Option<u64> {
    if value == NONE { None } else { Some(value) }
}

impl Record {
    pub(crate) const EMPTY: Self = Self {
        arrival: 0,
        resolution: 0,
        stamp: Stamp::End,
        escape: Escape::Backslash,
        version: 0,
        status: 0,
        upstream_status: 0,
        duration: NONE,
        bytes_in: NONE,
        bytes_out: NONE,
        cost: NONE,
        waited: NONE,
        peer: None,
        client_ip: None,
        texts: [Span::EMPTY; Field::TEXTS],
        headers: [Span::EMPTY; MAX_HEADERS],
        started: None,
        ended: None,
        decided: None,
        uri: Span::EMPTY,
    };

    pub(crate) const fn duration(&self) -> Option<u64> {
        known(self.duration)
    }

    pub(crate) const fn set_duration(&mut self, duration: u64) {
        self.duration = duration;
    }

    /// Takes a fraction of a number as exact to the millisecond: writers leave out the zeros at its end.
    pub(crate) fn complete_fraction(&mut self, slot: Slot) {
        let time = match slot {
            Slot::Start => &mut self.started,
            Slot::End => &mut self.ended,
            _ => return,
        };
        if let Some(time) = time
            && time.resolution < 1_000_000
        {
            time.resolution = time.resolution.min(1_000);
        }
    }

    /// Takes the time that was read as the arrival. The duration behind it shows that Apache wrote the line.
    pub(crate) const fn set_started_at_end(&mut self) {
        self.started = self.ended.take();
    }

    pub(crate) const fn bytes_in(&self) -> Option<u64> {
        known(self.bytes_in)
    }

    pub(crate) const fn bytes_out(&self) -> Option<u64> {
        known(self.bytes_out)
    }

    pub(crate) const fn cost(&self) -> Option<u64> {
        known(self.cost)
    }

    pub(crate) const fn waited(&self) -> Option<u64> {
        known(self.waited)
    }

    /// The fields that the line has, one bit each.
    pub(crate) fn seen(&self) -> u64 {
        let texts = self.texts.iter().enumerate();
        let texts = texts.fold(0, |seen, (number, span)| {
            seen | u64::from(!span.is_empty()) << number
        });
        let others = [
            (Field::Duration, self.duration != NONE),
            (Field::Peer, self.peer.is_some()),
            (Field::ClientIp, self.client_ip.is_some()),
            (Field::Status, self.status != 0),
            (Field::UpstreamStatus, self.upstream_status != 0),
            (Field::BytesIn, self.bytes_in != NONE),
            (Field::BytesOut, self.bytes_out != NONE),
            (Field::Cost, self.cost != NONE),
            (Field::Waited, self.waited != NONE),
        ];
        let others = others.into_iter().filter(|(_, is_there)| *is_there);
        others.fold(texts, |seen, (field, _)| seen | field.bit())
    }

    /// Takes a value. `-` and an empty text are none.
    pub(crate) fn take(
        &mut self,
        slot: Slot,
        line: &[u8],
        span: Span,
        times: &mut TimeReader,
    ) -> Result<(), &'static str> {
        let value = span.bytes(line);
        if matches!(value, [] | b"-") {
            return Ok(());
        }
        match slot {
            Slot::Skip | Slot::Object(_) | Slot::Lost | Slot::Log => {}
            // A query alone, as a target of this form has no path either.
            Slot::Text(Field::Path) | Slot::Uri if value.starts_with(b"?") => {}
            Slot::Text(field) => {
                if let Some(place) = self.texts.get_mut(field as usize) {
                    *place = span;
                }
            }
            Slot::Request => self.request(line, span),
            Slot::Target => self.target(line, span),
            Slot::Uri => self.uri = span,
            Slot::Header(number) => {
                if let Some(place) = self.headers.get_mut(usize::from(number)) {
                    *place = span;
                }
            }
            // A host name, or `unix:`, is no address.
            Slot::Peer => self.peer = address(value).or(self.peer),
            Slot::OtherPeer => self.peer = self.peer.or_else(|| address(value)),
            Slot::PeerAndPort => self.peer = address_with_port(value),
            Slot::ClientIp => self.client_ip = address(value),
            Slot::Status => {
                self.status = status(value).ok_or("expected a status, such as 200")?;
            }
            Slot::UpstreamStatus => self.upstream_status = last_status(value),
            Slot::BytesIn => self.bytes_in = bytes(value)?,
            Slot::BytesOut => self.bytes_out = bytes(value)?,
            Slot::Cost => self.cost = number(value).ok_or("expected a whole number")?,
            Slot::Duration(unit) => {
                // A proxy that does not know it writes -1.
                if !value.starts_with(b"-") {
                    let duration = unit.read(value);
                    self.duration = duration.ok_or("expected a duration of at most 31 days")?;
                }
            }
            Slot::Waited(unit) => {
                let waited = unit.read(value);
                self.waited = waited.ok_or("expected a duration of at most 31 days")?;
            }
            Slot::Start => self.started = Some(finer(self.started, times.read(value))?),
            Slot::End => self.ended = Some(finer(self.ended, times.read(value))?),
            Slot::Decided => self.decided = Some(finer(None, times.read(value))?),
        }
        Ok(())
    }

    /// The parts of `GET /path?query HTTP/1.1`. What is no request has none.
    fn request(&mut self, line: &[u8], span: Span) {
        let Some(parts) = request::parts(span.bytes(line)) else {
            return;
        };
        let part = |range: std::ops::Range<usize>| {
            let (start, end) = (span.start() + range.start, span.start() + range.end);
            Span::new(start, end, span.is_escaped())
        };
        self.texts[Field::Method as usize] = part(parts.method);
        if let Some(protocol) = parts.protocol {
            self.texts[Field::Protocol as usize] = part(protocol);
        }
        self.target(line, part(parts.target));
    }

    fn target(&mut self, line: &[u8], span: Span) {
        let parts = request::target(span.bytes(line));
        let part = |range: std::ops::Range<usize>| {
            let (start, end) = (span.start() + range.start, span.start() + range.end);
            Span::new(start, end, span.is_escaped())
        };
        let fields = [
            (Field::Scheme, parts.scheme),
            (Field::Host, parts.host),
            (Field::Path, parts.path),
            (Field::Query, parts.query),
        ];
        for (field, range) in fields {
            if let Some(range) = range {
                self.texts[field as usize] = part(range);
            }
        }
    }

    /// Works out when the request arrived.
    pub(crate) fn finish(&mut self) -> Result<(), &'static str> {
        let path = &mut self.texts[Field::Path as usize];
        if path.is_empty() {
            *path = self.uri;
        }
        let (time, stamp) = match (self.decided.or(self.started), self.ended, self.duration) {
            (Some(start), ..) => (start, Stamp::Arrival),
            (None, Some(end), NONE) => (end, Stamp::End),
            (None, Some(end), duration) => {
                let micros = end.micros.saturating_sub(duration);
                (Time { micros, ..end }, Stamp::Shifted)
            }
            (None, None, _) => return Err("expected a time, which the line lacks"),
        };
        (self.arrival, self.resolution, self.stamp) = (time.micros, time.resolution, stamp);
        Ok(())
    }

    /// About when the line was written: logs are in this order.
    pub(crate) fn written(&self) -> u64 {
        match self.ended {
            Some(end) => end.micros.max(self.arrival),
            None => self.arrival.saturating_add(self.duration().unwrap_or(0)),
        }
    }
}

/// The more exact of two times.
fn finer(known: Option<Time>, other: Option<Time>) -> Result<Time, &'static str> {
    let other = other.ok_or("expected a time, such as 22/Nov/2026:15:32:17 +0000")?;
    Ok(known
        .filter(|known| known.resolution < other.resolution)
        .unwrap_or(other))
}

/// A status; 0 stands for none, as does the -1 of HAProxy.
fn status(text: &[u8]) -> Option<u16> {
    match text {
        b"0" | b"-1" | b"000" => Some(0),
        [b'1'..=b'9', _, _] => number(text).map(|status| status as u16),
        _ => None,
    }
}

/// The last status of a list, such as nginx's `502, 200`.
fn last_status(text: &[u8]) -> u16 {
    let mut words = text.rsplit(|byte| matches!(byte, b' ' | b',' | b':'));
    let last = words.find(|word| !word.is_empty());
    last.and_then(status).unwrap_or(0)
}

/// A number of bytes; -1 stands for none.
fn bytes(text: &[u8]) -> Result<u64, &'static str> {
    if text == b"-1" {
        return Ok(NONE);
    }
    number(text).ok_or("expected a number of bytes")
}

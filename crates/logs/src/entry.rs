//! One request, as a line of a log has it.

use std::net::IpAddr;

use crate::field::{Field, Fields};
use crate::record::{Record, Stamp};
use crate::text::Text;

/// One request, as a line of a log has it. What the line lacks is none.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub(crate) line: &'a [u8],
    pub(crate) record: &'a Record,
    pub(crate) fields: &'a Fields,
    /// The names of the headers, in lower case, in the order in which records have them.
    pub(crate) headers: &'a [Box<str>],
}

impl<'a> Entry<'a> {
    /// When the request arrived, in microseconds since the epoch; more exactly, it arrived within [`resolution`](Self::resolution)
    /// from then on.
    pub const fn arrival(&self) -> u64 {
        self.record.arrival
    }

    /// How exact [`arrival`](Self::arrival) is, in microseconds: 1,000,000 if the log has whole seconds.
    pub const fn resolution(&self) -> u64 {
        self.record.resolution as u64
    }

    /// What the time of the line says.
    pub const fn stamp(&self) -> Stamp {
        self.record.stamp
    }

    /// The fields that lines of this log can have.
    pub const fn fields(&self) -> &'a Fields {
        self.fields
    }

    /// A text; none if this is not a field with a text.
    pub fn text(&self, field: Field) -> Option<Text<'a>> {
        let span = self.record.texts.get(field as usize)?;
        span.text(self.line, self.record.escape)
    }

    /// The method.
    pub fn method(&self) -> Option<Text<'a>> {
        self.text(Field::Method)
    }

    /// The path, without the query.
    pub fn path(&self) -> Option<Text<'a>> {
        self.text(Field::Path)
    }

    /// The query, without `?`. If [`fields`](Self::fields) lack it, the log leaves it out.
    pub fn query(&self) -> Option<Text<'a>> {
        self.text(Field::Query)
    }

    /// The host, perhaps with a port.
    pub fn host(&self) -> Option<Text<'a>> {
        self.text(Field::Host)
    }

    /// The client that tidegate named, such as `api_key:acme`.
    pub fn client(&self) -> Option<Text<'a>> {
        self.text(Field::Client)
    }

    /// The address that connected to what wrote the log.
    pub const fn peer(&self) -> Option<IpAddr> {
        self.record.peer
    }

    /// The address that tidegate's limits per `ip` count, if its own log says so.
    pub const fn client_ip(&self) -> Option<IpAddr> {
        self.record.client_ip
    }

    /// The status of the answer.
    pub fn status(&self) -> Option<u16> {
        Some(self.record.status).filter(|status| *status > 0)
    }

    /// The status of the upstream's answer.
    pub fn upstream_status(&self) -> Option<u16> {
        Some(self.record.upstream_status).filter(|status| *status > 0)
    }

    /// How long the request took, in microseconds.
    pub const fn duration(&self) -> Option<u64> {
        self.record.duration
    }

    /// When the request ended, in microseconds since the epoch, if the line says so or has a duration.
    pub fn ended(&self) -> Option<u64> {
        let by_duration = || Some(self.record.arrival.saturating_add(self.duration()?));
        let ended = self.record.ended.map(|end| end.micros);
        ended.or_else(by_duration)
    }

    /// The bytes received.
    pub const fn bytes_in(&self) -> Option<u64> {
        self.record.bytes_in
    }

    /// The bytes sent.
    pub const fn bytes_out(&self) -> Option<u64> {
        self.record.bytes_out
    }

    /// The highest cost that a limit of the request charged.
    pub const fn cost(&self) -> Option<u64> {
        self.record.cost
    }

    /// How long tidegate let the request wait, in microseconds.
    pub const fn waited(&self) -> Option<u64> {
        self.record.waited
    }

    /// The request headers that the line has, with names in lower case, but `host` and `x-forwarded-for`.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, Text<'a>)> {
        let (line, record) = (self.line, self.record);
        let named = self.headers.iter().zip(&record.headers);
        named.filter_map(move |(name, span)| Some((&**name, span.text(line, record.escape)?)))
    }

    /// The value of a request header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<Text<'a>> {
        if let Some(field) = Field::of_header(name) {
            return self.text(field);
        }
        let mut headers = self.headers();
        headers.find(|it| it.0 == name).map(|it| it.1)
    }
}

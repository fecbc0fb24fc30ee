//! One request, as a line of a log has it.

use std::net::IpAddr;

use crate::field::{Field, Fields};
use crate::record::{Record, Stamp};
use crate::text::Text;

/// One request, as a line of a log has it. A value that the line lacks is `None`.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub(crate) line: &'a [u8],
    pub(crate) record: &'a Record,
    pub(crate) fields: &'a Fields,
    /// The names of the headers, in lower case, in the order in which records have them.
    pub(crate) headers: &'a [Box<str>],
}

impl<'a> Entry<'a> {
    /// Returns the time of arrival, in microseconds since the epoch. The request arrived at this time, or less than
    /// [`resolution`](Self::resolution) later.
    pub const fn arrival(&self) -> u64 {
        self.record.arrival
    }

    /// Returns the resolution of [`arrival`](Self::arrival), in microseconds: 1,000,000 if the log has whole seconds.
    pub const fn resolution(&self) -> u64 {
        self.record.resolution as u64
    }

    /// Returns the event that the line's time stands for.
    pub const fn stamp(&self) -> Stamp {
        self.record.stamp
    }

    /// Returns the fields that lines of this log can have.
    pub const fn fields(&self) -> &'a Fields {
        self.fields
    }

    /// Returns the text of a field. `None` if the line lacks the field, or if the field is not a text.
    pub fn text(&self, field: Field) -> Option<Text<'a>> {
        let span = self.record.texts.get(field as usize)?;
        span.text(self.line, self.record.escape)
    }

    /// Returns the method.
    pub fn method(&self) -> Option<Text<'a>> {
        self.text(Field::Method)
    }

    /// Returns the path, without the query.
    pub fn path(&self) -> Option<Text<'a>> {
        self.text(Field::Path)
    }

    /// Returns the query, without `?`. If the log leaves out all queries, [`fields`](Self::fields) does not have [`Field::Query`].
    pub fn query(&self) -> Option<Text<'a>> {
        self.text(Field::Query)
    }

    /// Returns the host, perhaps with a port.
    pub fn host(&self) -> Option<Text<'a>> {
        self.text(Field::Host)
    }

    /// Returns the client that tidegate named, such as `api_key:acme`.
    pub fn client(&self) -> Option<Text<'a>> {
        self.text(Field::Client)
    }

    /// Returns the address that connected to the server that wrote the log.
    pub const fn peer(&self) -> Option<IpAddr> {
        self.record.peer
    }

    /// Returns the address that tidegate's limits per `ip` count. Only a log of tidegate can have this address.
    pub const fn client_ip(&self) -> Option<IpAddr> {
        self.record.client_ip
    }

    /// Returns the status of the answer.
    pub fn status(&self) -> Option<u16> {
        Some(self.record.status).filter(|status| *status > 0)
    }

    /// Returns the status of the upstream's answer.
    pub fn upstream_status(&self) -> Option<u16> {
        Some(self.record.upstream_status).filter(|status| *status > 0)
    }

    /// Returns the duration of the request, in microseconds.
    pub const fn duration(&self) -> Option<u64> {
        self.record.duration
    }

    /// Returns the time when the request ended, in microseconds since the epoch. `None` if the line has neither this time nor a duration.
    pub fn ended(&self) -> Option<u64> {
        let ended = self.record.ended.map(|end| end.micros);
        ended.or_else(|| Some(self.record.arrival.saturating_add(self.duration()?)))
    }

    /// Returns the bytes received.
    pub const fn bytes_in(&self) -> Option<u64> {
        self.record.bytes_in
    }

    /// Returns the bytes sent.
    pub const fn bytes_out(&self) -> Option<u64> {
        self.record.bytes_out
    }

    /// Returns the highest cost that a limit of the request charged.
    pub const fn cost(&self) -> Option<u64> {
        self.record.cost
    }

    /// Returns the time that the request waited in tidegate, in microseconds.
    pub const fn waited(&self) -> Option<u64> {
        self.record.waited
    }

    /// Returns the request headers of the line, except `host` and `x-forwarded-for`. The names are in lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, Text<'a>)> {
        let (line, record) = (self.line, self.record);
        let named = self.headers.iter().zip(&record.headers);
        named.filter_map(move |(name, span)| Some((&**name, span.text(line, record.escape)?)))
    }

    /// Returns the value of a request header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<Text<'a>> {
        if let Some(field) = Field::of_header(name) {
            return self.text(field);
        }
        let mut headers = self.headers();
        headers.find(|it| it.0 == name).map(|it| it.1)
    }
}

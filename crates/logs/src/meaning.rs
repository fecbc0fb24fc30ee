//! The meanings of values in a line.

use crate::field::{Field, Fields};
use crate::time::scaled;

/// The longest duration, 31 days in microseconds. A larger number is refused: it probably has another unit than its name implies.
const LONGEST: u64 = 31 * 86_400 * 1_000_000;

/// The meaning of a value in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// An unwanted value.
    Skip,
    /// The value of this field: a text, an address, a status, or a number. A duration has a meaning of its own, which includes the unit.
    Field(Field),
    /// `GET /path?query HTTP/1.1`.
    Request,
    /// `/path?query`, or `http://host/path?query`.
    Target,
    /// nginx's `$uri`.
    Uri,
    /// A request header, by its index in the list of headers.
    Header(u8),
    /// The address of the peer under an ambiguous name. It is used only if the line has no other address.
    OtherPeer,
    /// The address of the peer, and its port after the last colon.
    PeerAndPort,
    Duration(Unit),
    Waited(Unit),
    /// When the request arrived.
    Start,
    /// When the request ended.
    End,
    /// When tidegate's limits decided, by the clock of the store.
    Decided,
    /// A nested JSON object that has wanted members, by its index in the list of objects.
    Object(u8),
    /// tidegate's count of lost lines.
    Lost,
    /// The log that the line belongs to, in the logs of tidegate and Caddy.
    Log,
}

/// The unit of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
}

impl Unit {
    const fn micros(self) -> f64 {
        match self {
            Self::Nanoseconds => 1e-3,
            Self::Microseconds => 1.0,
            Self::Milliseconds => 1e3,
            Self::Seconds => 1e6,
        }
    }

    /// Reads a number in this unit. Returns at most [`LONGEST`] microseconds.
    pub(crate) fn read(self, text: &[u8]) -> Option<u64> {
        scaled(text, self.micros()).filter(|micros| *micros <= LONGEST)
    }
}

impl Meaning {
    /// Adds the fields that a value with this meaning has. `headers` has the names of all headers.
    pub(crate) fn gives(self, fields: &mut Fields, headers: &[Box<str>]) {
        let given: &[Field] = match self {
            Self::Header(number) => {
                let name = headers.get(usize::from(number));
                name.into_iter().for_each(|name| fields.add_header(name));
                return;
            }
            Self::Field(field) => &[field],
            Self::Request => &[Field::Method, Field::Path, Field::Query, Field::Protocol],
            Self::Target => &[Field::Path, Field::Query],
            Self::Uri => &[Field::Path],
            Self::OtherPeer | Self::PeerAndPort => &[Field::Peer],
            Self::Duration(_) => &[Field::Duration],
            Self::Waited(_) => &[Field::Waited],
            Self::Skip | Self::Object(_) | Self::Lost | Self::Log => &[],
            Self::Start | Self::Decided | Self::End => &[],
        };
        given.iter().for_each(|field| fields.add(*field));
    }
}

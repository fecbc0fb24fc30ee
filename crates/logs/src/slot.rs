//! What the values of a line are.

use crate::field::{Field, Fields};
use crate::time::scaled;

/// The longest duration, 31 days: a number beyond it has another unit than its name says.
const LONGEST: u64 = 31 * 86_400 * 1_000_000;

/// What a value of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Nothing that is asked for.
    Skip,
    /// A field with a text.
    Text(Field),
    /// `GET /path?query HTTP/1.1`.
    Request,
    /// `/path?query`, or `http://host/path?query`.
    Target,
    /// nginx's `$uri`.
    Uri,
    /// A request header, by its number.
    Header(u8),
    /// An address, perhaps with a port.
    Peer,
    /// The same under a name that may mean something else: it counts where the line has no other.
    OtherPeer,
    /// An address with its port behind the last colon.
    PeerAndPort,
    /// The same as [`Peer`](Self::Peer), as tidegate's limits count it.
    ClientIp,
    Status,
    UpstreamStatus,
    BytesIn,
    BytesOut,
    Cost,
    Duration(Unit),
    Waited(Unit),
    /// When the request arrived.
    Start,
    /// When it ended.
    End,
    /// When tidegate's limits were asked, by the clock of the store.
    Decided,
    /// An object of JSON whose members are asked for, by its number.
    Object(u8),
    /// tidegate's count of lost lines.
    Lost,
    /// Of which of tidegate's logs the line is.
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

    /// Reads a number of these units, in microseconds: [`LONGEST`] at most.
    pub(crate) fn read(self, text: &[u8]) -> Option<u64> {
        scaled(text, self.micros()).filter(|micros| *micros <= LONGEST)
    }
}

impl Slot {
    /// Adds the fields that a value of this slot gives. These are the names of all headers.
    pub(crate) fn gives(self, fields: &mut Fields, headers: &[Box<str>]) {
        if let Self::Header(number) = self
            && let Some(name) = headers.get(usize::from(number))
        {
            fields.add_header(name);
        }
        let given: &[Field] = match self {
            Self::Skip
            | Self::Object(_)
            | Self::Lost
            | Self::Log
            | Self::Header(_)
            | Self::Start
            | Self::Decided
            | Self::End => &[],
            Self::Text(field) => &[field],
            Self::Request => &[Field::Method, Field::Path, Field::Query, Field::Protocol],
            Self::Target => &[Field::Path, Field::Query],
            Self::Uri => &[Field::Path],
            Self::Peer | Self::OtherPeer | Self::PeerAndPort => &[Field::Peer],
            Self::ClientIp => &[Field::ClientIp],
            Self::Status => &[Field::Status],
            Self::UpstreamStatus => &[Field::UpstreamStatus],
            Self::BytesIn => &[Field::BytesIn],
            Self::BytesOut => &[Field::BytesOut],
            Self::Cost => &[Field::Cost],
            Self::Duration(_) => &[Field::Duration],
            Self::Waited(_) => &[Field::Waited],
        };
        given.iter().for_each(|field| fields.add(*field));
    }
}

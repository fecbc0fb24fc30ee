//! The names of values in logs, and their meanings.

use crate::field::{Field, Fields};
use crate::record::MAX_HEADERS;
use crate::slot::{Slot, Unit};

/// The vocabulary of the names in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vocabulary {
    /// tidegate's fields.
    Tidegate,
    /// nginx's variables, and operators' names for them in JSON.
    Nginx,
    /// nginx's variables and tidegate's fields.
    Template,
    /// The names in Traefik's JSON.
    Traefik,
    /// The names in Caddy's JSON.
    Caddy,
    /// The members of `request` in Caddy's lines.
    CaddyRequest,
    /// Request headers, of which only listed ones are read.
    Headers,
    /// No vocabulary: all names are listed.
    Listed,
}

/// Most names stored for one log.
const MAX_NAMES: usize = 512;

/// The names of a log's values. Lines of one log have the same names in about the same order.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    vocabulary: Vocabulary,
    known: Vec<Name>,
    /// The number of the expected name at each place. Place 0 is before the first name, place n + 1 after name n.
    next: Vec<u16>,
    headers: Vec<Box<str>>,
    /// Whether a header was left out, because there was no place for it.
    is_full: bool,
}

#[derive(Clone, Debug)]
struct Name {
    text: Box<[u8]>,
    slot: Slot,
}

/// A line's place in the order of names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(usize);

impl Names {
    pub(crate) fn new(vocabulary: Vocabulary) -> Self {
        Self {
            vocabulary,
            known: Vec::new(),
            next: vec![0],
            headers: Vec::new(),
            is_full: false,
        }
    }

    /// The place before the first name of a line.
    pub(crate) const START: Place = Place(0);

    /// Returns the name that probably comes next, and its meaning.
    pub(crate) fn expected(&self, place: Place) -> Option<(&[u8], Slot)> {
        let next = usize::from(*self.next.get(place.0)?);
        let name = self.known.get(next)?;
        Some((&name.text, name.slot))
    }

    /// Returns the place after the expected name.
    pub(crate) fn behind(&self, place: Place) -> Place {
        let next = self.next.get(place.0).copied().unwrap_or(0);
        Place(usize::from(next) + 1)
    }

    /// Returns the meaning of this name, and the place after it.
    pub(crate) fn find(&mut self, place: Place, text: &[u8]) -> (Slot, Place) {
        let known = self.known.iter().position(|name| *name.text == *text);
        let at = match known {
            Some(at) => at,
            None if self.known.len() < MAX_NAMES && text.len() < 256 => {
                let slot = self.meaning(text);
                self.list(text, slot)
            }
            // The table is full, or the name too long: skip its value.
            None => return (Slot::Skip, place),
        };
        if let Some(next) = self.next.get_mut(place.0) {
            *next = at as u16;
        }
        (self.known[at].slot, Place(at + 1))
    }

    /// Adds a name with its meaning, and returns its number.
    pub(crate) fn list(&mut self, text: &[u8], slot: Slot) -> usize {
        self.known.push(Name {
            text: text.into(),
            slot,
        });
        // No name has followed this one yet.
        self.next.push(u16::MAX);
        self.known.len() - 1
    }

    /// Returns the meaning of a stored name.
    pub(crate) fn listed(&self, text: &[u8]) -> Option<Slot> {
        let known = self.known.iter().find(|name| *name.text == *text);
        known.map(|name| name.slot)
    }

    /// Returns the meaning of a name in the vocabulary.
    pub(crate) fn meaning(&mut self, text: &[u8]) -> Slot {
        let Ok(name) = std::str::from_utf8(text) else {
            return Slot::Skip;
        };
        let found = match self.vocabulary {
            Vocabulary::Tidegate => tidegate(name),
            Vocabulary::Nginx => nginx(name).or_else(|| operators(name)),
            Vocabulary::Template => nginx(name).or_else(|| tidegate(name)),
            Vocabulary::Traefik => traefik(name),
            Vocabulary::Caddy => caddy(name),
            Vocabulary::CaddyRequest => caddy_request(name),
            Vocabulary::Headers | Vocabulary::Listed => None,
        };
        if let Some(slot) = found {
            return slot;
        }
        let header = match self.vocabulary {
            Vocabulary::Nginx | Vocabulary::Template => {
                let header = name.strip_prefix("http_");
                header.map(|header| header.replace('_', "-"))
            }
            Vocabulary::Traefik => name.strip_prefix("request_").map(str::to_owned),
            Vocabulary::Headers => Some(name.to_owned()),
            _ => None,
        };
        header.map_or(Slot::Skip, |header| self.header(&header))
    }

    /// Returns the slot of a request header.
    pub(crate) fn header(&mut self, name: &str) -> Slot {
        if let Some(field) = Field::of_header(name) {
            return Slot::Field(field);
        }
        let mut headers = self.headers.iter();
        let number = match headers.position(|it| it.eq_ignore_ascii_case(name)) {
            Some(number) => number,
            None if self.vocabulary == Vocabulary::Headers => return Slot::Skip,
            None if self.headers.len() < MAX_HEADERS => {
                self.headers.push(name.to_ascii_lowercase().into());
                self.headers.len() - 1
            }
            None => {
                self.is_full = true;
                return Slot::Skip;
            }
        };
        Slot::Header(number as u8)
    }

    /// Makes an empty table for another object of the line, with the same headers.
    pub(crate) fn of_headers(&self) -> Self {
        Self {
            headers: self.headers.clone(),
            ..Self::new(Vocabulary::Headers)
        }
    }

    /// Returns the names of headers.
    pub(crate) fn headers(&self) -> &[Box<str>] {
        &self.headers
    }

    /// Whether the log has more headers than an entry has places.
    pub(crate) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the number of names seen.
    pub(crate) const fn count(&self) -> usize {
        self.known.len()
    }

    /// Adds the fields of the names in a line and in its objects. The first object has the names of all headers.
    pub(crate) fn add_fields(objects: &[Self], fields: &mut Fields) {
        let headers = objects.first().map_or(&[][..], Self::headers);
        for name in objects.iter().flat_map(|names| &names.known) {
            name.slot.gives(fields, headers);
        }
    }

    /// Whether the names include a time of the request.
    pub(crate) fn has_time(&self) -> bool {
        let is_time = |name: &Name| matches!(name.slot, Slot::Start | Slot::End);
        self.known.iter().any(is_time)
    }
}

/// Returns the slot of a field in tidegate's access log.
pub(crate) fn tidegate(name: &str) -> Option<Slot> {
    Some(match name {
        "timestamp" | "time_local" => Slot::End,
        "time" => Slot::Start,
        "decided_at" => Slot::Decided,
        "total_us" => Slot::Duration(Unit::Microseconds),
        "waited_us" => Slot::Waited(Unit::Microseconds),
        "lost" => Slot::Lost,
        "target" => Slot::Log,
        // The path is logged without the query.
        "id" | "method" | "host" | "path" | "protocol" | "outcome" | "route" | "client"
        | "plan" | "limit" | "refused_by" | "would_refuse" | "exempt" | "denied_by"
        | "decided_by" | "peer" | "client_ip" | "status" | "upstream_status" | "bytes_in"
        | "bytes_out" | "cost" => Slot::Field(Field::named(name)?),
        _ => return None,
    })
}

/// Returns the slot of an nginx variable.
fn nginx(name: &str) -> Option<Slot> {
    Some(match name {
        "time_local" | "time_iso8601" | "msec" => Slot::End,
        "remote_addr" => Slot::Field(Field::Peer),
        "realip_remote_addr" => Slot::OtherPeer,
        "remote_user" => Slot::Field(Field::User),
        "request" => Slot::Request,
        "request_method" => Slot::Field(Field::Method),
        "request_uri" => Slot::Target,
        "uri" | "document_uri" => Slot::Uri,
        "args" | "query_string" => Slot::Field(Field::Query),
        "host" | "http_host" => Slot::Field(Field::Host),
        "scheme" => Slot::Field(Field::Scheme),
        "server_protocol" => Slot::Field(Field::Protocol),
        "status" => Slot::Field(Field::Status),
        "upstream_status" => Slot::Field(Field::UpstreamStatus),
        "body_bytes_sent" | "bytes_sent" => Slot::Field(Field::BytesOut),
        "request_length" => Slot::Field(Field::BytesIn),
        "request_time" => Slot::Duration(Unit::Seconds),
        "request_id" => Slot::Field(Field::Id),
        _ => return None,
    })
}

/// Returns the slot of an operator's name for an nginx variable in JSON. A duration whose name has no unit has no slot.
fn operators(name: &str) -> Option<Slot> {
    Some(match name {
        "time" | "timestamp" | "@timestamp" | "ts" | "date" | "datetime" | "time_msec" => Slot::End,
        "remote_ip" | "client_ip" | "clientip" | "client" | "ip" | "remote_address" => {
            Slot::OtherPeer
        }
        "user" => Slot::Field(Field::User),
        "method" | "verb" => Slot::Field(Field::Method),
        "path" | "url" => Slot::Target,
        "query" => Slot::Field(Field::Query),
        "vhost" => Slot::Field(Field::Host),
        "protocol" | "http_version" => Slot::Field(Field::Protocol),
        "response_code" | "status_code" | "response_status" => Slot::Field(Field::Status),
        "bytes" | "size" | "response_length" => Slot::Field(Field::BytesOut),
        "x_forwarded_for" | "xff" => Slot::Field(Field::ForwardedFor),
        "x_request_id" | "req_id" => Slot::Field(Field::Id),
        _ => return None,
    })
}

/// Returns the slot of a name in Traefik's JSON.
fn traefik(name: &str) -> Option<Slot> {
    Some(match name {
        "StartUTC" | "StartLocal" => Slot::Start,
        "time" => Slot::End,
        "Duration" => Slot::Duration(Unit::Nanoseconds),
        "ClientAddr" => Slot::Field(Field::Peer),
        "ClientUsername" => Slot::Field(Field::User),
        "RequestMethod" => Slot::Field(Field::Method),
        "RequestPath" => Slot::Target,
        "RequestHost" => Slot::Field(Field::Host),
        "RequestScheme" => Slot::Field(Field::Scheme),
        "RequestProtocol" => Slot::Field(Field::Protocol),
        "DownstreamStatus" => Slot::Field(Field::Status),
        "OriginStatus" => Slot::Field(Field::UpstreamStatus),
        "RequestContentSize" => Slot::Field(Field::BytesIn),
        "DownstreamContentSize" => Slot::Field(Field::BytesOut),
        _ => return None,
    })
}

/// Returns the slot of a name in Caddy's JSON, whose time is the end of the request.
fn caddy(name: &str) -> Option<Slot> {
    Some(match name {
        "ts" => Slot::End,
        "logger" => Slot::Log,
        "request" => Slot::Object(1),
        "user_id" => Slot::Field(Field::User),
        "duration" => Slot::Duration(Unit::Seconds),
        "status" => Slot::Field(Field::Status),
        "bytes_read" => Slot::Field(Field::BytesIn),
        "size" => Slot::Field(Field::BytesOut),
        _ => return None,
    })
}

/// Returns the slot of a member of `request`. `client_ip` is the address behind proxies that Caddy trusts.
fn caddy_request(name: &str) -> Option<Slot> {
    Some(match name {
        "client_ip" => Slot::Field(Field::Peer),
        "remote_ip" | "remote_addr" => Slot::OtherPeer,
        "proto" => Slot::Field(Field::Protocol),
        "method" => Slot::Field(Field::Method),
        "host" => Slot::Field(Field::Host),
        "uri" => Slot::Target,
        "headers" => Slot::Object(2),
        _ => return None,
    })
}

/// Returns the meaning of a name in `--map`: a field, `time`, `end`, `target`, `request`, a duration with its unit, or `header:NAME`.
pub(crate) fn mapped(names: &mut Names, name: &str) -> Option<Slot> {
    if let Some(header) = name.strip_prefix("header:") {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        return (!header.is_empty() && header.bytes().all(is_name)).then(|| names.header(header));
    }
    Some(match name {
        "time" => Slot::Start,
        "end" => Slot::End,
        "request" => Slot::Request,
        "target" => Slot::Target,
        "duration" | "duration_s" => Slot::Duration(Unit::Seconds),
        "duration_ms" => Slot::Duration(Unit::Milliseconds),
        "duration_us" => Slot::Duration(Unit::Microseconds),
        "duration_ns" => Slot::Duration(Unit::Nanoseconds),
        "waited" => Slot::Waited(Unit::Seconds),
        "ip" => Slot::Field(Field::Peer),
        // The path may have a query.
        "path" => Slot::Target,
        _ => Slot::Field(Field::named(name)?),
    })
}

//! The names of values in logs, and their meanings.

use crate::field::{Field, Fields};
use crate::meaning::{Meaning, Unit};
use crate::record::MAX_HEADERS;

/// The vocabulary of the names in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vocabulary {
    /// tidegate's fields.
    Tidegate,
    /// nginx's variables, and the names that operators give to these variables in JSON.
    Nginx,
    /// nginx's variables and tidegate's fields.
    Template,
    /// The names in Traefik's JSON.
    Traefik,
    /// The names in Caddy's JSON.
    Caddy,
    /// The members of `request` in Caddy's lines.
    CaddyRequest,
    /// Names of request headers. Only listed headers are read.
    Headers,
    /// No vocabulary: only names that [`Names::list`] has added have a meaning.
    Listed,
}

/// The most names stored for one log.
const MAX_NAMES: usize = 512;

/// The names of a log's values. Lines of one log have the same names in about the same order.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    vocabulary: Vocabulary,
    entries: Vec<Name>,
    /// For each [`Place`], the index in `entries` of the name that is expected next. Place 0 is before the first name, place n + 1 after
    /// name n.
    next: Vec<u16>,
    headers: Vec<Box<str>>,
    /// Whether a header was left out, because the log has more than [`MAX_HEADERS`] headers.
    is_full: bool,
}

#[derive(Clone, Debug)]
struct Name {
    text: Box<[u8]>,
    meaning: Meaning,
}

/// A place in the order of names: before the first name, or after a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(usize);

impl Names {
    pub(crate) fn new(vocabulary: Vocabulary) -> Self {
        Self {
            vocabulary,
            entries: Vec::new(),
            next: vec![0],
            headers: Vec::new(),
            is_full: false,
        }
    }

    /// The place before the first name of a line.
    pub(crate) const START: Place = Place(0);

    /// Returns the name that probably comes next, and its meaning.
    pub(crate) fn expected(&self, place: Place) -> Option<(&[u8], Meaning)> {
        let next = usize::from(*self.next.get(place.0)?);
        let name = self.entries.get(next)?;
        Some((&name.text, name.meaning))
    }

    /// Returns the place after the expected name.
    pub(crate) fn behind(&self, place: Place) -> Place {
        let next = self.next.get(place.0).copied().unwrap_or(0);
        Place(usize::from(next) + 1)
    }

    /// Returns the meaning of this name, and the place after it. If the name is new, adds it to the table.
    pub(crate) fn find(&mut self, place: Place, text: &[u8]) -> (Meaning, Place) {
        let number = self.entries.iter().position(|name| *name.text == *text);
        let at = match number {
            Some(at) => at,
            None if self.entries.len() < MAX_NAMES && text.len() < 256 => {
                let meaning = self.meaning(text);
                self.list(text, meaning)
            }
            // The table is full, or the name too long: skip its value.
            None => return (Meaning::Skip, place),
        };
        if let Some(next) = self.next.get_mut(place.0) {
            *next = at as u16;
        }
        (self.entries[at].meaning, Place(at + 1))
    }

    /// Adds a name with its meaning, and returns its number.
    pub(crate) fn list(&mut self, text: &[u8], meaning: Meaning) -> usize {
        self.entries.push(Name {
            text: text.into(),
            meaning,
        });
        // No name has followed this one yet.
        self.next.push(u16::MAX);
        self.entries.len() - 1
    }

    /// Returns the meaning of a stored name.
    pub(crate) fn listed(&self, text: &[u8]) -> Option<Meaning> {
        let name = self.entries.iter().find(|name| *name.text == *text);
        name.map(|name| name.meaning)
    }

    /// Returns the meaning of a name in the vocabulary.
    pub(crate) fn meaning(&mut self, text: &[u8]) -> Meaning {
        let Ok(name) = std::str::from_utf8(text) else {
            return Meaning::Skip;
        };
        let meaning = match self.vocabulary {
            Vocabulary::Tidegate => tidegate(name),
            Vocabulary::Nginx => nginx(name).or_else(|| operators(name)),
            Vocabulary::Template => nginx(name).or_else(|| tidegate(name)),
            Vocabulary::Traefik => traefik(name),
            Vocabulary::Caddy => caddy(name),
            Vocabulary::CaddyRequest => caddy_request(name),
            Vocabulary::Headers | Vocabulary::Listed => None,
        };
        if let Some(meaning) = meaning {
            return meaning;
        }
        let header = match self.vocabulary {
            Vocabulary::Nginx | Vocabulary::Template => {
                name.strip_prefix("http_").map(|it| it.replace('_', "-"))
            }
            Vocabulary::Traefik => name.strip_prefix("request_").map(str::to_owned),
            Vocabulary::Headers => Some(name.to_owned()),
            _ => None,
        };
        header.map_or(Meaning::Skip, |header| self.header(&header))
    }

    /// Returns the meaning of a request header.
    pub(crate) fn header(&mut self, name: &str) -> Meaning {
        if let Some(field) = Field::of_header(name) {
            return Meaning::Field(field);
        }
        let mut headers = self.headers.iter();
        let number = match headers.position(|it| it.eq_ignore_ascii_case(name)) {
            Some(number) => number,
            None if self.vocabulary == Vocabulary::Headers => return Meaning::Skip,
            None if self.headers.len() < MAX_HEADERS => {
                self.headers.push(name.to_ascii_lowercase().into());
                self.headers.len() - 1
            }
            None => {
                self.is_full = true;
                return Meaning::Skip;
            }
        };
        Meaning::Header(number as u8)
    }

    /// Makes an empty table for an object of the line whose members are request headers. The table has the same list of headers.
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

    /// Whether the log has more than [`MAX_HEADERS`] headers.
    pub(crate) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the number of names seen.
    pub(crate) const fn count(&self) -> usize {
        self.entries.len()
    }

    /// Adds the fields of the names in a line and in its objects. The first object has the names of all headers.
    pub(crate) fn add_fields(objects: &[Self], fields: &mut Fields) {
        let headers = objects.first().map_or(&[][..], Self::headers);
        for name in objects.iter().flat_map(|names| &names.entries) {
            name.meaning.gives(fields, headers);
        }
    }

    /// Whether the names include a time of the request.
    pub(crate) fn has_time(&self) -> bool {
        let mut names = self.entries.iter();
        names.any(|name| matches!(name.meaning, Meaning::Start | Meaning::End))
    }
}

/// Returns the meaning of a field in tidegate's access log.
pub(crate) fn tidegate(name: &str) -> Option<Meaning> {
    Some(match name {
        "timestamp" | "time_local" => Meaning::End,
        "time" => Meaning::Start,
        "decided_at" => Meaning::Decided,
        "total_us" => Meaning::Duration(Unit::Microseconds),
        "waited_us" => Meaning::Waited(Unit::Microseconds),
        "lost" => Meaning::Lost,
        "target" => Meaning::Log,
        // tidegate logs the path without the query, so `path` is a field and not a [`Meaning::Target`].
        "id" | "method" | "host" | "path" | "protocol" | "outcome" | "route" | "client"
        | "plan" | "limit" | "refused_by" | "would_refuse" | "exempt" | "denied_by"
        | "decided_by" | "door" | "peer" | "client_ip" | "status" | "upstream_status"
        | "bytes_in" | "bytes_out" | "cost" => Meaning::Field(Field::named(name)?),
        _ => return None,
    })
}

/// Returns the meaning of an nginx variable.
fn nginx(name: &str) -> Option<Meaning> {
    Some(match name {
        "time_local" | "time_iso8601" | "msec" => Meaning::End,
        "remote_addr" => Meaning::Field(Field::Peer),
        "realip_remote_addr" => Meaning::OtherPeer,
        "remote_user" => Meaning::Field(Field::User),
        "request" => Meaning::Request,
        "request_method" => Meaning::Field(Field::Method),
        "request_uri" => Meaning::Target,
        "uri" | "document_uri" => Meaning::Uri,
        "args" | "query_string" => Meaning::Field(Field::Query),
        "host" | "http_host" => Meaning::Field(Field::Host),
        "scheme" => Meaning::Field(Field::Scheme),
        "server_protocol" => Meaning::Field(Field::Protocol),
        "status" => Meaning::Field(Field::Status),
        "upstream_status" => Meaning::Field(Field::UpstreamStatus),
        "body_bytes_sent" | "bytes_sent" => Meaning::Field(Field::BytesOut),
        "request_length" => Meaning::Field(Field::BytesIn),
        "request_time" => Meaning::Duration(Unit::Seconds),
        "request_id" => Meaning::Field(Field::Id),
        _ => return None,
    })
}

/// Returns the meaning of an operator's name for an nginx variable in JSON. A duration whose name has no unit is skipped.
fn operators(name: &str) -> Option<Meaning> {
    Some(match name {
        "time" | "timestamp" | "@timestamp" | "ts" | "date" | "datetime" | "time_msec" => {
            Meaning::End
        }
        "remote_ip" | "client_ip" | "clientip" | "client" | "ip" | "remote_address" => {
            Meaning::OtherPeer
        }
        "user" => Meaning::Field(Field::User),
        "method" | "verb" => Meaning::Field(Field::Method),
        "path" | "url" => Meaning::Target,
        "query" => Meaning::Field(Field::Query),
        "vhost" => Meaning::Field(Field::Host),
        "protocol" | "http_version" => Meaning::Field(Field::Protocol),
        "response_code" | "status_code" | "response_status" => Meaning::Field(Field::Status),
        "bytes" | "size" | "response_length" => Meaning::Field(Field::BytesOut),
        "x_forwarded_for" | "xff" => Meaning::Field(Field::ForwardedFor),
        "x_request_id" | "req_id" => Meaning::Field(Field::Id),
        _ => return None,
    })
}

/// Returns the meaning of a name in Traefik's JSON.
fn traefik(name: &str) -> Option<Meaning> {
    Some(match name {
        "StartUTC" | "StartLocal" => Meaning::Start,
        "time" => Meaning::End,
        "Duration" => Meaning::Duration(Unit::Nanoseconds),
        "ClientAddr" => Meaning::Field(Field::Peer),
        "ClientUsername" => Meaning::Field(Field::User),
        "RequestMethod" => Meaning::Field(Field::Method),
        "RequestPath" => Meaning::Target,
        "RequestHost" => Meaning::Field(Field::Host),
        "RequestScheme" => Meaning::Field(Field::Scheme),
        "RequestProtocol" => Meaning::Field(Field::Protocol),
        "DownstreamStatus" => Meaning::Field(Field::Status),
        "OriginStatus" => Meaning::Field(Field::UpstreamStatus),
        "RequestContentSize" => Meaning::Field(Field::BytesIn),
        "DownstreamContentSize" => Meaning::Field(Field::BytesOut),
        _ => return None,
    })
}

/// Returns the meaning of a name in Caddy's JSON. Caddy's `ts` is the time when the request ended.
fn caddy(name: &str) -> Option<Meaning> {
    Some(match name {
        "ts" => Meaning::End,
        "logger" => Meaning::Log,
        "request" => Meaning::Object(1),
        "user_id" => Meaning::Field(Field::User),
        "duration" => Meaning::Duration(Unit::Seconds),
        "status" => Meaning::Field(Field::Status),
        "bytes_read" => Meaning::Field(Field::BytesIn),
        "size" => Meaning::Field(Field::BytesOut),
        _ => return None,
    })
}

/// Returns the meaning of a member of `request`. `client_ip` is the client's address, even if the request came through a proxy that Caddy
/// trusts.
fn caddy_request(name: &str) -> Option<Meaning> {
    Some(match name {
        "client_ip" => Meaning::Field(Field::Peer),
        "remote_ip" | "remote_addr" => Meaning::OtherPeer,
        "proto" => Meaning::Field(Field::Protocol),
        "method" => Meaning::Field(Field::Method),
        "host" => Meaning::Field(Field::Host),
        "uri" => Meaning::Target,
        "headers" => Meaning::Object(2),
        _ => return None,
    })
}

/// Returns the meaning of a name in `--map`: a field, `time`, `end`, `target`, `request`, a duration with its unit, or `header:NAME`.
pub(crate) fn mapped(names: &mut Names, name: &str) -> Option<Meaning> {
    if let Some(header) = name.strip_prefix("header:") {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        return (!header.is_empty() && header.bytes().all(is_name)).then(|| names.header(header));
    }
    Some(match name {
        "time" => Meaning::Start,
        "end" => Meaning::End,
        "request" => Meaning::Request,
        "target" => Meaning::Target,
        "duration" | "duration_s" => Meaning::Duration(Unit::Seconds),
        "duration_ms" => Meaning::Duration(Unit::Milliseconds),
        "duration_us" => Meaning::Duration(Unit::Microseconds),
        "duration_ns" => Meaning::Duration(Unit::Nanoseconds),
        "waited" => Meaning::Waited(Unit::Seconds),
        "ip" => Meaning::Field(Field::Peer),
        // The path may have a query, so it is a target.
        "path" => Meaning::Target,
        _ => Meaning::Field(Field::named(name)?),
    })
}

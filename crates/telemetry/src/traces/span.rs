//! The spans of one request, written at its end from what is known by then.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::uri::Authority;
use tidegate_store::Outcome;
use tidegate_upstream::Attempt;

use super::context::{TraceContext, new_id};
use super::protobuf::Message;
use crate::access_log::{AccessField, Fields as _, Record, Value};

/// The fields of messages, as opentelemetry-proto numbers them.
mod field {
    /// Of `ScopeSpans`.
    pub(super) const SPANS: u32 = 2;
    /// Of `Span`.
    pub(super) const TRACE_ID: u32 = 1;
    pub(super) const SPAN_ID: u32 = 2;
    pub(super) const PARENT: u32 = 4;
    pub(super) const NAME: u32 = 5;
    pub(super) const KIND: u32 = 6;
    pub(super) const START: u32 = 7;
    pub(super) const END: u32 = 8;
    pub(super) const ATTRIBUTES: u32 = 9;
    pub(super) const STATUS: u32 = 15;
    pub(super) const FLAGS: u32 = 16;
    /// Of `Status`.
    pub(super) const CODE: u32 = 3;
    /// Of `KeyValue`.
    pub(super) const KEY: u32 = 1;
    pub(super) const VALUE: u32 = 2;
    /// Of `AnyValue`.
    pub(super) const STRING: u32 = 1;
    pub(super) const INT: u32 = 3;
}

/// `Status.code` of what failed.
const ERROR: u64 = 2;
/// `Span.flags`: sampled; whether the parent is remote is known; it is.
const SAMPLED: u32 = 1;
const PARENT_KNOWN: u32 = 0x100;
const PARENT_REMOTE: u32 = 0x200;
/// The longest path and user agent, in bytes.
const MAX_TEXT: usize = 1_024;

/// `Span.kind`.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// The attributes of a traced request that are known at its start.
#[derive(Debug)]
pub(super) struct RequestStart {
    pub(super) started: Instant,
    pub(super) at: SystemTime,
    pub(super) is_tls: bool,
    /// The path of its route.
    pub(super) route: Option<std::sync::Arc<str>>,
}

/// The fields of the server span that are those of the access log.
const OF_LOG: &[(&str, AccessField)] = &[
    ("http.request.method", AccessField::Method),
    ("url.path", AccessField::Path),
    ("user_agent.original", AccessField::UserAgent),
    ("client.address", AccessField::ClientIp),
    ("network.peer.address", AccessField::Peer),
    ("network.peer.port", AccessField::PeerPort),
    ("http.request.body.size", AccessField::BytesIn),
    ("http.response.body.size", AccessField::BytesOut),
    ("tidegate.request_id", AccessField::Id),
    ("tidegate.route", AccessField::Route),
    ("tidegate.outcome", AccessField::Outcome),
    ("tidegate.cut", AccessField::Cut),
    ("tidegate.limit", AccessField::Limit),
    ("tidegate.decided_by", AccessField::DecidedBy),
    ("tidegate.plan", AccessField::Plan),
    ("tidegate.remaining", AccessField::Remaining),
];

/// The spans of a request as fields of `ScopeSpans`.
pub(super) fn spans(record: &Record, context: TraceContext, beginning: &RequestStart) -> Vec<u8> {
    let writer = Writer {
        context,
        at: beginning.at.duration_since(UNIX_EPOCH).unwrap_or_default(),
    };
    let mut out = Message::default();
    server(&mut out, &writer, record, beginning);
    let whole = record.took();
    let stored = store(&mut out, &writer, record, whole);
    let attempts = record.forwarded().map(|forwarded| &forwarded.attempts);
    let sent = |attempt: &Attempt| attempt.started.saturating_duration_since(beginning.started);
    let first = attempts.and_then(|attempts| attempts.iter().next());
    let waited = record
        .decided()
        .map_or(Duration::ZERO, |decided| decided.waited);
    if !waited.is_zero() {
        // It waited before it was sent, or to the end.
        let end = first.map_or(stored + waited, sent).min(whole);
        let start = end.saturating_sub(waited);
        out.message(field::SPANS, |span| {
            writer.begin(span, new_id(), "wait", Kind::Internal, start..end);
            attribute(span, "tidegate.limit", record.value(AccessField::Limit));
        });
    }
    let method = text(record.value(AccessField::Method));
    let count = attempts.map_or(0, |attempts| attempts.iter().count());
    for (nth, attempt) in attempts
        .iter()
        .flat_map(|attempts| attempts.iter())
        .enumerate()
    {
        // All attempts send this ID in `traceparent`; it belongs to the last one, which was answered.
        let id = if nth + 1 == count {
            context.outgoing
        } else {
            new_id()
        };
        let start = sent(attempt);
        out.message(field::SPANS, |span| {
            let method = method.as_deref().unwrap_or_default();
            writer.begin(
                span,
                id,
                name(method),
                Kind::Client,
                start..start + attempt.took,
            );
            outgoing(span, record, attempt, nth);
        });
    }
    out.into_bytes()
}

struct Writer {
    context: TraceContext,
    /// When the request arrived, since the epoch.
    at: Duration,
}

impl Writer {
    /// Writes what all spans but the first have.
    fn begin(
        &self,
        span: &mut Message,
        id: u64,
        name: &str,
        kind: Kind,
        time: std::ops::Range<Duration>,
    ) {
        self.begin_below(span, id, Some(self.context.span), name, kind, time);
        span.fixed32(field::FLAGS, SAMPLED | PARENT_KNOWN);
    }

    fn begin_below(
        &self,
        span: &mut Message,
        id: u64,
        parent: Option<u64>,
        name: &str,
        kind: Kind,
        time: std::ops::Range<Duration>,
    ) {
        span.bytes(field::TRACE_ID, &self.context.trace_id.to_be_bytes());
        span.bytes(field::SPAN_ID, &id.to_be_bytes());
        if let Some(parent) = parent {
            span.bytes(field::PARENT, &parent.to_be_bytes());
        }
        span.bytes(field::NAME, name.as_bytes());
        span.number(field::KIND, kind as u64);
        for (field, time) in [(field::START, time.start), (field::END, time.end)] {
            let nanos = u64::try_from((self.at + time).as_nanos());
            span.fixed64(field, nanos.unwrap_or(u64::MAX));
        }
    }
}

/// The span of the request itself.
fn server(out: &mut Message, writer: &Writer, record: &Record, beginning: &RequestStart) {
    let method = text(record.value(AccessField::Method)).unwrap_or_default();
    let route = beginning.route.as_deref();
    let span_name = match route {
        Some(route) => format!("{} {route}", name(&method)),
        None => name(&method).to_owned(),
    };
    let parent = writer.context.parent;
    out.message(field::SPANS, |span| {
        let time = Duration::ZERO..record.took();
        writer.begin_below(
            span,
            writer.context.span,
            parent,
            &span_name,
            Kind::Server,
            time,
        );
        let remote = if parent.is_some() { PARENT_REMOTE } else { 0 };
        span.fixed32(field::FLAGS, SAMPLED | PARENT_KNOWN | remote);
        for (key, field) in OF_LOG {
            let mut value = record.value(*field);
            if *field == AccessField::Method && known_method(&method) != method {
                attribute(span, "http.request.method_original", value);
                value = Value::Word("_OTHER");
            }
            attribute(span, key, value);
        }
        attribute(
            span,
            "url.scheme",
            Value::Word(if beginning.is_tls { "https" } else { "http" }),
        );
        if let Some(route) = route {
            attribute(span, "http.route", Value::Text(route.as_bytes(), MAX_TEXT));
        }
        if let Some(protocol) = text(record.value(AccessField::Protocol)) {
            let version = protocol.trim_start_matches("HTTP/").trim_end_matches(".0");
            // HTTP/1.0 keeps its zero.
            let version = if version == "1" { "1.0" } else { version };
            attribute(
                span,
                "network.protocol.version",
                Value::Text(version.as_bytes(), MAX_TEXT),
            );
        }
        let host = text(record.value(AccessField::Host));
        if let Some(host) = host.and_then(|host| host.parse::<Authority>().ok()) {
            let name = host.host().trim_matches(['[', ']']);
            attribute(
                span,
                "server.address",
                Value::Text(name.as_bytes(), MAX_TEXT),
            );
            if let Some(port) = host.port_u16() {
                attribute(span, "server.port", Value::Number(port.into()));
            }
        }
        let decision = record
            .decided()
            .and_then(|decided| decided.decision.as_ref());
        if let Some(decision) = decision {
            let verdict = match decision.outcome {
                Outcome::Admitted => "allowed",
                Outcome::Refused => "refused",
                Outcome::Unavailable => "undecided",
            };
            attribute(span, "tidegate.verdict", Value::Word(verdict));
        }
        if let Some(status) = record.answered_with() {
            attribute(
                span,
                "http.response.status_code",
                Value::Number(status.as_u16().into()),
            );
            // What a client did wrong is no error of the gateway.
            if status.is_server_error() {
                failed(span, status.as_str());
            } else if let Some(error) = record.cut_by_upstream() {
                failed(span, error);
            }
        }
    });
}

/// The span of the decision in Redis; says when it ended.
fn store(out: &mut Message, writer: &Writer, record: &Record, whole: Duration) -> Duration {
    let decision = record
        .decided()
        .and_then(|decided| decided.decision.as_ref());
    let Some(call) = decision.and_then(|decision| decision.call.as_ref()) else {
        return Duration::ZERO;
    };
    let end = call.took.min(whole);
    out.message(field::SPANS, |span| {
        writer.begin(span, new_id(), "EVALSHA", Kind::Client, Duration::ZERO..end);
        attribute(span, "db.system.name", Value::Word("redis"));
        attribute(span, "db.operation.name", Value::Word("EVALSHA"));
        attribute(
            span,
            "tidegate.decided_by",
            record.value(AccessField::DecidedBy),
        );
        if let Some(error) = &call.error {
            failed(span, error.label());
        }
    });
    end
}

/// What a server was asked, and how it answered.
fn outgoing(span: &mut Message, record: &Record, attempt: &Attempt, nth: usize) {
    let method = text(record.value(AccessField::Method)).unwrap_or_default();
    let known = known_method(&method);
    attribute(
        span,
        "http.request.method",
        Value::Text(known.as_bytes(), MAX_TEXT),
    );
    attribute(span, "server.address", Value::Address(attempt.server.ip()));
    attribute(
        span,
        "server.port",
        Value::Number(attempt.server.port().into()),
    );
    if nth > 0 {
        attribute(span, "http.request.resend_count", Value::Number(nth as u64));
    }
    if let Some(status) = attempt.status {
        attribute(
            span,
            "http.response.status_code",
            Value::Number(status.as_u16().into()),
        );
        if status.is_client_error() || status.is_server_error() {
            failed(span, status.as_str());
        }
    }
    if let Some(error) = attempt.error {
        failed(span, error);
    }
}

fn failed(span: &mut Message, kind: &str) {
    attribute(span, "error.type", Value::Text(kind.as_bytes(), MAX_TEXT));
    span.message(field::STATUS, |status| status.number(field::CODE, ERROR));
}

/// The methods of HTTP; a name that a client made up is none.
fn known_method(method: &str) -> &str {
    const KNOWN: [&str; 10] = [
        "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "CONNECT", "TRACE", "QUERY",
    ];
    KNOWN
        .into_iter()
        .find(|known| *known == method)
        .unwrap_or("_OTHER")
}

/// What a span of this method is called.
fn name(method: &str) -> &str {
    match known_method(method) {
        "_OTHER" => "HTTP",
        known => known,
    }
}

/// Writes an attribute that has a value.
pub(super) fn attribute(span: &mut Message, key: &str, value: Value<'_>) {
    if matches!(value, Value::Missing) {
        return;
    }
    span.message(field::ATTRIBUTES, |pair| key_value(pair, key, value));
}

/// Writes a key with its value.
pub(super) fn key_value(pair: &mut Message, key: &str, value: Value<'_>) {
    pair.bytes(field::KEY, key.as_bytes());
    pair.message(field::VALUE, |any| match value {
        Value::Number(number) => any.number(field::INT, number),
        value => {
            let text = text(value).unwrap_or_default();
            any.bytes(field::STRING, text.as_bytes());
        }
    });
}

/// A value as text; none if there is none.
fn text(value: Value<'_>) -> Option<Cow<'_, str>> {
    Some(match value {
        Value::Text(bytes, longest) => {
            let cut = bytes.get(..longest).unwrap_or(bytes);
            String::from_utf8_lossy(cut)
        }
        Value::Word(word) => Cow::Borrowed(word),
        Value::Address(address) => Cow::Owned(address.to_string()),
        Value::Socket(address) => Cow::Owned(address.to_string()),
        Value::Number(number) => Cow::Owned(number.to_string()),
        // No attribute is one of these.
        Value::Missing
        | Value::Hex(_)
        | Value::Client(_)
        | Value::Limits(_)
        | Value::Before(_)
        | Value::Local => {
            return None;
        }
    })
}

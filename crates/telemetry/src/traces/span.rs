//! The spans of one request. They are made at the end of the request, from its record.

use std::borrow::Cow;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

use http::uri::Authority;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use tidegate_store::Outcome;
use tidegate_upstream::Attempt;

use super::context::{TraceContext, new_id};
use crate::access_log::{AccessField, Fields as _, Record, Value};

/// The most bytes of the path and of the user agent.
const MAX_TEXT: usize = 1_024;
/// The most attributes of a request's span, without the attributes in [`OF_LOG`].
const OF_REQUEST: usize = 9;
/// The most attributes of another span: of the decision in Redis, of the wait, or of an attempt.
const OF_PART: usize = 6;

/// The attributes of a traced request that are set at its start.
#[derive(Debug)]
pub(super) struct RequestStart {
    pub(super) started: Instant,
    pub(super) at: SystemTime,
    pub(super) is_tls: bool,
    /// The path of the request's route in the configuration.
    pub(super) route: Option<std::sync::Arc<str>>,
}

/// The attributes of the request's span whose values are fields of the access log.
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

/// Makes the spans of one request.
struct Maker {
    context: TraceContext,
    /// The time at which the request arrived.
    at: SystemTime,
}

impl Maker {
    /// Returns a span without attributes, whose parent is the request's span. `time` counts from the time at which the request arrived.
    fn span(
        &self,
        id: u64,
        name: impl Into<Cow<'static, str>>,
        span_kind: SpanKind,
        time: Range<Duration>,
    ) -> SpanData {
        let attributes = match span_kind {
            SpanKind::Server => OF_LOG.len() + OF_REQUEST,
            _ => OF_PART,
        };
        SpanData {
            span_context: SpanContext::new(
                self.context.trace_id.into(),
                id.into(),
                TraceFlags::SAMPLED,
                false,
                TraceState::NONE,
            ),
            parent_span_id: self.context.span.into(),
            parent_span_is_remote: false,
            span_kind,
            name: name.into(),
            start_time: self.at + time.start,
            end_time: self.at + time.end,
            attributes: Vec::with_capacity(attributes),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("tidegate")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }
    }
}

/// Returns the spans of a request.
pub(super) fn spans(
    record: &Record,
    context: TraceContext,
    beginning: &RequestStart,
) -> Vec<SpanData> {
    let maker = Maker {
        context,
        at: beginning.at,
    };
    let mut spans = vec![server(&maker, record, beginning)];
    let whole = record.took();
    let decision = store(&maker, record, whole);
    let stored = decision.as_ref().map_or(Duration::ZERO, |(_, end)| *end);
    spans.extend(decision.map(|(span, _)| span));
    let forwarded = record.forwarded();
    let attempts = || forwarded.into_iter().flat_map(|it| it.attempts.iter());
    let sent = |attempt: &Attempt| attempt.started.saturating_duration_since(beginning.started);
    let waited = record
        .decided()
        .map_or(Duration::ZERO, |decided| decided.waited);
    if !waited.is_zero() {
        // The wait ended when the request was sent to a server. If the request was not sent, the wait began after the call of Redis.
        let end = attempts().next().map_or(stored + waited, sent).min(whole);
        let start = end.saturating_sub(waited);
        let mut span = maker.span(new_id(), "wait", SpanKind::Internal, start..end);
        if let Some(limit) = record.value(AccessField::Limit) {
            attribute(&mut span, "tidegate.limit", limit);
        }
        spans.push(span);
    }
    let method = record.value(AccessField::Method).and_then(text);
    let method = method.unwrap_or_default();
    let count = attempts().count();
    for (nth, attempt) in attempts().enumerate() {
        // All attempts send the same ID in `traceparent`. The span of the last attempt has this ID, because the client gets the answer to
        // this attempt.
        let id = if nth + 1 == count {
            context.outgoing
        } else {
            new_id()
        };
        let start = sent(attempt);
        let time = start..start + attempt.took;
        let mut span = maker.span(id, name(&method), SpanKind::Client, time);
        outgoing(&mut span, standard_method(&method), attempt, nth);
        spans.push(span);
    }
    spans
}

/// Returns the span of the request itself.
fn server(maker: &Maker, record: &Record, beginning: &RequestStart) -> SpanData {
    let method = record.value(AccessField::Method).and_then(text);
    let method = method.unwrap_or_default();
    let route = beginning.route.as_deref();
    let span_name = match route {
        Some(route) => format!("{} {route}", name(&method)).into(),
        None => Cow::Borrowed(name(&method)),
    };
    let time = Duration::ZERO..record.took();
    let mut span = maker.span(maker.context.span, span_name, SpanKind::Server, time);
    let parent = maker.context.parent;
    span.parent_span_id = parent.map_or(SpanId::INVALID, SpanId::from);
    span.parent_span_is_remote = parent.is_some();
    let mut add = |key, value: Value<'_>| attribute(&mut span, key, value);
    for (key, field) in OF_LOG {
        let Some(mut value) = record.value(*field) else {
            continue;
        };
        if *field == AccessField::Method && standard_method(&method) != method {
            add("http.request.method_original", value);
            value = Value::Word("_OTHER");
        }
        add(key, value);
    }
    let scheme = if beginning.is_tls { "https" } else { "http" };
    add("url.scheme", Value::Word(scheme));
    if let Some(route) = route {
        add("http.route", Value::Text(route.as_bytes(), MAX_TEXT));
    }
    if let Some(protocol) = record.value(AccessField::Protocol).and_then(text) {
        let number = protocol.trim_start_matches("HTTP/").trim_end_matches(".0");
        // HTTP/1.0 keeps its zero.
        let version = if number == "1" { "1.0" } else { number };
        let value = Value::Text(version.as_bytes(), MAX_TEXT);
        add("network.protocol.version", value);
    }
    let host = record.value(AccessField::Host).and_then(text);
    if let Some(host) = host.and_then(|host| host.parse::<Authority>().ok()) {
        let name = host.host().trim_matches(['[', ']']);
        add("server.address", Value::Text(name.as_bytes(), MAX_TEXT));
        if let Some(port) = host.port_u16() {
            add("server.port", Value::Number(port.into()));
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
        add("tidegate.verdict", Value::Word(verdict));
    }
    if let Some(status) = record.answered_with() {
        let code = Value::Number(status.as_u16().into());
        add("http.response.status_code", code);
        // A 4xx status is an error of the client, so the gateway's span is not marked as failed.
        if status.is_server_error() {
            failed(&mut span, status.as_str());
        } else if let Some(error) = record.cut_by_upstream() {
            failed(&mut span, error);
        }
    }
    span
}

/// Returns the span of the decision in Redis, and the time from the request's arrival to the end of this span.
fn store(maker: &Maker, record: &Record, whole: Duration) -> Option<(SpanData, Duration)> {
    let decision = record.decided()?.decision.as_ref()?;
    let call = decision.call.as_ref()?;
    let end = call.took.min(whole);
    let time = Duration::ZERO..end;
    let mut span = maker.span(new_id(), "EVALSHA", SpanKind::Client, time);
    attribute(&mut span, "db.system.name", Value::Word("redis"));
    attribute(&mut span, "db.operation.name", Value::Word("EVALSHA"));
    if let Some(by) = record.value(AccessField::DecidedBy) {
        attribute(&mut span, "tidegate.decided_by", by);
    }
    if let Some(error) = &call.error {
        failed(&mut span, error.label());
    }
    Some((span, end))
}

/// Adds the attributes of an attempt: the method, the server and its answer.
fn outgoing(span: &mut SpanData, method: &'static str, attempt: &Attempt, nth: usize) {
    let mut add = |key, value: Value<'_>| attribute(span, key, value);
    add("http.request.method", Value::Word(method));
    add("server.address", Value::Address(attempt.server.ip()));
    add("server.port", Value::Number(attempt.server.port().into()));
    if nth > 0 {
        add("http.request.resend_count", Value::Number(nth as u64));
    }
    if let Some(status) = attempt.status {
        let code = Value::Number(status.as_u16().into());
        add("http.response.status_code", code);
        if status.is_client_error() || status.is_server_error() {
            failed(span, status.as_str());
        }
    }
    if let Some(error) = attempt.error {
        failed(span, error);
    }
}

fn failed(span: &mut SpanData, kind: &str) {
    attribute(span, "error.type", Value::Text(kind.as_bytes(), MAX_TEXT));
    span.status = Status::error("");
}

/// Returns a standard HTTP method, or `_OTHER` for another name.
fn standard_method(method: &str) -> &'static str {
    const METHODS: [&str; 10] = [
        "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "CONNECT", "TRACE", "QUERY",
    ];
    METHODS
        .into_iter()
        .find(|other| *other == method)
        .unwrap_or("_OTHER")
}

/// Returns the name of a span with this method.
fn name(method: &str) -> &'static str {
    match standard_method(method) {
        "_OTHER" => "HTTP",
        method => method,
    }
}

/// Adds an attribute, if it has a value.
fn attribute(span: &mut SpanData, key: &'static str, value: Value<'_>) {
    let value: opentelemetry::Value = match value {
        Value::Number(number) => i64::try_from(number).unwrap_or(i64::MAX).into(),
        Value::Word(word) => word.into(),
        value => match text(value) {
            Some(text) => text.into_owned().into(),
            None => return,
        },
    };
    span.attributes.push(KeyValue::new(key, value));
}

/// Returns a value as text. `None` for a value that no attribute has.
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
        // No attribute has these values.
        Value::Hex(_) | Value::Client(_) | Value::Limits(_) | Value::Before(_) | Value::Local => {
            return None;
        }
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a span of a request. The span's name has this length.
    pub(in crate::traces) fn span(length: usize) -> SpanData {
        let maker = Maker {
            context: TraceContext::of(None, true),
            at: SystemTime::now(),
        };
        let time = Duration::ZERO..Duration::ZERO;
        maker.span(new_id(), "a".repeat(length), SpanKind::Server, time)
    }
}

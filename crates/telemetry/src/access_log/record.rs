//! The record of one request. It has the values of the access log's fields.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode, Version};
use tidegate_core::{Verdict, micros};
use tidegate_identity::Client;
use tidegate_store::{Limit, Mode, Outcome, Via};
use tidegate_tower::Decided;

use super::format::Fields;
use super::head::{HeadFields, Texts};
use super::selection::RequestSummary;
use super::settings::AccessField;
use super::value::{Limits, MAX_CLIENT, Value};
use crate::outcome::{Cut, Door, Forwarded, RequestOutcome};
use crate::request_id::RequestId;

/// The most bytes of the name of a route, a plan or a limit. Longer names are cut.
const MAX_TEXT: usize = 1_024;
/// The most bytes of the method and of the request ID.
const MAX_WORD: usize = 128;

/// The values of a request's access log line. The values are copies, so the record does not keep the request's head in memory. The record
/// takes a few KiB at most.
#[derive(Debug)]
pub struct Record {
    id: RequestId,
    method: Method,
    version: Version,
    texts: Texts,
    route: Option<Arc<str>>,
    door: Door,
    peer: SocketAddr,
    client_ip: IpAddr,
    decided: Option<Box<Decided>>,
    forwarded: Option<Forwarded>,
    status: Option<StatusCode>,
    error: Option<&'static str>,
    cut: Option<Cut>,
    outcome: RequestOutcome,
    bytes_out: u64,
    took: Duration,
    trace_id: Option<u128>,
}

impl Record {
    /// Begins the record of a request from `peer` for the client at `client_ip`. The query is left out, because it may hold secrets.
    pub(super) fn new<B>(
        request: &Request<B>,
        kept: HeadFields,
        id: &RequestId,
        route: Option<Arc<str>>,
        peer: SocketAddr,
        client_ip: IpAddr,
    ) -> Self {
        Self {
            id: id.start(MAX_WORD + 1),
            method: start_of_method(request.method()),
            version: request.version(),
            texts: Texts::of(request, kept),
            route,
            door: Door::Proxy,
            peer: SocketAddr::new(peer.ip().to_canonical(), peer.port()),
            client_ip,
            decided: None,
            forwarded: None,
            status: None,
            error: None,
            cut: None,
            outcome: RequestOutcome::Abandoned,
            bytes_out: 0,
            took: Duration::ZERO,
            trace_id: None,
        }
    }

    /// Sets the trace of the request.
    pub const fn of_trace(mut self, id: Option<u128>) -> Self {
        self.trace_id = id;
        self
    }

    /// Sets the door by which the request came.
    #[must_use]
    pub const fn by_door(mut self, door: Door) -> Self {
        self.door = door;
        self
    }

    /// Returns the decision about the request. `None` if the request was answered without a decision.
    pub fn decided(&self) -> Option<&Decided> {
        self.decided.as_deref()
    }

    /// Returns the decision about the request, so that the caller can change it: the body of the answer may settle the cost after the
    /// decision was recorded.
    pub fn decided_mut(&mut self) -> Option<&mut Decided> {
        self.decided.as_deref_mut()
    }

    /// Returns how the request was forwarded. `None` if it was not forwarded.
    pub const fn forwarded(&self) -> Option<&Forwarded> {
        self.forwarded.as_ref()
    }

    /// Returns the status of the answer. `None` if there was no answer.
    pub const fn answered_with(&self) -> Option<StatusCode> {
        self.status
    }

    /// Returns the time from the head of the request to the end of its answer.
    pub const fn took(&self) -> Duration {
        self.took
    }

    /// Replaces the texts of the head for a request whose head could not be read.
    pub fn unparsed(mut self) -> Self {
        self.texts = Texts::unparsed();
        self
    }

    /// Records the answer. `status` is `None` if there was no answer.
    pub fn answered(
        &mut self,
        status: Option<StatusCode>,
        mut decided: Option<Box<Decided>>,
        forwarded: Option<Forwarded>,
    ) {
        if let Some(decided) = &mut decided {
            decided.unknown_plan = None;
            if let Client::UserId(id) = &mut decided.client {
                // A kept character has at most four bytes.
                let kept = &id[..id.floor_char_boundary(4 * (MAX_CLIENT + 1))];
                if kept.len() < id.len() {
                    *id = kept.into();
                }
            }
        }
        self.status = status;
        self.decided = decided;
        self.forwarded = forwarded;
    }

    /// Records the error in the gateway's answer.
    pub const fn failed(&mut self, error: &'static str) {
        self.error = Some(error);
    }

    /// Records that the answer was cut off. If the upstream caused the cut, also records the error.
    pub const fn cut(&mut self, cut: Cut) {
        self.cut = Some(cut);
        if cut.error().is_some() {
            self.error = cut.error();
        }
    }

    /// Returns the error of an answer that the upstream cut off.
    pub fn cut_by_upstream(&self) -> Option<&'static str> {
        self.cut.and_then(Cut::error)
    }

    /// Adds bytes of the answer's body that were sent to the client.
    pub const fn sent(&mut self, bytes: u64) {
        self.bytes_out += bytes;
    }

    /// Records the outcome and the duration of the request.
    pub const fn ended(&mut self, outcome: RequestOutcome, took: Duration) {
        self.outcome = outcome;
        self.took = took;
    }

    /// Returns the values by which the access log selects requests.
    pub(super) fn end(&self) -> RequestSummary {
        let decided = self.decided.as_deref();
        RequestSummary {
            outcome: self.outcome,
            status: self.status(),
            took: self.took,
            would_be_refused: decided.is_some_and(|it| it.would_refuse().next().is_some()),
        }
    }

    /// Returns the status for the line. Without an answer, it is 444 if the gateway dropped the request, and 499 if the client left.
    fn status(&self) -> u16 {
        let unanswered = match self.outcome {
            RequestOutcome::Dropped => 444,
            _ => 499,
        };
        self.status.map_or(unanswered, |status| status.as_u16())
    }

    /// Returns the verdict of the limit that the answer's headers describe.
    fn tightest(&self) -> Option<&Verdict> {
        let decided = self.decided.as_deref()?;
        let at = decided.tightest?;
        decided.verdicts().find(|entry| entry.index == at)?.verdict
    }

    fn limit(&self) -> Option<&Limit> {
        let decided = self.decided.as_deref()?;
        let rule = decided.rules.get(decided.tightest?)?;
        Some(&rule.limit)
    }
}

impl Fields for Record {
    // Inlined into the loop over a line's fields, so that the loop does not begin and end a function for each field.
    #[inline(always)]
    fn value(&self, field: AccessField) -> Option<Value<'_>> {
        let decided = self.decided.as_deref();
        let decision = decided.and_then(|decided| decided.decision.as_ref());
        let forwarded = self.forwarded.as_ref();
        let is_refused = decision.is_some_and(|it| it.outcome == Outcome::Refused);
        Some(match field {
            AccessField::Time => Value::Before(self.took),
            AccessField::TimeLocal => Value::Local,
            AccessField::Id => Value::Text(self.id.0.as_bytes(), MAX_WORD),
            AccessField::TraceId => Value::Hex(self.trace_id?),
            AccessField::Method => Value::Text(self.method.as_str().as_bytes(), MAX_WORD),
            AccessField::Host
            | AccessField::Path
            | AccessField::UserAgent
            | AccessField::Referer => self.texts.get(field)?,
            AccessField::Protocol => Value::Word(protocol(self.version)),
            AccessField::Status => Value::Number(self.status().into()),
            AccessField::Outcome => Value::Word(self.outcome.label()),
            AccessField::Error => Value::Word(self.error?),
            AccessField::Cut => Value::Word(self.cut?.label()),
            AccessField::Route => text(self.route.as_ref()?),
            AccessField::Door => Value::Word(self.door.label()?),
            AccessField::Peer => Value::Address(self.peer.ip()),
            AccessField::PeerPort => Value::Number(self.peer.port().into()),
            AccessField::ClientIp => Value::Address(self.client_ip),
            AccessField::Client => Value::Client(&decided?.client),
            AccessField::Plan => {
                let plan = decided?.plan.as_ref()?;
                text(Some(plan.name()).filter(|name| !name.is_empty())?)
            }
            AccessField::Limit => text(self.limit()?.name()),
            AccessField::RefusedBy => {
                Value::Limits(Limits::RefusedBy(decided.filter(|_| is_refused)?))
            }
            AccessField::DecidedBy => Value::Word(match decision?.via {
                // In modes other than `exact` the gateway decides, even if the limit has called Redis. `tidegate_decisions_total` counts
                // the verdict in the same way.
                Via::Store if self.limit().is_some_and(|it| it.mode() != Mode::Exact) => "gateway",
                Via::Store => "store",
                Via::Remembered => "remembered",
                Via::Here => "gateway",
                Via::Fallback => "on_failure",
            }),
            AccessField::DecidedAt => Value::Number(decided?.asked_at()?),
            AccessField::WouldRefuse => {
                let refuses = decided.filter(|it| it.would_refuse().next().is_some());
                Value::Limits(Limits::WouldRefuse(refuses?))
            }
            AccessField::Exempt => text(&decided?.exempt_by()?.text),
            AccessField::DeniedBy => text(&decided?.denied_by()?.text),
            AccessField::Remaining => Value::Number(self.tightest()?.remaining),
            AccessField::RetryAfter => {
                let verdict = self.tightest().filter(|_| is_refused)?;
                // Whole seconds, at least 1, as in the header `Retry-After`.
                Value::Number(verdict.retry_after.div_ceil(1_000_000).max(1))
            }
            AccessField::Cost => Value::Number(Some(decided?.cost).filter(|cost| *cost > 0)?),
            AccessField::BytesIn => {
                let body = forwarded.and_then(|forwarded| forwarded.body.as_ref());
                Value::Number(body.map_or(0, |body| body.bytes()))
            }
            AccessField::BytesOut => Value::Number(self.bytes_out),
            AccessField::Upstream => Value::Socket(forwarded?.attempts.last()?.server),
            AccessField::UpstreamStatus => {
                let status = forwarded?.attempts.last()?.status?;
                Value::Number(status.as_u16().into())
            }
            AccessField::Attempts => Value::Number(forwarded?.attempts.count().into()),
            AccessField::WaitedUs => {
                let waited = Some(decided?.waited).filter(|waited| !waited.is_zero());
                microseconds(waited?)
            }
            AccessField::StoreUs => microseconds(decision?.call.as_ref()?.took),
            AccessField::UpstreamUs => microseconds(forwarded?.took),
            AccessField::TotalUs => microseconds(self.took),
            AccessField::Lost => return None,
        })
    }
}

const fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// Returns the first bytes of a method. Clients can invent methods of any length.
fn start_of_method(method: &Method) -> Method {
    let bytes = method.as_str().as_bytes();
    match bytes.get(..MAX_WORD + 1) {
        // The first bytes of a valid method are a valid method.
        Some(start) => Method::from_bytes(start).unwrap_or_default(),
        None => method.clone(),
    }
}

fn microseconds(duration: Duration) -> Value<'static> {
    Value::Number(micros(duration))
}

/// Returns the value for a name.
const fn text(text: &str) -> Value<'_> {
    Value::Text(text.as_bytes(), MAX_TEXT)
}

//! What is known of one request at its end: the values of the access log's fields.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode, Version};
use tidegate_core::micros;
use tidegate_identity::Client;
use tidegate_store::{Limit, Mode, Outcome, Via};
use tidegate_tower::{Decided, LimitVerdict};

use super::format::Fields;
use super::head::{HeadFields, Texts};
use super::selection::RequestSummary;
use super::settings::AccessField;
use super::value::{Limits, Value};
use crate::outcome::{Cut, Forwarded, RequestOutcome};
use crate::request_id::RequestId;

/// The longest name of a route, plan or limit, in bytes. What is longer is cut.
const MAX_TEXT: usize = 1_024;
/// The longest method and the longest request ID, in bytes.
const MAX_WORD: usize = 128;
/// The longest client, in characters.
const MAX_CLIENT: usize = 128;

/// What the line of a request says. It holds no part of the request's head, and not more than some KiB.
#[derive(Debug)]
pub struct Record {
    id: RequestId,
    method: Method,
    version: Version,
    texts: Texts,
    route: Option<Arc<str>>,
    peer: SocketAddr,
    client_ip: IpAddr,
    decided: Option<Decided>,
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
    /// A request that has just begun, by `peer` and on behalf of `client_ip`. Its query is left out: it may hold secrets.
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

    /// The same, of a request that belongs to this trace.
    pub const fn of_trace(mut self, id: Option<u128>) -> Self {
        self.trace_id = id;
        self
    }

    /// What the limits decided; none if no limit was asked.
    pub const fn decided(&self) -> Option<&Decided> {
        self.decided.as_ref()
    }

    /// The same, to be changed by what the answer's body tells.
    pub const fn decided_mut(&mut self) -> Option<&mut Decided> {
        self.decided.as_mut()
    }

    /// How the request was forwarded; none if it was not.
    pub const fn forwarded(&self) -> Option<&Forwarded> {
        self.forwarded.as_ref()
    }

    /// The status of the answer; none if there was no answer.
    pub const fn answered_with(&self) -> Option<StatusCode> {
        self.status
    }

    /// From the head of the request to the end of its answer.
    pub const fn took(&self) -> Duration {
        self.took
    }

    /// The same of a request whose head could not be read.
    pub fn unparsed(mut self) -> Self {
        self.texts = Texts::unparsed();
        self
    }

    /// The request is answered with this status, or dropped without one.
    pub fn answered(
        &mut self,
        status: Option<StatusCode>,
        mut decided: Option<Decided>,
        forwarded: Option<Forwarded>,
    ) {
        if let Some(decided) = &mut decided {
            decided.unknown_plan = None;
            if let Client::UserId(id) = &mut decided.client {
                // At most four bytes a character.
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

    /// The gateway answered with this error.
    pub const fn failed(&mut self, error: &'static str) {
        self.error = Some(error);
    }

    /// Notes that the answer ended before its end.
    pub const fn cut(&mut self, cut: Cut) {
        self.cut = Some(cut);
        if cut.error().is_some() {
            self.error = cut.error();
        }
    }

    /// The error of an answer that its upstream broke off.
    pub fn cut_by_upstream(&self) -> Option<&'static str> {
        self.cut.and_then(Cut::error)
    }

    /// So many bytes of the answer's body were handed on.
    pub const fn sent(&mut self, bytes: u64) {
        self.bytes_out += bytes;
    }

    /// The request has ended with this outcome, after this time.
    pub const fn ended(&mut self, outcome: RequestOutcome, took: Duration) {
        self.outcome = outcome;
        self.took = took;
    }

    /// What decides whether the request gets a line.
    pub(super) fn end(&self) -> RequestSummary {
        let decided = self.decided.as_ref();
        RequestSummary {
            outcome: self.outcome,
            status: self.status(),
            took: self.took,
            would_be_refused: decided.is_some_and(|it| it.would_refuse().next().is_some()),
        }
    }

    /// The status. For a request that was not answered, it is what stands for one, as the field writes it. This is 444 where the
    /// gateway did not want to answer, and 499 where the client left before.
    fn status(&self) -> u16 {
        let unanswered = match self.outcome {
            RequestOutcome::Dropped => 444,
            _ => 499,
        };
        self.status.map_or(unanswered, |status| status.as_u16())
    }

    /// What the limit said that the headers describe.
    fn tightest(&self) -> Option<LimitVerdict<'_>> {
        let decided = self.decided.as_ref()?;
        let at = decided.tightest?;
        decided.verdicts().find(|said| said.index == at)
    }

    fn limit_name(&self) -> Option<&str> {
        Some(self.limit()?.name())
    }

    fn limit(&self) -> Option<&Limit> {
        let decided = self.decided.as_ref()?;
        let rule = decided.rules.get(decided.tightest?)?;
        Some(&rule.limit)
    }

    /// Whether the gateway decides on the limit, though it may have asked Redis for a slice; as in `tidegate_decisions_total`.
    fn is_shared_by_mode(&self) -> bool {
        self.limit()
            .is_some_and(|limit| limit.mode() != Mode::Exact)
    }
}

impl Fields for Record {
    fn value(&self, field: AccessField) -> Value<'_> {
        let decided = self.decided.as_ref();
        let decision = decided.and_then(|decided| decided.decision.as_ref());
        let forwarded = self.forwarded.as_ref();
        let is_refused = decision.is_some_and(|it| it.outcome == Outcome::Refused);
        match field {
            AccessField::Time => Value::Before(self.took),
            AccessField::TimeLocal => Value::Local,
            AccessField::Id => Value::Text(self.id.0.as_bytes(), MAX_WORD),
            AccessField::TraceId => self.trace_id.map_or(Value::Missing, Value::Hex),
            AccessField::Method => Value::Text(self.method.as_str().as_bytes(), MAX_WORD),
            AccessField::Host => self.texts.host(),
            AccessField::Path => self.texts.path(),
            AccessField::Protocol => Value::Word(protocol(self.version)),
            AccessField::Status => Value::Number(self.status().into()),
            AccessField::Outcome => Value::Word(self.outcome.label()),
            AccessField::Error => self.error.map_or(Value::Missing, Value::Word),
            AccessField::Cut => self
                .cut
                .map_or(Value::Missing, |cut| Value::Word(cut.label())),
            AccessField::Route => self
                .route
                .as_ref()
                .map_or(Value::Missing, |route| text(route)),
            AccessField::Peer => Value::Address(self.peer.ip()),
            AccessField::PeerPort => Value::Number(self.peer.port().into()),
            AccessField::ClientIp => Value::Address(self.client_ip),
            AccessField::Client => decided.map_or(Value::Missing, |it| Value::Client(&it.client)),
            AccessField::UserAgent => self.texts.user_agent(),
            AccessField::Referer => self.texts.referer(),
            AccessField::Plan => {
                let plan = decided.and_then(|decided| decided.plan.as_ref());
                let plan = plan.filter(|plan| !plan.name().is_empty());
                plan.map_or(Value::Missing, |plan| text(plan.name()))
            }
            AccessField::Limit => self.limit_name().map_or(Value::Missing, text),
            AccessField::RefusedBy => {
                let refused = decided.filter(|_| is_refused);
                refused.map_or(Value::Missing, |it| Value::Limits(Limits::RefusedBy(it)))
            }
            AccessField::DecidedBy => decision.map_or(Value::Missing, |decision| {
                Value::Word(match decision.via {
                    Via::Store if self.is_shared_by_mode() => "gateway",
                    Via::Store => "store",
                    Via::Remembered => "remembered",
                    Via::Here => "gateway",
                    Via::Fallback => "on_failure",
                })
            }),
            AccessField::DecidedAt => {
                let asked = decided.and_then(Decided::asked_at);
                asked.map_or(Value::Missing, Value::Number)
            }
            AccessField::WouldRefuse => {
                let refuses = decided.filter(|it| it.would_refuse().next().is_some());
                refuses.map_or(Value::Missing, |it| Value::Limits(Limits::WouldRefuse(it)))
            }
            AccessField::Exempt => {
                let entry = decided.and_then(Decided::exempt_by);
                entry.map_or(Value::Missing, |entry| text(&entry.text))
            }
            AccessField::DeniedBy => {
                let entry = decided.and_then(Decided::denied_by);
                entry.map_or(Value::Missing, |entry| text(&entry.text))
            }
            AccessField::Remaining => {
                let verdict = self.tightest().and_then(|said| said.verdict);
                verdict.map_or(Value::Missing, |verdict| Value::Number(verdict.remaining))
            }
            AccessField::RetryAfter => {
                let verdict = self.tightest().and_then(|said| said.verdict);
                let verdict = verdict.filter(|_| is_refused);
                // As the header has it: whole seconds, and never 0.
                let seconds = |micros: u64| micros.div_ceil(1_000_000).max(1);
                verdict.map_or(Value::Missing, |it| Value::Number(seconds(it.retry_after)))
            }
            AccessField::Cost => {
                let cost = decided.map(|decided| decided.cost).filter(|cost| *cost > 0);
                cost.map_or(Value::Missing, Value::Number)
            }
            AccessField::BytesIn => {
                let body = forwarded.and_then(|forwarded| forwarded.body.as_ref());
                Value::Number(body.map_or(0, |body| body.bytes()))
            }
            AccessField::BytesOut => Value::Number(self.bytes_out),
            AccessField::Upstream => {
                let last = forwarded.and_then(|forwarded| forwarded.attempts.last());
                last.map_or(Value::Missing, |last| Value::Socket(last.server))
            }
            AccessField::UpstreamStatus => {
                let last = forwarded.and_then(|forwarded| forwarded.attempts.last());
                let status = last.and_then(|last| last.status);
                status.map_or(Value::Missing, |status| {
                    Value::Number(status.as_u16().into())
                })
            }
            AccessField::Attempts => {
                let attempts = forwarded.map(|forwarded| forwarded.attempts.count());
                attempts.map_or(Value::Missing, |count| Value::Number(count.into()))
            }
            AccessField::WaitedUs => {
                let waited = decided.map(|decided| decided.waited);
                let waited = waited.filter(|waited| !waited.is_zero());
                waited.map_or(Value::Missing, microseconds)
            }
            AccessField::StoreUs => {
                let call = decision.and_then(|decision| decision.call.as_ref());
                call.map_or(Value::Missing, |call| microseconds(call.took))
            }
            AccessField::UpstreamUs => {
                forwarded.map_or(Value::Missing, |forwarded| microseconds(forwarded.took))
            }
            AccessField::TotalUs => microseconds(self.took),
            AccessField::Lost => Value::Missing,
        }
    }
}

const fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// The first bytes of a method: one that a client made up may be of any length.
fn start_of_method(method: &Method) -> Method {
    let bytes = method.as_str().as_bytes();
    match bytes.get(..MAX_WORD + 1) {
        // The beginning of a token is one.
        Some(start) => Method::from_bytes(start).unwrap_or_default(),
        None => method.clone(),
    }
}

fn microseconds(duration: Duration) -> Value<'static> {
    Value::Number(micros(duration))
}

/// A name.
const fn text(text: &str) -> Value<'_> {
    Value::Text(text.as_bytes(), MAX_TEXT)
}

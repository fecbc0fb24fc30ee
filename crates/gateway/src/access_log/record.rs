//! What the access log says of one request, and the line that is made of it.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Request, StatusCode};
use tidegate_store::Via;
use tidegate_tower::{Client, ClientPlan, Decided};

use crate::log::ACCESS;
use crate::outcome::RequestOutcome;
use crate::proxy::Forwarded;
use crate::request_id::RequestId;
use tidegate_net::text::cut;

/// The longest path, and the longest name of a route, plan or limit, in bytes. What is longer is cut.
const MAX_TEXT: usize = 1_024;
/// The longest method and the longest request ID, in bytes.
const MAX_WORD: usize = 128;
/// The longest client, in characters.
const MAX_CLIENT: usize = 128;

/// What the line of a request says. It holds no part of the request's head, and not more than some KiB.
#[derive(Debug)]
pub(crate) struct Record {
    started: Instant,
    id: RequestId,
    method: Method,
    /// Longer than [`MAX_TEXT`] if it is to be cut; so with all texts here.
    path: Box<str>,
    route: Option<Arc<str>>,
    peer: IpAddr,
    client_ip: IpAddr,
    decided: Option<Decided>,
    forwarded: Option<Forwarded>,
    status: Option<StatusCode>,
    outcome: RequestOutcome,
    took: Duration,
}

impl Record {
    /// A request that has just begun, by `peer` and on behalf of `client_ip`. Its query is left out: it may hold secrets.
    pub(crate) fn new<B>(
        request: &Request<B>,
        id: &RequestId,
        route: Option<Arc<str>>,
        peer: IpAddr,
        client_ip: IpAddr,
    ) -> Self {
        Self {
            started: Instant::now(),
            id: id.start(MAX_WORD + 1),
            method: start_of_method(request.method()),
            path: start(request.uri().path(), MAX_TEXT + 1).into(),
            route,
            peer,
            client_ip,
            decided: None,
            forwarded: None,
            status: None,
            outcome: RequestOutcome::Abandoned,
            took: Duration::ZERO,
        }
    }

    /// The same of a request whose head could not be read.
    pub(crate) fn unparsed(mut self) -> Self {
        self.path = "-".into();
        self
    }

    pub(crate) fn answered(
        &mut self,
        status: Option<StatusCode>,
        mut decided: Option<Decided>,
        forwarded: Option<Forwarded>,
    ) {
        if let Some(decided) = &mut decided {
            decided.unknown_plan = None;
            if let Client::UserId(id) = &mut decided.client {
                // At most four bytes a character.
                let kept = start(id, 4 * (MAX_CLIENT + 1));
                if kept.len() < id.len() {
                    *id = kept.into();
                }
            }
        }
        self.status = status;
        self.decided = decided;
        self.forwarded = forwarded;
    }

    pub(crate) fn ended(&mut self, outcome: RequestOutcome) {
        self.outcome = outcome;
        self.took = self.started.elapsed();
    }

    /// The memory that it takes, in bytes, without what others hold as well.
    pub(super) fn size(&self) -> usize {
        let client = match self.decided.as_ref().map(|decided| &decided.client) {
            Some(Client::UserId(id)) => id.len(),
            _ => 0,
        };
        let id = self.id.0.len();
        size_of::<Self>() + self.path.len() + self.method.as_str().len() + id + client
    }

    /// Writes the line. Only the thread of the access log may.
    pub(super) fn write(&self) {
        let decided = self.decided.as_ref();
        let decision = decided.and_then(|decided| decided.decision.as_ref());
        let limit = decided.and_then(|decided| decided.rules.get(decided.tightest?));
        let call = decision.and_then(|decision| decision.call.as_ref());
        tracing::info!(
            target: ACCESS,
            id = &*word(self.id.0.to_str().unwrap_or("-")),
            method = &*word(self.method.as_str()),
            path = &*text(&self.path),
            status = self.status.map_or(unanswered(self.outcome), |status| status.as_u16()),
            outcome = self.outcome.label(),
            route = self.route.as_deref().map(text).as_deref(),
            peer = %self.peer,
            client_ip = %self.client_ip,
            // As text, which is quoted: users may be called anything.
            client = decided.map(|decided: &Decided| shown(&decided.client)),
            plan = decided.and_then(|decided| decided.plan.as_ref()).map(ClientPlan::name).map(text).as_deref(),
            limit = limit.map(|rule| text(rule.limit.name())).as_deref(),
            decided_by = decision.map(|decision| match decision.via {
                Via::Store => "store",
                Via::Remembered => "memory",
                Via::Here => "gateway",
                Via::Fallback => "on_failure",
            }),
            would_refuse = decided.and_then(would_refuse),
            waited_us = decided.map(|decided| decided.waited).filter(|waited| !waited.is_zero()).map(microseconds),
            store_us = call.map(|call| microseconds(call.took)),
            upstream_us = self.forwarded.map(|forwarded| microseconds(forwarded.took)),
            total_us = microseconds(self.took),
        );
    }
}

/// The first bytes of a text: all of it, or `longest` at most.
fn start(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

/// As [`start`], of a method: one that a client made up may be of any length.
fn start_of_method(method: &Method) -> Method {
    let bytes = method.as_str().as_bytes();
    match bytes.get(..MAX_WORD + 1) {
        // The beginning of a token is one.
        Some(start) => Method::from_bytes(start).unwrap_or_default(),
        None => method.clone(),
    }
}

fn text(text: &str) -> Cow<'_, str> {
    cut(text, MAX_TEXT).into_cow()
}

fn word(text: &str) -> Cow<'_, str> {
    cut(text, MAX_WORD).into_cow()
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The limits that only observe, and would have refused a request that went on.
fn would_refuse(decided: &Decided) -> Option<String> {
    let names: Vec<&str> = decided.would_refuse().map(|limit| limit.name()).collect();
    (!names.is_empty()).then(|| text(&names.join(", ")).into_owned())
}

/// What stands for the status of a request that was not answered, as the field writes it: 444 where we did not want to,
/// 499 where its client left before.
const fn unanswered(outcome: RequestOutcome) -> u16 {
    match outcome {
        RequestOutcome::Dropped => 444,
        _ => 499,
    }
}

/// The client as text, cut where a name is too long for a log.
fn shown(client: &Client) -> String {
    let mut text = client.to_string();
    if let Some((end, _)) = text.char_indices().nth(MAX_CLIENT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

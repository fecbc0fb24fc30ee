//! What the access log says of one request, and the line that is made of it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Request, StatusCode};
use tidegate_store::Via;
use tidegate_tower::{Client, Decided};

use super::line::Line;
use crate::outcome::RequestOutcome;
use crate::proxy::Forwarded;
use crate::request_id::RequestId;

/// The longest path, and the longest name of a route, plan or limit, in bytes. What is longer is cut.
const MAX_TEXT: usize = 1_024;
/// The longest method and the longest request ID, in bytes.
const MAX_WORD: usize = 128;
/// The longest client, in characters.
const MAX_CLIENT: usize = 128;

/// The fields of a line, in their order; most lines lack some.
pub(crate) const FIELDS: [&str; 17] = [
    "id",
    "method",
    "path",
    "status",
    "outcome",
    "route",
    "peer",
    "client_ip",
    "client",
    "plan",
    "limit",
    "decided_by",
    "would_refuse",
    "waited_us",
    "store_us",
    "upstream_us",
    "total_us",
];

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

    /// Writes what the line says.
    pub(super) fn format(&self, mut line: Line<'_>) {
        let decided = self.decided.as_ref();
        let decision = decided.and_then(|decided| decided.decision.as_ref());
        let status = self
            .status
            .map_or(unanswered(self.outcome), |status| status.as_u16());
        line.text("id", self.id.0.to_str().unwrap_or("-"), MAX_WORD);
        line.text("method", self.method.as_str(), MAX_WORD);
        line.text("path", &self.path, MAX_TEXT);
        line.number("status", status.into());
        line.text("outcome", self.outcome.label(), MAX_WORD);
        if let Some(route) = &self.route {
            line.text("route", route, MAX_TEXT);
        }
        line.plain("peer", self.peer);
        line.plain("client_ip", self.client_ip);
        if let Some(decided) = decided {
            line.shown("client", &decided.client, MAX_CLIENT);
            if let Some(plan) = &decided.plan {
                line.text("plan", plan.name(), MAX_TEXT);
            }
            if let Some(limit) = decided.tightest.and_then(|at| decided.rules.get(at)) {
                line.text("limit", limit.limit.name(), MAX_TEXT);
            }
        }
        if let Some(decision) = decision {
            let by = match decision.via {
                Via::Store => "store",
                Via::Remembered => "memory",
                Via::Here => "gateway",
                Via::Fallback => "on_failure",
            };
            line.text("decided_by", by, MAX_WORD);
        }
        if let Some(decided) = decided {
            if decided.would_refuse().next().is_some() {
                line.shown("would_refuse", WouldRefuse(decided), MAX_TEXT);
            }
            if !decided.waited.is_zero() {
                line.number("waited_us", microseconds(decided.waited));
            }
        }
        if let Some(call) = decision.and_then(|decision| decision.call.as_ref()) {
            line.number("store_us", microseconds(call.took));
        }
        if let Some(forwarded) = self.forwarded {
            line.number("upstream_us", microseconds(forwarded.took));
        }
        line.number("total_us", microseconds(self.took));
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

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The limits that only observe, and would have refused a request that went on.
struct WouldRefuse<'a>(&'a Decided);

impl fmt::Display for WouldRefuse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, limit) in self.0.would_refuse().enumerate() {
            f.write_str(if nth > 0 { ", " } else { "" })?;
            f.write_str(limit.name())?;
        }
        Ok(())
    }
}

/// What stands for the status of a request that was not answered, as the field writes it: 444 where we did not want to,
/// 499 where its client left before.
const fn unanswered(outcome: RequestOutcome) -> u16 {
    match outcome {
        RequestOutcome::Dropped => 444,
        _ => 499,
    }
}

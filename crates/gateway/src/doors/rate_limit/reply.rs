//! The reply to a call: the status of each descriptor, headers and metadata.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tidegate_core::{Micros, Verdict};
use tidegate_doors::{Call, Fact, Reply, Status, StatusLimit, Target};
use tidegate_store::{Decision, Limit, Outcome};
use tidegate_telemetry::RequestId;
use tidegate_tower::{
    Answers, Decided, Judged, RateLimitHeaders, RateLimitLayer, Reset, X_RATELIMIT_LIMIT,
    X_RATELIMIT_REMAINING, X_RATELIMIT_RESET, problem,
};

use super::charges::is_closed;

/// The answer to a call while its decisions are made.
pub(super) struct Answer<'a> {
    headers: &'a RateLimitHeaders,
    statuses: Vec<Status>,
    /// The tightest limit of all descriptors, and whether it refuses.
    tightest: Option<(StatusLimit, bool)>,
    is_over: bool,
    now: Micros,
    error: Option<&'static str>,
    request_id: Option<RequestId>,
    /// The answer to the client, if the request may not pass.
    refusal: Option<Response<Bytes>>,
}

impl<'a> Answer<'a> {
    /// Begins the answer to a call whose descriptors have these limits.
    pub(super) fn of(
        call: &Call,
        targets: &[Option<&Target>],
        headers: &'a RateLimitHeaders,
    ) -> Self {
        // A limit of 0 refuses without a charge.
        let descriptors = call.descriptors.iter().zip(targets);
        let statuses = descriptors.map(|(descriptor, target)| Status {
            is_over: target.is_some_and(|target| target.refuses || is_closed(descriptor)),
            limit: None,
        });
        let statuses: Vec<Status> = statuses.collect();
        Self {
            headers,
            is_over: statuses.iter().any(|status| status.is_over),
            statuses,
            tightest: None,
            now: 0,
            error: None,
            request_id: None,
            refusal: None,
        }
    }

    /// Whether a descriptor refuses the request.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Adds a decision. `indices` has the descriptor of each charge.
    pub(super) fn add(
        &mut self,
        limits: &RateLimitLayer,
        indices: &[usize],
        judged: &Judged,
        id: Option<&RequestId>,
    ) {
        let decided = &judged.decided;
        self.refusal = self.refusal.take().or_else(|| limits.refusal(decided));
        self.is_over |= is_refused(decided);
        self.request_id = id.cloned().or(self.request_id.take());
        let refusal = decided.refused_with(&Answers::default());
        self.error = refusal.and_then(|(_, error)| error).or(self.error);
        let decision = decided.decision.as_ref();
        self.now = decision.map_or(self.now, |decision| decision.now);
        // A refusal that no limit caused applies to all descriptors.
        let refuses_all = self.error.is_some();
        let parts = judged.verdicts.iter().zip(&judged.limits);
        for (descriptor, (verdict, own)) in indices.iter().zip(parts) {
            self.statuses[*descriptor].is_over |= refuses_all;
            if let Some(at) = *verdict
                && let Some(verdict) = decision.and_then(|it| it.verdicts.get(at)?.as_ref())
                && let Some(rule) = decided
                    .charged
                    .get(at)
                    .and_then(|at| decided.rules.get(*at))
                && let Some(limit) = own.as_ref().or(rule.limit_for(decided.plan.as_ref()))
                && !limit.is_observed()
            {
                self.add_verdict(*descriptor, limit, verdict);
            }
        }
    }

    fn add_verdict(&mut self, descriptor: usize, limit: &Limit, verdict: &Verdict) {
        let refuses = !verdict.allowed;
        let limit = status_limit(limit, verdict);
        let status = &mut self.statuses[descriptor];
        let known = status.limit.as_ref().map(|other| (other, status.is_over));
        if is_tighter((&limit, refuses), known) {
            status.limit = Some(limit.clone());
        }
        status.is_over |= refuses;
        let known = self.tightest.as_ref().map(|(other, over)| (other, *over));
        if is_tighter((&limit, refuses), known) {
            self.tightest = Some((limit, refuses));
        }
    }

    /// Returns the reply.
    pub(super) fn reply(self) -> Reply {
        let mut headers = HeaderMap::new();
        let mut facts = Vec::new();
        let mut wait = 0;
        if let Some((limit, refuses)) = &self.tightest {
            self.write_headers(limit, &mut headers);
            facts.push(("limit", Fact::Text(limit.name.clone())));
            facts.push(("remaining", Fact::Number(limit.remaining)));
            wait = if *refuses { limit.reset } else { 0 };
        }
        let mut body = Bytes::new();
        if self.is_over {
            let refusal = self.refusal.unwrap_or_else(refused);
            for name in [CONTENT_TYPE, CACHE_CONTROL] {
                if let Some(value) = refusal.headers().get(&name) {
                    headers.insert(name, value.clone());
                }
            }
            body = refusal.into_body();
            let seconds = wait.div_ceil(1_000_000).max(1);
            headers.insert(RETRY_AFTER, seconds.into());
            facts.push(("retry_after", Fact::Number(seconds)));
        }
        let id = self.request_id.map(RequestId::into_header);
        if let Some(id) = id.as_ref().and_then(|id| id.to_str().ok()) {
            facts.push(("request_id", Fact::Text(id.to_owned())));
        }
        if let Some(error) = self.error {
            facts.push(("error", Fact::Text(error.to_owned())));
        }
        Reply {
            is_over: self.is_over,
            statuses: self.statuses,
            headers,
            body,
            facts,
        }
    }

    fn write_headers(&self, limit: &StatusLimit, headers: &mut HeaderMap) {
        let Some(reset) = self.headers.x_ratelimit else {
            return;
        };
        headers.insert(X_RATELIMIT_LIMIT, HeaderValue::from(limit.capacity));
        headers.insert(X_RATELIMIT_REMAINING, HeaderValue::from(limit.remaining));
        let at = match reset {
            Reset::Epoch => self.now + limit.free,
            Reset::Delta => limit.free,
        };
        headers.insert(X_RATELIMIT_RESET, HeaderValue::from(at.div_ceil(1_000_000)));
    }
}

/// Returns the answer to a request that a limit of 0 refuses.
fn refused() -> Response<Bytes> {
    let (status, error) = (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded");
    problem(status, error, "No request is admitted.")
}

/// Whether a limit is tighter than the tightest limit so far: it refuses for a longer time, or has a smaller share of its units left.
fn is_tighter(
    (limit, refuses): (&StatusLimit, bool),
    tightest: Option<(&StatusLimit, bool)>,
) -> bool {
    let Some((other, over)) = tightest else {
        return true;
    };
    match (refuses, over) {
        (true, false) => true,
        (false, true) => false,
        (true, true) => limit.reset > other.reset,
        (false, false) => {
            let share =
                |a: &StatusLimit, b: &StatusLimit| u128::from(a.remaining) * u128::from(b.capacity);
            share(limit, other) < share(other, limit)
        }
    }
}

fn status_limit(limit: &Limit, verdict: &Verdict) -> StatusLimit {
    let quota = limit.quota();
    StatusLimit {
        name: limit.name().to_owned(),
        capacity: quota.capacity(),
        period: quota.period(),
        remaining: verdict.remaining,
        reset: match verdict.allowed {
            true => verdict.reset,
            false => verdict.retry_after,
        },
        free: verdict.reset,
    }
}

/// Whether the request may not pass. A gateway that cannot decide on a `closed` limit refuses the request, too.
pub(super) fn is_refused(decided: &Decided) -> bool {
    let outcome = |decision: &Decision| decision.outcome != Outcome::Admitted;
    decided.denied_by().is_some()
        || decided.oversized.is_some()
        || decided.decision.as_ref().is_some_and(outcome)
}

//! Decides one question, and records the decision in log and metrics.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use tidegate_telemetry::metrics::RouteMetrics;
use tidegate_telemetry::{Door, RequestId};
use tidegate_tower::{Judged, Question, RateLimitLayer};

use crate::outcome::{Answered, ForwardOutcome};
use crate::stack::Stack;

/// The call that asks questions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'a> {
    pub(super) stack: &'a Stack,
    pub(super) door: Door,
    /// The head of the call.
    pub(super) head: &'a Request<()>,
    /// The address of the program that asks.
    pub(super) peer: SocketAddr,
}

/// The limits that a question is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) limits: &'a RateLimitLayer,
    /// The route whose limits these are. `None` if the question names limits.
    pub(super) route: Option<&'a Arc<str>>,
    pub(super) metrics: &'a Arc<RouteMetrics>,
}

impl Asking<'_> {
    /// Decides a question within the time `within`. Returns the value that `describe` makes of the decision and of its ID.
    pub(super) async fn judge<R>(
        &self,
        subject: Subject<'_>,
        question: Question,
        within: Option<Duration>,
        describe: impl FnOnce(&mut Judged, &RequestId) -> R,
    ) -> R {
        let Subject {
            limits,
            route,
            metrics,
        } = subject;
        let id = self.stack.request_ids.next();
        let client_ip = question.caller.origin.unwrap_or(self.peer.ip());
        let addresses = (self.peer, client_ip);
        // Begun before the decision, so that a decision whose caller leaves is counted and logged, too.
        let (stack, door) = (self.stack, self.door);
        let mut end = stack.begin_question(self.head, &id, door, addresses, (route, metrics));
        let mut judged = limits.judge(question, within).await;
        let described = describe(&mut judged, &id);
        let decided = judged.decided;
        let refusal = decided.refused_with(&limits.policy().answers);
        let forwarded = match refusal {
            Some(_) => ForwardOutcome::None,
            None => ForwardOutcome::Admitted,
        };
        let (status, error) = refusal.unwrap_or((StatusCode::OK, None));
        let answered = Answered {
            decided: Some(decided),
            in_flight: None,
            error,
            forwarded,
        };
        end.answered(answered, status, Some(&id));
        described
    }
}

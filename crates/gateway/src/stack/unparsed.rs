//! Handles requests whose head is not valid HTTP. They are charged like requests without a route.

use std::time::Duration;

use http::{Method, Request};
use tidegate_store::Outcome;
use tidegate_tower::{Decided, RequestContext};

use super::Stack;
use crate::body::take_answered;
use crate::forward::identify;
use crate::request::info::RequestInfo;
use crate::request::problem::Problem;
use crate::request::record::{AnsweredBy, Ended, RequestEnd};
use crate::request::target::{BAD_HEAD, CONTROL_FRAMES, LARGE_HEADERS, LONG_TARGET};
use tidegate_server::{ConnectionInfo, RefusedHead, RequestGuard, UnparsedHead};

impl Stack {
    /// Counts, logs and charges a request whose head is not valid. If a trusted proxy sent the head, the proxy's address is charged,
    /// because the client behind the proxy is unknown.
    pub(crate) async fn refuse_head(
        &self,
        head: UnparsedHead,
        connection: &ConnectionInfo,
        guard: RequestGuard,
    ) -> RefusedHead<Ended> {
        self.metrics.connections().unparsed(head);
        let mut request = Request::new(());
        *request.method_mut() = Method::from_bytes(b"-").unwrap_or_default();
        let info = RequestInfo {
            connection: connection.clone(),
            request_id: self.request_ids.next(),
            trace: None,
        };
        let record = self
            .access_log
            .is_on()
            .then(|| self.record(&request, &info, None, false).unparsed());
        let mut end = RequestEnd::begin(
            record,
            None,
            self.access_log.clone(),
            self.unmatched_metrics.clone(),
            Some(guard),
        );
        let context = RequestContext::new(connection.peer());
        request.extensions_mut().insert(context);
        let answer_id = self.request_id_in_answers.then_some(info.request_id);
        let Ok(mut response) = self.refuse(request, problem(head)).await;
        let answered = take_answered(&mut response);
        let is_trusted = self
            .clients
            .trusted
            .contains(connection.peer().address.ip());
        let decided = answered.decided.as_deref().filter(|_| !is_trusted);
        let used_up = decided.and_then(used_up);
        let by = end.answered(answered, response.status(), answer_id.as_ref());
        if by == AnsweredBy::Nobody {
            let response = None;
            return RefusedHead { response, used_up };
        }
        self.own_headers.write(response.headers_mut());
        identify(&mut response, answer_id);
        RefusedHead {
            response: Some(response.map(|body| Ended::new(body, end))),
            used_up,
        }
    }
}

fn problem(head: UnparsedHead) -> Problem {
    match head {
        UnparsedHead::Malformed | UnparsedHead::Http2 => BAD_HEAD,
        UnparsedHead::HeadTooLarge => LARGE_HEADERS,
        UnparsedHead::TargetTooLong => LONG_TARGET,
        UnparsedHead::ControlFrames => CONTROL_FRAMES,
    }
}

/// Returns the longest retry time of the limits that refused the request and count each caller separately. A caller is an address here,
/// because no credentials were read.
fn used_up(decided: &Decided) -> Option<Duration> {
    let refused = decided.decision.as_ref()?.outcome == Outcome::Refused;
    let own = decided.verdicts().filter(|it| it.rule.bounds_callers());
    let refusals = own.filter_map(|it| it.verdict.filter(|verdict| !verdict.allowed));
    let longest = refusals.map(|verdict| Duration::from_micros(verdict.retry_after));
    longest.max().filter(|_| refused)
}

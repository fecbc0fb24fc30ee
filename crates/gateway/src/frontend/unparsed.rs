//! Requests whose head the protocol refused: charged like any that no route takes.

use std::time::Duration;

use http::{Method, Request, Response};
use tidegate_store::Outcome;
use tidegate_tower::{Decided, Peer};
use tower::Service as _;

use super::Frontend;
use crate::activity::InRequest;
use crate::body::Body;
use crate::outcome::Unparsed;
use crate::problem::Problem;
use crate::request_end::{Answered, RequestEnd};
use crate::target::{BAD_HEAD, LARGE_HEADERS, LONG_TARGET};

/// What became of a head that was refused.
#[derive(Debug)]
pub(crate) struct RefusedHead {
    /// The answer; none if a limit drops it.
    pub(crate) response: Option<Response<Body>>,
    /// For how long a limit under `always` refuses the peer's address, if one does that is counted for it alone.
    pub(crate) used_up: Option<Duration>,
}

impl Frontend {
    /// Counts, logs and charges a head that the protocol refused. Of a trusted proxy it is the proxy's own, as nobody knows
    /// for whom it came.
    pub(crate) async fn refuse_head(
        &self,
        unparsed: Unparsed,
        peer: Peer,
        in_request: InRequest,
    ) -> RefusedHead {
        self.metrics.connections().unparsed(unparsed);
        let mut request = Request::new(());
        *request.method_mut() = Method::from_bytes(b"-").unwrap_or_default();
        let record = self.access_log.is_on();
        let record = record.then(|| {
            let id = self.request_ids.next();
            self.record(&request, &id, None, peer).unparsed()
        });
        let mut end = RequestEnd::begin(
            record,
            self.access_log.clone(),
            self.unmatched_metrics.clone(),
            in_request,
        );
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(problem(unparsed));
        let Ok(mut response) = self.unmatched.clone().call(request).await;
        let is_trusted = self.clients.trusted.contains(peer.address.ip());
        let decided = response.extensions().get().filter(|_| !is_trusted);
        let used_up = decided.and_then(used_up);
        if end.answered(&mut response) == Answered::NotAtAll {
            let response = None;
            return RefusedHead { response, used_up };
        }
        response.body_mut().ends(end);
        RefusedHead {
            response: Some(response),
            used_up,
        }
    }
}

fn problem(unparsed: Unparsed) -> Problem {
    match unparsed {
        Unparsed::Malformed | Unparsed::Http2 => BAD_HEAD,
        Unparsed::HeadTooLarge => LARGE_HEADERS,
        Unparsed::TargetTooLong => LONG_TARGET,
    }
}

/// For how long limits refuse that count the caller alone; they count an address here, as no credentials were read.
fn used_up(decided: &Decided) -> Option<Duration> {
    let refused = decided.decision.as_ref()?.outcome == Outcome::Refused;
    let own = decided.said().filter(|said| said.rule.bounds_callers());
    let refusals = own.filter_map(|said| said.verdict.filter(|verdict| !verdict.allowed));
    let longest = refusals.map(|verdict| Duration::from_micros(verdict.retry_after));
    longest.max().filter(|_| refused)
}

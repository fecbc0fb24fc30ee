//! Selects the requests that get a line in the access log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::settings::{AccessFilter, AccessLogSettings};
use crate::outcome::RequestOutcome;
use crate::per_second::PerSecond;
use crate::random;

/// The selection: a filter by outcome, status and duration, a bound on refusals, and a random sample of forwarded requests.
#[derive(Debug)]
pub(super) struct Selection {
    filter: Option<AccessFilter>,
    /// The selected share of the forwarded requests, in millionths.
    sample: u32,
    /// The bound on the lines of refused requests per second.
    bound: Option<PerSecond>,
    unwritten: AtomicU64,
}

/// The values by which a request is selected.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestSummary {
    pub(super) outcome: RequestOutcome,
    pub(super) status: u16,
    pub(super) took: Duration,
    /// Whether an observed limit would have refused the request.
    pub(super) would_be_refused: bool,
}

impl Selection {
    pub(super) fn new(settings: &AccessLogSettings) -> Self {
        Self {
            filter: settings.filter.clone(),
            sample: settings.sample,
            bound: settings.max_refusals_per_second.map(PerSecond::new),
            unwritten: AtomicU64::new(0),
        }
    }

    /// Returns the number of requests that got no line because of `max_refusals_per_second`.
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// Whether a request gets a line.
    pub(super) fn takes(&self, ended: impl FnOnce() -> RequestSummary) -> bool {
        if self.filter.is_none() && self.sample == AccessLogSettings::ALL && self.bound.is_none() {
            return true;
        }
        let ended = ended();
        if let Some(filter) = &self.filter
            && !meets(filter, ended)
        {
            return false;
        }
        if ended.outcome.is_refusal()
            && let Some(bound) = &self.bound
            && !bound.takes()
        {
            self.unwritten.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        // The sample excludes only forwarded requests. Requests with a server error, and requests that an observed limit would have
        // refused, always get a line.
        let merely = ended.outcome == RequestOutcome::Forwarded && ended.status < 500;
        !merely
            || ended.would_be_refused
            || self.sample == AccessLogSettings::ALL
            || random::happens(self.sample)
    }
}

/// Returns whether the request meets at least one condition.
fn meets(filter: &AccessFilter, ended: RequestSummary) -> bool {
    let has_status = |(from, to): &(u16, u16)| (*from..=*to).contains(&ended.status);
    filter.outcomes.contains(&ended.outcome)
        || filter.statuses.iter().any(has_status)
        || filter.duration.is_some_and(|least| ended.took >= least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(filter: Option<AccessFilter>, sample: u32) -> Selection {
        Selection {
            filter,
            sample,
            bound: None,
            unwritten: AtomicU64::new(0),
        }
    }

    fn ended(outcome: RequestOutcome, status: u16, ms: u64) -> RequestSummary {
        RequestSummary {
            outcome,
            status,
            took: Duration::from_millis(ms),
            would_be_refused: false,
        }
    }

    #[test]
    fn one_condition_is_enough() {
        let filter = AccessFilter {
            statuses: vec![(500, 599)],
            outcomes: vec![RequestOutcome::Limited],
            duration: Some(Duration::from_millis(10)),
        };
        let selection = selection(Some(filter), AccessLogSettings::ALL);
        for (outcome, status, ms, is_taken) in [
            (RequestOutcome::Forwarded, 200, 9, false),
            (RequestOutcome::Forwarded, 200, 10, true),
            (RequestOutcome::Forwarded, 500, 0, true),
            (RequestOutcome::Forwarded, 499, 0, false),
            (RequestOutcome::Limited, 429, 0, true),
            (RequestOutcome::Rejected, 404, 0, false),
        ] {
            let taken = selection.takes(|| ended(outcome, status, ms));
            assert_eq!(taken, is_taken, "{outcome:?} {status} {ms}");
        }
    }

    /// A flood of refusals does not displace lines of other requests.
    #[test]
    fn refusals_are_bounded_and_nothing_else() {
        let mut selection = selection(None, AccessLogSettings::ALL);
        selection.bound = Some(PerSecond::new(0));
        for outcome in RequestOutcome::ALL {
            let taken = selection.takes(|| ended(outcome, 404, 0));
            let is_refusal = matches!(
                outcome,
                RequestOutcome::Limited
                    | RequestOutcome::Dropped
                    | RequestOutcome::Denied
                    | RequestOutcome::Unavailable
                    | RequestOutcome::Rejected
                    | RequestOutcome::Shed
            );
            assert_eq!(taken, !is_refusal, "{outcome:?}");
        }
        assert_eq!(selection.unwritten(), 6);
    }

    #[test]
    fn what_was_merely_forwarded_is_sampled_and_nothing_else() {
        let selection = selection(None, 10_000);
        let taken =
            |ended: RequestSummary| (0..100_000).filter(|_| selection.takes(|| ended)).count();
        let forwarded = taken(ended(RequestOutcome::Forwarded, 200, 0));
        // 1,000 are expected. Only one run in many millions exceeds these bounds.
        assert!((800..1_200).contains(&forwarded), "{forwarded}");
        assert_eq!(taken(ended(RequestOutcome::Limited, 429, 0)), 100_000);
        assert_eq!(taken(ended(RequestOutcome::Forwarded, 502, 0)), 100_000);
        let mut observed = ended(RequestOutcome::Forwarded, 200, 0);
        observed.would_be_refused = true;
        assert_eq!(taken(observed), 100_000);
    }
}

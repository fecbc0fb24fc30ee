//! The charges of a request, and the longest times that the request may wait at its limits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{Micros, Verdict};
use tidegate_store::{Charge, Key, Limit, Origin, PerCharge};

use crate::wait_queues::QueueKey;
use crate::{Action, Rule};

/// The longest time in total that a request waits for holds of other requests to end.
pub const SETTLING: Duration = Duration::from_secs(1);

/// The charge of a request at one limit.
#[derive(Clone, Copy, Debug)]
pub struct RuleCharge<'a> {
    /// The rule's index in the policy.
    pub index: usize,
    /// The rule.
    pub rule: &'a Rule,
    /// The rule's limit, with the quota of the client's plan.
    pub limit: &'a Arc<Limit>,
    /// The key that is charged.
    pub key: Key,
    /// The cost of the request.
    pub cost: u64,
    /// The caller's address, if the key has an unverified part that the sender of the request chose.
    pub origin: Option<Origin>,
}

/// All charges of a request.
pub type RuleCharges<'a> = PerCharge<RuleCharge<'a>>;

impl<'a> RuleCharge<'a> {
    /// Returns this charge in the store's type.
    pub fn charge(&self) -> Charge<'a> {
        Charge {
            limit: self.limit,
            key: self.key,
            cost: self.cost,
            origin: self.origin,
        }
    }

    /// Returns the limit, the key and the cost.
    pub(crate) const fn charged(&self) -> (&'a Arc<Limit>, Key, u64) {
        (self.limit, self.key, self.cost)
    }

    pub(crate) fn wait_key(&self) -> QueueKey {
        QueueKey {
            limit: self.limit.id().into(),
            key: self.key,
            is_queue: false,
        }
    }

    pub(crate) fn queue_key(&self) -> QueueKey {
        QueueKey {
            is_queue: true,
            ..self.wait_key()
        }
    }

    /// Returns the longest time that a request waits in this limit's wait queue.
    pub fn max_wait(&self) -> Duration {
        let settling = self.limit.reserves().map(|_| SETTLING);
        match self.rule.action {
            Action::Delay { max } => max.max(settling.unwrap_or_default()),
            Action::Reject | Action::Drop => settling.unwrap_or_default(),
        }
    }

    /// Whether a refused request waits for holds of other requests to end. Requests wait only at limits that reserve costs. In a Redis
    /// Cluster, every `exact` limit has holds for one round trip, and no request waits for these holds.
    pub(crate) fn is_settling(&self, verdict: &Verdict) -> bool {
        verdict.settling && self.limit.reserves().is_some()
    }

    /// Returns the event that a refused request waits for next. `waited` is the time that the request has waited so far. `None` if the
    /// request must not wait any longer.
    pub fn wait(&self, verdict: &Verdict, waited: Duration) -> Option<Until> {
        if self.is_settling(verdict) && waited < SETTLING {
            return Some(Until::Settled);
        }
        let Action::Delay { max } = self.rule.action else {
            return None;
        };
        let retry_after = Duration::from_micros(verdict.retry_after);
        (waited + retry_after <= max).then_some(Until::Over(retry_after))
    }

    /// Whether a request that has waited since `began` can still be admitted in time. The requests before it in the wait queue cost `ahead`
    /// units in total.
    pub(crate) fn is_worth(&self, began: Instant, until: Until, ahead: u64) -> bool {
        match (until, self.rule.action) {
            (Until::Over(first), Action::Delay { max }) => {
                began.elapsed() + first + self.pace(ahead) <= max
            }
            _ => true,
        }
    }

    /// Returns the time between the admission of the first waiting request and the admission of this request, at the limit's own rate. The
    /// requests before this request cost `ahead` units in total.
    pub fn pace(&self, ahead: u64) -> Duration {
        if ahead == 0 {
            return Duration::ZERO;
        }
        let quota = self.limit.quota();
        let (period, capacity) = (u128::from(quota.period()), u128::from(quota.capacity()));
        let ahead = u128::from(ahead);
        let time = if quota.is_paced() {
            period * ahead / capacity
        } else {
            // A window frees its whole capacity at once, so the time is a whole number of windows.
            (ahead + u128::from(self.cost) - 1) / capacity * period
        };
        Duration::from_micros(Micros::try_from(time).unwrap_or(Micros::MAX))
    }
}

/// The event that a refused request waits for. `Settled` compares as less than `Over`, and a shorter time as less than a longer time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Until {
    /// A hold of another request ends.
    Settled,
    /// This time has passed since the refusal.
    Over(Duration),
}

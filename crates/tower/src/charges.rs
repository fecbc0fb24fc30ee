//! What a request is to be charged to, and how long it may wait for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{Micros, Verdict};
use tidegate_store::{Charge, Key, Limit, Origin, PerCharge};

use crate::wait_queues::QueueKey;
use crate::{Action, Rule};

/// The longest that a request waits for holds of others to end, in all.
pub const SETTLING: Duration = Duration::from_secs(1);

/// A limit that a request is to be charged to.
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
    /// What the request costs.
    pub cost: u64,
    /// The address that chose the key, if it is not verified.
    pub origin: Option<Origin>,
}

/// All that a request is to be charged to.
pub type RuleCharges<'a> = PerCharge<RuleCharge<'a>>;

impl<'a> RuleCharge<'a> {
    /// As the store takes it.
    pub fn charge(&self) -> Charge<'a> {
        Charge {
            limit: self.limit,
            key: self.key,
            cost: self.cost,
            origin: self.origin,
        }
    }

    /// As the store takes what was charged.
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

    /// The longest that a request waits in this limit's wait queue.
    pub fn max_wait(&self) -> Duration {
        let settling = self.limit.reserves().map(|_| SETTLING);
        match self.rule.action {
            Action::Delay { max } => max.max(settling.unwrap_or_default()),
            Action::Reject | Action::Drop => settling.unwrap_or_default(),
        }
    }

    /// Whether a refusal is worth to wait for the ends of holds. In a cluster each exact limit has holds. A limit without reserved costs
    /// has them for a round trip, and refuses at once.
    pub(crate) fn is_settling(&self, verdict: &Verdict) -> bool {
        verdict.settling && self.limit.reserves().is_some()
    }

    /// How long until it lets the request through that it refused, if that may wait for it, having waited so long.
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

    /// Whether a request that began then may still be let through in time, behind others who ask for `ahead` units.
    pub(crate) fn is_worth(&self, began: Instant, until: Until, ahead: u64) -> bool {
        match (until, self.rule.action) {
            (Until::Over(first), Action::Delay { max }) => {
                began.elapsed() + first + self.pace(ahead) <= max
            }
            _ => true,
        }
    }

    /// How long others take who stand before this request, after the first of them is let through, as far as the limit's
    /// own pace tells.
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
            // All of a window comes at once.
            (ahead + u128::from(self.cost) - 1) / capacity * period
        };
        Duration::from_micros(Micros::try_from(time).unwrap_or(Micros::MAX))
    }
}

/// What a refused request waits for; what takes longer is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Until {
    /// A hold of another request ends.
    Settled,
    /// So much time is over.
    Over(Duration),
}

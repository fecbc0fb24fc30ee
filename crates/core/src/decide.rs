//! Decides a request by all its limits: checks every limit, then charges all of them or none.

use crate::{Block, Hold, HoldId, KeyHolds, Micros, Quota, State, Verdict};

/// One limit of a request: its quota, the state of its key, and the request's cost.
#[derive(Debug)]
pub struct Budget<'a> {
    /// The numbers of the limit.
    pub quota: &'a Quota,
    /// The record of used units under the key.
    pub state: State,
    /// Units to charge, from 1 to the quota's capacity.
    pub cost: u64,
    /// Whether the limit is observed: it counts requests, but refuses none.
    pub observed: bool,
    /// The block that begins when the key exceeds the limit, if the limit has one.
    pub block: Option<Block>,
    /// The time until which a block refuses the key, in us. If no block is running, it is 0 or in the past.
    pub blocked_until: Micros,
    /// The time after which the request's hold lapses unless it is renewed, in us. `None` if the request is charged at once.
    pub lease: Option<Micros>,
    /// The ID of this request's hold. No other request under the key has the same ID.
    pub hold: HoldId,
    /// The holds of all running requests under the key.
    pub holds: KeyHolds,
    /// The units that are left of the limit in front, if this limit is a share of it. [`decide`] sets it.
    pub left_in_front: Option<u64>,
}

impl<'a> Budget<'a> {
    /// Returns the budget of a limit that is enforced and has no block. The request holds units if the quota has a lease (`concurrency`).
    pub fn new(quota: &'a Quota, state: State, cost: u64) -> Self {
        Self {
            quota,
            state,
            cost,
            observed: false,
            block: None,
            blocked_until: 0,
            lease: quota.lease(),
            hold: HoldId::default(),
            holds: KeyHolds::default(),
            left_in_front: None,
        }
    }

    /// Returns the verdict of this limit alone ([`crate::Algorithm::check`]). Held units count as used.
    pub fn check(&mut self, now: Micros) -> Verdict {
        let mut verdict = match self.holds.is_empty() {
            true => {
                let left = self.left_in_front;
                self.quota
                    .check_within(&mut self.state, self.cost, now, left)
            }
            false => self.check_beside(now),
        };
        if let Some(left) = self.left_in_front {
            verdict.remaining = verdict.remaining.min(left);
        }
        if let Some(block) = &self.block {
            block.check(&mut self.blocked_until, now, &mut verdict);
        }
        verdict
    }

    fn check_beside(&mut self, now: Micros) -> Verdict {
        self.charge_lapsed(now);
        let (quota, cost, held) = (self.quota, self.cost, self.holds.units());
        let (units, capacity) = (cost.saturating_add(held), quota.capacity());
        let left = self.left_in_front;
        let mut verdict = quota.check_within(&mut self.state, units.min(capacity), now, left);
        if held == 0 {
            return verdict;
        }
        let left = verdict.remaining.saturating_sub(held);
        verdict.allowed = cost <= left;
        // A refusal is `settling` if the cost would fit without the held units. Refusals of `concurrency` are not, because its requests run
        // for an unknown time.
        verdict.settling = !verdict.allowed && cost <= verdict.remaining && quota.lease().is_none();
        verdict.remaining = left;
        // The times are computed as if all held units were charged now.
        if units > capacity {
            verdict.retry_after = quota.later(verdict.retry_after, units - capacity, now);
        }
        verdict.reset = quota.later(verdict.reset, held, now);
        if verdict.allowed && quota.is_queue() {
            verdict.delay = verdict.reset;
        }
        verdict
    }

    /// Checks a request that another limit refuses. Charges no unit, and starts the block if the request exceeds this limit.
    pub fn check_and_block(&mut self, now: Micros) -> Verdict {
        let mut verdict = self.check(now);
        if !verdict.allowed {
            self.refused(now, &mut verdict);
        }
        verdict
    }

    fn commit(&mut self, now: Micros, verdict: &mut Verdict) {
        if let Some(lease) = self.lease {
            let (id, units) = (self.hold, self.cost);
            self.holds.take(Hold { id, units, lease }, now);
            // The bucket of a share may have less left than the cost, if it only observes.
            verdict.remaining = verdict.remaining.saturating_sub(units);
            verdict.reset = self.quota.later(verdict.reset, units, now);
            return;
        }
        match self.counts() {
            true => self.quota.commit(&mut self.state, self.cost, now, verdict),
            false => verdict.remaining = verdict.remaining.saturating_sub(self.cost),
        }
        let held = self.holds.units();
        if held > 0 {
            verdict.reset = self.quota.later(verdict.reset, held, now);
        }
    }

    /// Whether the state changes if the request is admitted. See [`Algorithm::counts_within`](crate::Algorithm::counts_within).
    #[inline]
    pub fn counts(&self) -> bool {
        self.left_in_front.is_none()
            || self.lease.is_some()
            || self.quota.counts_within(self.left_in_front)
    }

    fn refused(&mut self, now: Micros, verdict: &mut Verdict) {
        if let Some(block) = self.block.filter(|_| !verdict.settling) {
            block.start(&mut self.blocked_until, now, verdict);
        }
    }

    /// Charges the reserved units of lapsed holds. If a charge at the time of the latest lapse would no longer count at `now`, no unit is
    /// charged. The time of the charge is `now`, because stamps never decrease.
    fn charge_lapsed(&mut self, now: Micros) {
        let lease = self.lease.unwrap_or(Micros::MAX - now);
        let (units, lapse) = self.holds.sweep(lease, now);
        if units > 0 && self.quota.counts_until(lapse) > now {
            self.charge(units, now);
        }
    }

    /// Charges units, whether or not they fit.
    pub fn charge(&mut self, units: u64, now: Micros) {
        if units == 0 {
            return;
        }
        // This check only moves stamps back after the clock stepped back. Its verdict is ignored.
        self.quota.check(&mut self.state, 1, now);
        self.quota.charge(&mut self.state, units, now);
    }

    /// Ends a hold: drops it, and charges the used units, whether or not they fit. Returns false if the hold is missing, because it has
    /// already ended, was lost, or lapsed. If the hold lapsed, a check has already charged its units.
    pub fn end(&mut self, id: HoldId, used: u64, now: Micros) -> bool {
        let is_held = self.holds.end(id);
        if is_held {
            self.charge(used, now);
        }
        is_held
    }
}

/// Decides one request: writes a verdict per budget, and charges all budgets if every enforced budget allows the request. Returns whether
/// the request is admitted. An observed budget that refuses the request is not charged.
///
/// `verdicts` has the length of `budgets`. `lua/decide.lua` computes the same results.
///
/// ```
/// use tidegate_core::{Budget, Quota, Rate, TokenBucket, Verdict, decide};
///
/// # fn main() -> Result<(), tidegate_core::QuotaError> {
/// // Two tokens, and another one each second.
/// let refill = Rate { count: 1, per: 1_000_000 };
/// let quota = Quota::from(TokenBucket::new(2, refill)?);
/// let now = 1_700_000_000_000_000;
/// let mut budgets = [Budget::new(&quota, quota.fresh(), 2)];
/// let mut verdicts = [Verdict::default()];
/// assert!(decide(&mut budgets, now, &mut verdicts));
/// assert_eq!(verdicts[0].remaining, 0);
/// // Both tokens are used: the next request has to come two seconds later.
/// assert!(!decide(&mut budgets, now, &mut verdicts));
/// assert_eq!(verdicts[0].retry_after, 2_000_000);
/// # Ok(())
/// # }
/// ```
pub fn decide(budgets: &mut [Budget<'_>], now: Micros, verdicts: &mut [Verdict]) -> bool {
    let mut admitted = true;
    let mut left = None;
    for (budget, verdict) in budgets.iter_mut().zip(verdicts.iter_mut()) {
        budget.left_in_front = left.filter(|_| budget.quota.is_share());
        *verdict = budget.check(now);
        left = Some(verdict.remaining);
        admitted &= verdict.allowed || budget.observed;
    }
    for (budget, verdict) in budgets.iter_mut().zip(verdicts) {
        if !verdict.allowed {
            budget.refused(now, verdict);
        } else if admitted {
            budget.commit(now, verdict);
        }
    }
    admitted
}

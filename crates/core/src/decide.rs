//! Several limits as one decision: all are checked, then all are charged, or none.

use crate::{Block, HoldId, Micros, Quota, Reservations, State, Verdict};

/// One limit of a request: its quota, the state of its key, and what the request costs there.
#[derive(Debug)]
pub struct Slot<'a> {
    /// The numbers to decide by.
    pub quota: &'a Quota,
    /// What was used under the key.
    pub state: State,
    /// Units to charge, from 1 to the quota's capacity.
    pub cost: u64,
    /// Whether it only counts, and refuses nobody.
    pub observed: bool,
    /// What becomes of a key whose limit was exceeded.
    pub block: Option<Block>,
    /// Until when the key is refused; 0 or any time that has passed if it is not.
    pub blocked_until: Micros,
    /// How long a charge is only a reservation, in us, if what it costs is known afterwards; then it must be settled.
    pub reserves: Option<Micros>,
    /// The ID of what this request holds: a place, or a reservation. No other request under the key has it.
    pub hold: HoldId,
    /// The reservations that are not settled.
    pub unsettled: Reservations,
}

impl<'a> Slot<'a> {
    /// A limit that is enforced and does not block.
    pub fn new(quota: &'a Quota, state: State, cost: u64) -> Self {
        Self {
            quota,
            state,
            cost,
            observed: false,
            block: None,
            blocked_until: 0,
            reserves: None,
            hold: HoldId::default(),
            unsettled: Reservations::default(),
        }
    }

    /// What this limit says on its own, as [`crate::Algorithm::check`].
    pub fn check(&mut self, now: Micros) -> Verdict {
        let mut verdict = self.quota.check(&mut self.state, self.cost, now);
        if let Some(lease) = self.reserves {
            let unsettled = self.unsettled.unsettled(lease, now);
            verdict.settling = !verdict.allowed && unsettled > 0 && {
                let excess = self.quota.excess(&self.state, now);
                verdict.remaining + unsettled >= self.cost + excess
            };
        }
        if let Some(block) = &self.block {
            block.check(&mut self.blocked_until, now, &mut verdict);
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
        let state = &mut self.state;
        self.quota
            .commit_held(state, self.cost, self.hold, now, verdict);
        if let Some(lease) = self.reserves {
            let (HoldId(id), cost) = (self.hold, self.cost);
            self.unsettled.add(id, cost, lease, self.quota, now);
        }
    }

    fn refused(&mut self, now: Micros, verdict: &mut Verdict) {
        if let Some(block) = self.block.filter(|_| !verdict.settling) {
            block.start(&mut self.blocked_until, now, verdict);
        }
    }

    /// Settles the reservation with this ID: `used` is what it has come to. If that is less than was reserved, the rest is given
    /// back. If it is more, all of it is charged, whether or not it fits. `until` is the time of the decision and its verdict's
    /// `reset` together. If others have given back since then, or plans of several paces have reserved, less is given back. Changes
    /// nothing, and says so, if the reservation has no record: it was settled before, or is forgotten with its charge.
    pub fn settle(&mut self, id: u64, used: u64, until: Micros, now: Micros) -> bool {
        let Some(reserved) = self.unsettled.take(id, until) else {
            return false;
        };
        let unused = reserved.units.saturating_sub(used);
        let until = reserved.bounded(unused, self.quota, now);
        self.unsettled
            .refunded(&reserved, unused, until, self.quota, now);
        self.come_to(reserved.units, used, until, now);
        true
    }

    /// Corrects a charge of `reserved` that has come to `used`, as [`Slot::settle`].
    pub fn come_to(&mut self, reserved: u64, used: u64, until: Micros, now: Micros) {
        if let Some(unused) = reserved.checked_sub(used).filter(|unused| *unused > 0) {
            self.quota.give_back(&mut self.state, unused, until, now);
        }
        if let Some(rest) = used.checked_sub(reserved).filter(|rest| *rest > 0) {
            // A clock that stepped back is noticed by a check.
            self.quota.check(&mut self.state, 1, now);
            self.quota.charge(&mut self.state, rest, now);
        }
    }
}

/// Decides one request: writes a verdict per slot, charges all slots if every one that is enforced allows it, and says
/// whether it did. One that is only observed is charged with the others, if it allows the request itself.
///
/// `verdicts` has the length of `slots`. `lua/decide.lua` is this function's other writing.
///
/// ```
/// use tidegate_core::{Quota, Rate, Slot, TokenBucket, Verdict, decide};
///
/// # fn main() -> Result<(), tidegate_core::QuotaError> {
/// // Two tokens, and another one each second.
/// let refill = Rate { count: 1, per: 1_000_000 };
/// let quota = Quota::from(TokenBucket::new(2, refill)?);
/// let now = 1_700_000_000_000_000;
/// let mut slots = [Slot::new(&quota, quota.fresh(), 2)];
/// let mut verdicts = [Verdict::default()];
/// assert!(decide(&mut slots, now, &mut verdicts));
/// assert_eq!(verdicts[0].remaining, 0);
/// // Both tokens are used: the next request has to come two seconds later.
/// assert!(!decide(&mut slots, now, &mut verdicts));
/// assert_eq!(verdicts[0].retry_after, 2_000_000);
/// # Ok(())
/// # }
/// ```
pub fn decide(slots: &mut [Slot<'_>], now: Micros, verdicts: &mut [Verdict]) -> bool {
    let mut admitted = true;
    for (slot, verdict) in slots.iter_mut().zip(verdicts.iter_mut()) {
        *verdict = slot.check(now);
        admitted &= verdict.allowed || slot.observed;
    }
    for (slot, verdict) in slots.iter_mut().zip(verdicts) {
        if !verdict.allowed {
            slot.refused(now, verdict);
        } else if admitted {
            slot.commit(now, verdict);
        }
    }
    admitted
}

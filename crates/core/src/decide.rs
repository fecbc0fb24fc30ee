//! Several limits as one decision: all are checked, then all are charged, or none.

use crate::{Block, Micros, Quota, State, Verdict};

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
}

impl<'a> Slot<'a> {
    /// A limit that is enforced and does not block.
    pub const fn new(quota: &'a Quota, state: State, cost: u64) -> Self {
        Self {
            quota,
            state,
            cost,
            observed: false,
            block: None,
            blocked_until: 0,
        }
    }

    /// What this limit says on its own, as [`crate::Algorithm::check`].
    pub fn check(&mut self, now: Micros) -> Verdict {
        let mut verdict = self.quota.check(&mut self.state, self.cost, now);
        if let Some(block) = &self.block {
            block.check(&mut self.blocked_until, now, &mut verdict);
        }
        verdict
    }

    fn refused(&mut self, now: Micros, verdict: &mut Verdict) {
        if let Some(block) = &self.block {
            block.start(&mut self.blocked_until, now, verdict);
        }
    }
}

/// Decides one request: writes a verdict per slot, charges all slots if every one that is enforced allows it, and says
/// whether it did. One that is only observed is charged with the others, if it allows the request itself.
///
/// `verdicts` has the length of `slots`. `lua/decide.lua` is this function's other writing.
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
            slot.quota.commit(&mut slot.state, slot.cost, now, verdict);
        }
    }
    admitted
}

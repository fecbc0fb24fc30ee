//! Several limits as one decision: all are checked, then all are charged, or none.

use crate::{Micros, Quota, State, Verdict};

/// One limit of a request: its quota, the state of its key, and what the request costs there.
#[derive(Debug)]
pub struct Slot<'a> {
    /// The numbers to decide by.
    pub quota: &'a Quota,
    /// What was used under the key.
    pub state: State,
    /// Units to charge, from 1 to the quota's capacity.
    pub cost: u64,
}

/// Decides one request: writes a verdict per slot, charges all slots if every one allows it, and says whether it did.
///
/// `verdicts` has the length of `slots`. `lua/decide.lua` is this function's other writing.
pub fn decide(slots: &mut [Slot<'_>], now: Micros, verdicts: &mut [Verdict]) -> bool {
    let mut admitted = true;
    for (slot, verdict) in slots.iter_mut().zip(verdicts.iter_mut()) {
        *verdict = slot.quota.check(&mut slot.state, slot.cost, now);
        admitted &= verdict.allowed;
    }
    if admitted {
        for (slot, verdict) in slots.iter_mut().zip(verdicts) {
            slot.quota.commit(&mut slot.state, slot.cost, now, verdict);
        }
    }
    admitted
}

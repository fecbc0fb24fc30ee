//! `concurrency`: so many requests under way at a time.
//!
//! Admits cost c when the slots taken + c <= the limit. A slot is a lease: it is given back when its request has ended,
//! renewed while that lasts, and lapses if nobody does either. Each slot has the ID of its request, by which a lost one is
//! taken again. Promise: at most the limit at any time. The other writing of this file is `lua/concurrency.lua`.

use crate::numbers::{at_most, window_quota, written_span};
use crate::{
    Algorithm, ConcurrencySlots, Hold, HoldId, Micros, Mode, Numbers, QuotaError, Receipt, Verdict,
};

/// The most slots of one key: so many entries may be kept in Redis.
const LARGEST: u64 = 1_000_000;

/// When to ask again: nobody knows when the next request ends.
const RETRY_AFTER: Micros = 1_000_000;

/// The quota of a concurrency limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    limit: u64,
    lease: Micros,
}

impl Concurrency {
    /// At most `limit` at a time, each slot for `lease` us unless it is renewed.
    ///
    /// # Errors
    ///
    /// The limit or the lease is 0, or one of them is too large.
    pub fn new(limit: u64, lease: Micros) -> Result<Self, QuotaError> {
        window_quota(limit, lease)?;
        at_most(LARGEST, limit)?;
        Ok(Self { limit, lease })
    }

    /// How long a slot lasts that is not renewed, in us.
    pub const fn lease(&self) -> Micros {
        self.lease
    }

    fn hold(&self, slots: &mut ConcurrencySlots, units: u64, id: HoldId, now: Micros) {
        let lease = self.lease;
        slots.hold(Hold { id, units, lease }, now + lease, now);
    }
}

impl Algorithm for Concurrency {
    type State = ConcurrencySlots;

    // Slots are not lent in slices.
    const MODES: &'static [Mode] = &[Mode::Exact, Mode::Local];

    fn capacity(&self) -> u64 {
        self.limit
    }

    /// The verdict's `reset` is the time until the last slot lapses, if none is renewed.
    fn check(&self, slots: &mut ConcurrencySlots, cost: u64, now: Micros) -> Verdict {
        let taken = slots.taken(self.lease, now);
        let remaining = self.limit.saturating_sub(taken);
        let allowed = cost <= remaining;
        Verdict {
            allowed,
            settling: false,
            remaining,
            reset: slots.last().saturating_sub(now),
            retry_after: if allowed { 0 } else { RETRY_AFTER },
            delay: 0,
        }
    }

    /// Of a request without an ID.
    fn commit(&self, slots: &mut ConcurrencySlots, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.commit_held(slots, cost, HoldId::default(), now, verdict);
    }

    fn commit_held(
        &self,
        slots: &mut ConcurrencySlots,
        cost: u64,
        hold: HoldId,
        now: Micros,
        verdict: &mut Verdict,
    ) {
        self.hold(slots, cost, hold, now);
        verdict.remaining -= cost;
        verdict.reset = slots.last() - now;
    }

    /// Of a request without an ID, in place of what was charged so before. Takes no more slots than a limit can have.
    fn charge(&self, slots: &mut ConcurrencySlots, cost: u64, now: Micros) {
        self.hold(slots, cost.min(LARGEST), HoldId::default(), now);
    }

    fn excess(&self, slots: &ConcurrencySlots, now: Micros) -> u64 {
        let taken = slots.clone().taken(self.lease, now);
        taken.saturating_sub(self.limit)
    }

    /// Of a request without an ID.
    fn give_back(&self, slots: &mut ConcurrencySlots, _cost: u64, _receipt: Micros, _now: Micros) {
        slots.give_back(HoldId::default());
    }

    fn give_back_held(
        &self,
        slots: &mut ConcurrencySlots,
        _cost: u64,
        receipt: Receipt,
        _now: Micros,
    ) {
        slots.give_back(receipt.hold);
    }

    fn expires(&self, slots: &ConcurrencySlots) -> Micros {
        slots.last()
    }

    fn numbers(&self, _now: Micros) -> Numbers {
        [self.limit, self.lease].into()
    }

    fn period(&self) -> Micros {
        self.lease
    }

    fn written(&self) -> String {
        format!("limit {}, lease {}", self.limit, written_span(self.lease))
    }

    fn lease(&self) -> Option<Micros> {
        Some(self.lease)
    }

    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
        Self::new(capacity, self.lease)
    }

    fn divided(&self, parts: u64) -> Self {
        Self {
            limit: (self.limit / parts.max(1)).max(1),
            ..*self
        }
    }
}

//! `concurrency`: so many requests under way at a time.
//!
//! Admits cost c when the places taken + c <= the limit. A place is a lease: it is given back when its request has ended,
//! renewed while that lasts, and lapses if nobody does either. Each place has the ID of its request, by which a lost one is
//! taken again. Promise: at most the limit at any time. The other writing of this file is `lua/concurrency.lua`.

use crate::numbers::{at_most, window_quota};
use crate::{Algorithm, Hold, HoldId, Micros, Mode, Numbers, Places, QuotaError, Receipt, Verdict};

/// The most places of one key: so many entries may be kept in Redis.
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
    /// At most `limit` at a time, each place for `lease` us unless it is renewed.
    ///
    /// # Errors
    ///
    /// The limit or the lease is 0, or one of them is too large.
    pub fn new(limit: u64, lease: Micros) -> Result<Self, QuotaError> {
        window_quota(limit, lease)?;
        at_most(LARGEST, limit)?;
        Ok(Self { limit, lease })
    }

    /// How long a place lasts that is not renewed, in us.
    pub const fn lease(&self) -> Micros {
        self.lease
    }

    fn hold(&self, places: &mut Places, units: u64, id: HoldId, now: Micros) {
        let lease = self.lease;
        places.hold(Hold { id, units, lease }, now + lease, now);
    }
}

impl Algorithm for Concurrency {
    type State = Places;

    // Slots are not lent in slices.
    const MODES: &'static [Mode] = &[Mode::Exact, Mode::Local];

    fn capacity(&self) -> u64 {
        self.limit
    }

    /// The verdict's `reset` is the time until the last place lapses, if none is renewed.
    fn check(&self, places: &mut Places, cost: u64, now: Micros) -> Verdict {
        let taken = places.taken(self.lease, now);
        let remaining = self.limit.saturating_sub(taken);
        let allowed = cost <= remaining;
        Verdict {
            allowed,
            settling: false,
            remaining,
            reset: places.last().saturating_sub(now),
            retry_after: if allowed { 0 } else { RETRY_AFTER },
            delay: 0,
        }
    }

    /// Of a request without an ID.
    fn commit(&self, places: &mut Places, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.commit_held(places, cost, HoldId::default(), now, verdict);
    }

    fn commit_held(
        &self,
        places: &mut Places,
        cost: u64,
        hold: HoldId,
        now: Micros,
        verdict: &mut Verdict,
    ) {
        self.hold(places, cost, hold, now);
        verdict.remaining -= cost;
        verdict.reset = places.last() - now;
    }

    /// Of a request without an ID, in place of what was charged so before. Takes no more places than a limit can have.
    fn charge(&self, places: &mut Places, cost: u64, now: Micros) {
        self.hold(places, cost.min(LARGEST), HoldId::default(), now);
    }

    fn excess(&self, places: &Places, now: Micros) -> u64 {
        let taken = places.clone().taken(self.lease, now);
        taken.saturating_sub(self.limit)
    }

    /// Of a request without an ID.
    fn give_back(&self, places: &mut Places, _cost: u64, _receipt: Micros, _now: Micros) {
        places.give_back(HoldId::default());
    }

    fn give_back_held(&self, places: &mut Places, _cost: u64, receipt: Receipt, _now: Micros) {
        places.give_back(receipt.hold);
    }

    fn expires(&self, places: &Places) -> Micros {
        places.last()
    }

    fn numbers(&self, _now: Micros) -> Numbers {
        [self.limit, self.lease].into()
    }

    fn period(&self) -> Micros {
        self.lease
    }

    fn lease(&self) -> Option<Micros> {
        Some(self.lease)
    }

    fn divided(&self, parts: u64) -> Self {
        Self {
            limit: (self.limit / parts.max(1)).max(1),
            ..*self
        }
    }
}

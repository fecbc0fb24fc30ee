//! `leaky_bucket`: a queue that drains at a constant rate.
//!
//! Admits cost c when waiting + c <= Q. What waits drains continuously at n per P, and an admitted request is released
//! when what was before it has drained: [`Verdict::delay`]. A request that was released still waits, in this count,
//! until it has drained itself. Promise: releases are at least P/n apart, to the microsecond, and at most Q wait. The
//! other writing of this file is `lua/leaky_bucket.lua`.

use crate::{Algorithm, Debt, Meter, Micros, Mode, Numbers, QuotaError, Rate, Verdict};

/// The quota of a leaky bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    meter: Meter,
}

impl LeakyBucket {
    /// A queue of `queue` units that drains at `drain`.
    ///
    /// # Errors
    ///
    /// The capacity or the rate is 0, or they are too large together.
    pub fn new(queue: u64, drain: Rate) -> Result<Self, QuotaError> {
        let meter = Meter::new("queue", queue, drain)?;
        Ok(Self { meter })
    }

    /// The numbers that the script takes.
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl Algorithm for LeakyBucket {
    type State = Debt;

    // A slice of a queue would be a queue of its own.
    const MODES: &'static [Mode] = &[Mode::Exact, Mode::Local];
    const IS_QUEUE: bool = true;
    const IS_PACED: bool = true;
    const IS_GRADUAL: bool = true;

    fn capacity(&self) -> u64 {
        self.meter.capacity()
    }

    fn check(&self, state: &mut Debt, cost: u64, now: Micros) -> Verdict {
        let mut verdict = self.meter.check(state, cost, now);
        if verdict.allowed {
            // Before its own cost is added, the time until all is drained is this request's turn.
            verdict.delay = verdict.reset;
        }
        verdict
    }

    fn commit(&self, state: &mut Debt, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.meter.commit(state, cost, now, verdict);
    }

    fn charge(&self, state: &mut Debt, cost: u64, now: Micros) {
        self.meter.charge(state, cost, now);
    }

    fn excess(&self, state: &Debt, now: Micros) -> u64 {
        self.meter.excess(state, now)
    }

    fn time(&self, units: u64) -> Option<Micros> {
        Some(self.meter.time(units))
    }

    fn expires(&self, state: &Debt) -> Micros {
        self.meter.paid(state)
    }

    fn numbers(&self, _now: Micros) -> Numbers {
        self.meter.numbers().into()
    }

    fn period(&self) -> Micros {
        self.meter.period()
    }

    fn written(&self) -> String {
        let rate = self.meter.written();
        format!("queue {}, drain {rate}", self.capacity())
    }

    fn wait_of(&self, cost: u64, smaller: &Verdict) -> Option<Micros> {
        Some(self.meter.wait_of(cost, smaller))
    }

    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
        Ok(Self {
            meter: self.meter.with_capacity("queue", capacity)?,
        })
    }

    fn is_as_fast(&self, other: &Self) -> bool {
        self.meter.is_as_fast(&other.meter)
    }

    fn divided(&self, parts: u64) -> Self {
        Self {
            meter: self.meter.divided(parts),
        }
    }
}

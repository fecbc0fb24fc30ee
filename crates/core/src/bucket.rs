//! The quota of token buckets and leaky buckets. A charge to either bucket adds to a debt, which is paid off continuously.
//! `lua/token_bucket.lua` and `lua/leaky_bucket.lua` compute the same results.

use crate::{Algorithm, Debt, Meter, Micros, Mode, Numbers, QuotaError, Rate, Verdict};

/// The quota of a bucket. If `QUEUE` is true, it is a leaky bucket, whose requests wait for their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket<const QUEUE: bool> {
    meter: Meter,
}

impl<const QUEUE: bool> Bucket<QUEUE> {
    /// The name of the capacity in YAML.
    const CAPACITY: &'static str = if QUEUE { "queue" } else { "capacity" };

    /// Returns a bucket of `capacity` units, which are paid off at `rate`.
    ///
    /// # Errors
    ///
    /// The capacity or the rate is 0, the rate's span is too long, or the capacity is too large for the rate.
    pub fn new(capacity: u64, rate: Rate) -> Result<Self, QuotaError> {
        let meter = Meter::new(Self::CAPACITY, capacity, rate)?;
        Ok(Self { meter })
    }

    /// Returns the capacity and the rate, in the script's numbers.
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl<const QUEUE: bool> Algorithm for Bucket<QUEUE> {
    type State = Debt;

    const MODES: &'static [Mode] = match QUEUE {
        // `leased` is left out: the slice of each gateway would be a queue of its own.
        true => &[Mode::Exact, Mode::Local],
        false => &[Mode::Exact, Mode::Leased, Mode::Local],
    };
    const IS_QUEUE: bool = QUEUE;
    const IS_PACED: bool = true;
    const IS_GRADUAL: bool = true;

    fn capacity(&self) -> u64 {
        self.meter.capacity()
    }

    fn check(&self, state: &mut Debt, cost: u64, now: Micros) -> Verdict {
        let mut verdict = self.meter.check(state, cost, now);
        if QUEUE && verdict.allowed {
            // `reset` does not include this request's cost yet, so it is the time until the request's turn.
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
        let pace = if QUEUE { "drain" } else { "refill" };
        let (capacity, rate) = (self.capacity(), self.meter.written());
        format!("{} {capacity}, {pace} {rate}", Self::CAPACITY)
    }

    fn reset_with(&self, reset: Micros, units: u64) -> Micros {
        reset + self.meter.time(units)
    }

    fn debt_of(&self, reset: Micros) -> u64 {
        if QUEUE { 0 } else { self.meter.paid_in(reset) }
    }

    fn wait_of(&self, cost: u64, smaller: &Verdict) -> Option<Micros> {
        Some(self.meter.wait_of(cost, smaller))
    }

    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
        let meter = self.meter.with_capacity(Self::CAPACITY, capacity)?;
        Ok(Self { meter })
    }

    fn is_as_fast(&self, other: &Self) -> bool {
        self.meter.is_as_fast(&other.meter)
    }

    fn divided(&self, parts: u64) -> Self {
        let meter = self.meter.divided(parts);
        Self { meter }
    }
}

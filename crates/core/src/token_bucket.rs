//! `token_bucket`: bursts up to the capacity, and a sustained rate.
//!
//! Admits cost c when debt + c <= C; the debt starts at 0 and is paid off continuously at n per P. Promise: at most
//! C + n·t/P in any span t, without costs that an answer adds. The other writing of this file is `lua/token_bucket.lua`.

use crate::{Algorithm, Debt, Meter, Micros, Mode, Numbers, QuotaError, Rate, Verdict};

/// The quota of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    meter: Meter,
}

impl TokenBucket {
    /// A bucket of `capacity` tokens that refills at `refill`.
    ///
    /// # Errors
    ///
    /// The capacity or the rate is 0, or they are too large together.
    pub fn new(capacity: u64, refill: Rate) -> Result<Self, QuotaError> {
        let meter = Meter::new("capacity", capacity, refill)?;
        Ok(Self { meter })
    }

    /// The numbers that the script takes.
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl Algorithm for TokenBucket {
    type State = Debt;

    const MODES: &'static [Mode] = &[Mode::Exact, Mode::Leased, Mode::Local];
    const IS_PACED: bool = true;
    const IS_GRADUAL: bool = true;

    fn capacity(&self) -> u64 {
        self.meter.capacity()
    }

    fn check(&self, state: &mut Debt, cost: u64, now: Micros) -> Verdict {
        self.meter.check(state, cost, now)
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
        format!("capacity {}, refill {rate}", self.capacity())
    }

    fn reset_with(&self, reset: Micros, units: u64) -> Micros {
        reset + self.meter.time(units)
    }

    fn debt_of(&self, reset: Micros) -> u64 {
        self.meter.paid_in(reset)
    }

    fn wait_of(&self, cost: u64, smaller: &Verdict) -> Option<Micros> {
        Some(self.meter.wait_of(cost, smaller))
    }

    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
        Ok(Self {
            meter: self.meter.with_capacity("capacity", capacity)?,
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

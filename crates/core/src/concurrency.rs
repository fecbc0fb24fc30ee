//! `concurrency`: a bound on the number of requests that run at the same time.
//!
//! Admits cost c when the held units + c <= the limit. Only [holds](crate::KeyHolds) count as used units. The end or lapse of a hold
//! charges no unit. Promise: at any time, at most `limit` units are held. `lua/concurrency.lua` computes the same results.

use crate::numbers::{at_most, window_quota, written_span};
use crate::{Algorithm, Micros, Mode, Numbers, QuotaError, Verdict};

/// The largest limit. This number bounds the holds that Redis stores under one key.
const LARGEST: u64 = 1_000_000;

/// The `retry_after` of a refusal, in us. The value is a guess, because the end of a running request cannot be computed.
const RETRY_AFTER: Micros = 1_000_000;

/// The quota of a concurrency limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    limit: u64,
    lease: Micros,
}

impl Concurrency {
    /// Returns a quota of at most `limit` held units at a time. A hold lapses after `lease` us unless it is renewed.
    ///
    /// # Errors
    ///
    /// The limit or the lease is 0, or either of them is too large.
    pub fn new(limit: u64, lease: Micros) -> Result<Self, QuotaError> {
        window_quota(limit, lease)?;
        at_most(LARGEST, limit)?;
        Ok(Self { limit, lease })
    }
}

impl Algorithm for Concurrency {
    type State = ();

    // `leased` is left out: holds are not lent in slices.
    const MODES: &'static [Mode] = &[Mode::Exact, Mode::Local];

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn check(&self, (): &mut (), cost: u64, _now: Micros) -> Verdict {
        let allowed = cost <= self.limit;
        Verdict {
            allowed,
            remaining: self.limit,
            retry_after: if allowed { 0 } else { RETRY_AFTER },
            ..Verdict::default()
        }
    }

    fn charge(&self, (): &mut (), _cost: u64, _now: Micros) {}

    fn excess(&self, (): &(), _now: Micros) -> u64 {
        0
    }

    fn expires(&self, (): &()) -> Micros {
        0
    }

    fn numbers(&self, _now: Micros) -> Numbers {
        [self.limit].into()
    }

    fn period(&self) -> Micros {
        self.lease
    }

    fn time(&self, _units: u64) -> Option<Micros> {
        Some(RETRY_AFTER)
    }

    fn counts_until(&self, at: Micros) -> Micros {
        at
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
}

//! Tries other quotas of a limit: decides the same requests at several quotas, from small to large.
//!
//! Such a set of quotas is a ladder, and each quota is a step. Each step decides as if the limit were the only limit.

mod steps;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use foldhash::fast::RandomState;
use tidegate_core::{HoldId, Micros, Quota};
use tidegate_store::Limit;
use tidegate_tower::RuleCharge;

use crate::asked::Asked;
use steps::{KeySteps, Steps};

/// The capacities that the first replay tries, in eighths of the configured capacity.
const EIGHTHS: [u64; 8] = [1, 4, 8, 12, 16, 32, 64, 256];

/// The most quotas in a ladder. A set of quotas is a `u64` with one bit for each quota, and `1 << 64` would overflow.
const MAX_STEPS: usize = 63;

/// Fewest requests between two sweeps of expired keys.
const SWEEP: u64 = 1 << 17;

/// One limit at several quotas.
pub(crate) struct Ladder {
    quota: Quota,
    steps: Steps,
    /// The states of each key at all steps, by the number of the key.
    keys: Vec<KeySteps>,
    /// Number of requests that each step refuses.
    refused: Vec<u64>,
    /// The charged keys, each with one bit for each step that refused the key at least once.
    touched: HashMap<u32, u64, RandomState>,
    /// Number of keys that each step refused at least once.
    touches: Vec<u64>,
    requests: u64,
    /// Requests of clients whose plans have other quotas. The steps do not decide these requests.
    others: u64,
    /// The holds: the end of the request, the numbers of the hold and of its key, and one bit for each step that has the hold.
    held: BinaryHeap<Reverse<(Micros, u64, u32, u64)>>,
    next: u64,
    swept: u64,
}

/// A quota that refuses at most the allowed share of requests or keys.
#[derive(Clone, Debug)]
pub(crate) struct Needed {
    pub(crate) quota: Quota,
    /// Number of requests that the quota refuses.
    pub(crate) refused: u64,
    /// Number of keys that the quota refuses at least once.
    pub(crate) touched: u64,
    /// The largest tried quota that refuses more than the allowed share.
    pub(crate) above: Option<Quota>,
}

impl Ladder {
    /// Makes a ladder of quotas around the limit's own quota.
    pub(crate) fn new(limit: &Limit) -> Self {
        let capacity = limit.quota().capacity();
        let around = EIGHTHS.map(|eighths| match eighths {
            8 => capacity,
            _ => rounded(u128::from(capacity) * u128::from(eighths) / 8),
        });
        Self::at(limit, &around)
    }

    /// Makes a ladder of quotas with these capacities.
    pub(crate) fn at(limit: &Limit, capacities: &[u64]) -> Self {
        let quota = *limit.quota();
        let mut capacities = capacities.to_vec();
        capacities.sort_unstable();
        capacities.dedup();
        let steps = capacities.iter().filter(|capacity| **capacity > 0);
        let steps = steps.filter_map(|capacity| match *capacity == quota.capacity() {
            true => Some(quota),
            false => quota.with_capacity(*capacity).ok(),
        });
        let steps: Vec<Quota> = steps.take(MAX_STEPS).collect();
        Self {
            quota,
            refused: vec![0; steps.len()],
            touched: HashMap::default(),
            touches: vec![0; steps.len()],
            steps: Steps::new(steps, limit.block()),
            keys: Vec::new(),
            requests: 0,
            others: 0,
            held: BinaryHeap::new(),
            next: 0,
            swept: 0,
        }
    }

    /// Reads the state of a key early, so that the state is in the processor's cache when the key is charged.
    pub(crate) fn look_ahead(&self, key: usize) {
        let is_calm = matches!(self.keys.get(key), Some(KeySteps::Calm { .. }));
        std::hint::black_box(is_calm);
    }

    /// Charges a request at every step that admits it. `key` is the number of the charged key.
    pub(crate) fn ask(
        &mut self,
        (charge, key): (&RuleCharge<'_>, u32),
        request: &Asked<'_>,
        now: Micros,
    ) {
        if self.refused.is_empty() {
            return;
        }
        self.requests += 1;
        if *charge.limit.quota() != self.quota {
            self.others += 1;
            return;
        }
        if !request.is_known {
            self.touched.entry(key).or_default();
        }
        self.release(now);
        // The log has the real cost of the request, so this cost is charged instead of the reserved units.
        let cost = match charge.limit.reserves() {
            Some(_) => request.used(charge).unwrap_or(charge.cost),
            None => charge.cost,
        };
        if cost == 0 {
            return;
        }
        self.next += 1;
        let id = HoldId(self.next);
        let steps = &self.steps;
        let place = key as usize;
        if place >= self.keys.len() {
            self.keys.resize_with(place + 1, || steps.fresh());
        }
        let admitted = steps.ask(&mut self.keys[place], cost, id, now);
        self.touch(key, admitted);
        if self.quota.lease().is_some() && admitted != 0 {
            let end = now + request.service.unwrap_or(0);
            self.held.push(Reverse((end, self.next, key, admitted)));
        }
        self.sweep(now);
    }

    /// Counts the steps that refused a request, and the steps that refused its key for the first time.
    fn touch(&mut self, key: u32, admitted: u64) {
        let refused = self.steps.all() & !admitted;
        if refused == 0 {
            return;
        }
        for (index, count) in self.refused.iter_mut().enumerate() {
            *count += refused >> index & 1;
        }
        let bits = self.touched.entry(key).or_default();
        let new = refused & !*bits;
        if new != 0 {
            *bits |= new;
            for (index, touches) in self.touches.iter_mut().enumerate() {
                *touches += new >> index & 1;
            }
        }
    }

    /// Ends the holds of requests that have ended.
    fn release(&mut self, now: Micros) {
        while let Some(Reverse((end, number, key, steps))) = self.held.peek().copied() {
            if end > now {
                return;
            }
            self.held.pop();
            let key = &mut self.keys[key as usize];
            self.steps.end(key, steps, HoldId(number));
        }
    }

    /// Frees the memory of expired keys.
    fn sweep(&mut self, now: Micros) {
        if self.requests < self.swept + SWEEP.max(2 * self.keys.len() as u64) {
            return;
        }
        self.swept = self.requests;
        let steps = &self.steps;
        self.keys.iter_mut().for_each(|key| steps.sweep(key, now));
    }

    /// Returns the smallest tried quota for which `fits` is true, or `None`. `fits` takes the numbers of requests and of keys that the
    /// quota refuses.
    pub(crate) fn needed(&self, fits: impl Fn(u64, u64) -> bool) -> Option<Needed> {
        let mut counts = self.refused.iter().zip(&self.touches);
        let at = counts.position(|(refused, touched)| fits(*refused, *touched))?;
        Some(Needed {
            quota: self.steps.quotas()[at],
            refused: self.refused[at],
            touched: self.touches[at],
            above: at.checked_sub(1).map(|before| self.steps.quotas()[before]),
        })
    }

    /// Returns the number of keys with tried requests. Keys of clients whose plans have other quotas are left out.
    pub(crate) fn keys(&self) -> u64 {
        self.touched.len() as u64
    }

    /// Returns the number of requests that the steps decided.
    pub(crate) const fn tried(&self) -> u64 {
        self.requests - self.others
    }

    /// Returns the largest quota tried.
    pub(crate) fn largest(&self) -> Option<Quota> {
        self.steps.quotas().last().copied()
    }
}

/// Rounds up to two significant digits, and to 1 at least.
pub(crate) fn rounded(number: u128) -> u64 {
    let mut unit = 1;
    while number / unit >= 100 {
        unit *= 10;
    }
    u64::try_from(number.div_ceil(unit) * unit)
        .unwrap_or(u64::MAX)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_two_digits() {
        let numbers = [0, 1, 99, 100, 101, 1_249, 99_500, 123_456_789];
        let rounded = numbers.map(rounded);
        assert_eq!(rounded, [1, 1, 99, 100, 110, 1_300, 100_000, 130_000_000]);
    }
}

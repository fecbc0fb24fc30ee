//! What no limit may ever admit, checked on a log of admissions, and nothing of how it is kept.
//!
//! An admission is known by when its request began to ask and when it was answered; it happened between the two. So a
//! log is only found to break a law where it does so however its admissions happened.

use std::collections::BTreeSet;

use tidegate_core::{Micros, Quota};

/// When requests that were admitted asked, and when they had their answers, by one clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admissions {
    asked: Vec<Micros>,
    answered: Vec<Micros>,
}

impl Admissions {
    pub(crate) fn add(&mut self, cost: u64, asked: Micros, answered: Micros) {
        for _ in 0..cost {
            self.asked.push(asked);
            self.answered.push(answered);
        }
    }

    fn join(&mut self, other: Self) {
        self.asked.extend(other.asked);
        self.answered.extend(other.answered);
    }

    pub(crate) fn len(&self) -> u64 {
        self.asked.len() as u64
    }

    /// How much was surely admitted from `start` until before `end`.
    pub(crate) fn within(&self, start: Micros, end: Micros) -> u64 {
        let inside = self.asked.iter().zip(&self.answered);
        inside.filter(|(a, b)| **a >= start && **b < end).count() as u64
    }

    /// By how much the law of this quota was broken at worst; 0: never.
    pub(crate) fn excess(&self, quota: &Quota) -> u64 {
        let (mut asked, mut answered) = (self.asked.clone(), self.answered.clone());
        asked.sort_unstable();
        answered.sort_unstable();
        // At least so many were admitted in a span: those answered before its end, less those asked before its start.
        let span = |start: Micros, end: Micros| {
            let done = answered.partition_point(|at| *at < end) as u64;
            done.saturating_sub(asked.partition_point(|at| *at < start) as u64)
        };
        let (limit, window) = (quota.capacity(), quota.period());
        match quota {
            Quota::TokenBucket(bucket) => {
                let [_, weight, pay, _] = bucket.meter().numbers();
                let refilled = |at: Micros| at as i128 * pay as i128;
                let mut least = i128::MAX;
                let mut worst = 0;
                // i admissions were asked before the i-th one was, and j + 1 answered when the j-th one was.
                for (j, (start, end)) in asked.iter().zip(&answered).enumerate() {
                    least = least.min(j as i128 * weight as i128 - refilled(*start));
                    let most = (j + 1) as i128 * weight as i128 - refilled(*end);
                    worst = worst.max(most - least);
                }
                let most = limit as i128 * weight as i128;
                ((worst - most).max(0) as u64).div_ceil(weight)
            }
            Quota::FixedWindow(_) => {
                let starts: BTreeSet<_> = asked.iter().map(|at| at - at % window).collect();
                let worst = starts
                    .into_iter()
                    .map(|start| self.within(start, start + window))
                    .max();
                worst.unwrap_or(0).saturating_sub(limit)
            }
            Quota::SlidingWindowLog(_) => {
                let counts = asked.iter().map(|at| span(*at, at + window));
                counts.max().unwrap_or(0).saturating_sub(limit)
            }
            Quota::SlidingWindowCounter(_) => {
                let estimate = |at: &Micros| {
                    let start = at - at % window;
                    let previous = span(start - window, start);
                    let current = span(start, at + 1);
                    current + previous * (start + window - at) / window
                };
                let worst = answered.iter().map(estimate).max();
                worst.unwrap_or(0).saturating_sub(limit)
            }
            other => unreachable!("{other:?} is not lent"),
        }
    }
}

/// Adds the logs of some keys to those of the same keys.
pub(crate) fn join(logs: &mut [Admissions], more: Vec<Admissions>) {
    for (log, more) in logs.iter_mut().zip(more) {
        log.join(more);
    }
}

#[test]
fn broken_laws_are_found() {
    let second = 1_000_000;
    let quotas = crate::support::every_algorithm(10, second);
    for quota in quotas.iter().filter(|quota| {
        !["leaky_bucket", "calendar_window", "concurrency"].contains(&quota.algorithm())
    }) {
        let mut log = Admissions::default();
        for nth in 0..10 {
            log.add(1, 5 * second + nth, 5 * second + nth + 5);
        }
        assert_eq!((log.len(), log.excess(quota)), (10, 0), "{quota:?}");
        let mut more = log.clone();
        more.add(1, 6 * second + 10, 6 * second + 11);
        assert_eq!(more.excess(quota), 0, "{quota:?}");
        log.add(3, 5 * second + 20, 5 * second + 25);
        assert_eq!(log.excess(quota), 3, "{quota:?}");
    }
}

//! Requests of which only the second is known, in the order of two runs: spread evenly over each second, and all at its start.
//!
//! Where the line has the end and a duration, the end is what is spread: the request arrived so long before.

use std::collections::BTreeMap;

use tidegate_core::Micros;
use tidegate_logs::{Entry, Stamp};

use crate::asked::Asked;
use crate::lane::Lane;

const SECOND: Micros = 1_000_000;

/// Times of at most this resolution are taken as they are, in us.
pub(crate) const EXACT: Micros = 10_000;

/// The requests of one second, until the next one begins.
#[derive(Default)]
pub(crate) struct Seconds<'p> {
    second: Micros,
    pending: Vec<(Asked<'p>, Micros, Known)>,
    /// Those that arrive in a later second if they are spread, by their time and their order.
    later: BTreeMap<(Micros, u64), Asked<'p>>,
    /// How many requests have ended in a second.
    ended: BTreeMap<Micros, u32>,
    count: u64,
}

/// What is known of a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Exact,
    /// The second.
    Second,
    /// The second of the end. This is the time if ends are spread.
    End(Micros),
}

impl<'p> Seconds<'p> {
    /// A request arrives: those of the seconds before it are handed on.
    pub(crate) fn turn(&mut self, arrival: Micros, lanes: &mut [Lane<'p>]) {
        if arrival / SECOND != self.second {
            let start = arrival - arrival % SECOND;
            self.flush(start, lanes);
            self.second = arrival / SECOND;
            // What arrives from now on ends later.
            self.ended = self.ended.split_off(&self.second);
        }
    }

    /// Keeps what the request of this line asks.
    pub(crate) fn push(&mut self, asked: Asked<'p>, entry: &Entry<'_>) {
        let arrival = entry.arrival();
        let known = match entry.stamp() {
            _ if entry.resolution() <= EXACT => Known::Exact,
            Stamp::Shifted => {
                let end = entry.ended().unwrap_or(arrival) / SECOND;
                let nth = self.ended.entry(end).or_default();
                let part = u64::from(nth.reverse_bits());
                *nth = nth.wrapping_add(1);
                // 0, 1/2, 1/4, 3/4, 1/8 …: even, however many there are.
                Known::End(arrival + ((part * SECOND) >> u32::BITS))
            }
            Stamp::Arrival | Stamp::End => Known::Second,
        };
        self.pending.push((asked, arrival, known));
    }

    /// Hands everything on that arrives before this time.
    pub(crate) fn flush(&mut self, until: Micros, lanes: &mut [Lane<'p>]) {
        let [even, at_once] = lanes else {
            return;
        };
        let coarse = self.pending.iter().filter(|it| it.2 == Known::Second);
        let count = coarse.count() as u64;
        // Those of the seconds before come first.
        let after = self.later.split_off(&(until, 0));
        let before = std::mem::replace(&mut self.later, after);
        let before: Vec<_> = before.into_iter().collect();
        let mut order: Vec<(Micros, &Asked<'p>)> = Vec::with_capacity(self.pending.len());
        order.extend(before.iter().map(|((at, _), asked)| (*at, asked)));
        let mut nth = 0;
        for (asked, at, known) in &self.pending {
            let spread = match known {
                Known::Exact => *at,
                Known::End(spread) => *spread,
                Known::Second => {
                    nth += 1;
                    at - at % SECOND + (nth - 1) * SECOND / count
                }
            };
            if spread < until {
                order.push((spread, asked));
            } else {
                self.count += 1;
                self.later.insert((spread, self.count), asked.clone());
            }
        }
        order.sort_by_key(|(at, _)| *at);
        for (at, asked) in order {
            even.arrive(asked.clone(), at);
        }
        for (_, at, known) in &mut self.pending {
            if *known == Known::Second {
                *at -= *at % SECOND;
            }
        }
        self.pending.sort_by_key(|(_, at, _)| *at);
        for (asked, at, _) in self.pending.drain(..) {
            at_once.arrive(asked, at);
        }
    }
}

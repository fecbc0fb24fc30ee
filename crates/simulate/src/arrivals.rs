//! Passes requests of the log on to the runs, in the order of their times.
//!
//! If the times of the log are whole seconds, the replay has two runs. The first run spreads the requests evenly over each second. The
//! other run places all requests of a second at the start of that second. If a line has the end and the duration of its request, the first
//! run spreads the ends evenly, and computes each arrival as the end minus the duration.

use std::collections::BTreeMap;

use tidegate_core::Micros;
use tidegate_logs::{Entry, Stamp};

use crate::asked::Asked;
use crate::lane::{AHEAD, Lane};

const SECOND: Micros = 1_000_000;

/// The coarsest resolution of times that are used unchanged, in us. Coarser times are treated as whole seconds.
pub(crate) const EXACT: Micros = 10_000;

/// Most requests of one second that wait in memory to be spread over that second.
pub(crate) const MAX_PENDING: usize = 1 << 17;
/// Most bytes of the IDs of all waiting requests.
const MAX_BYTES: usize = 64 << 20;

/// The requests that wait to be passed on to the runs: all requests of the current second, or at most `AHEAD` if all times are exact.
#[derive(Default)]
pub(crate) struct Arrivals<'p> {
    second: Micros,
    /// Offset in the current second, in us. Requests before this offset are already passed on.
    begun: Micros,
    /// The total length of the IDs of waiting requests, in bytes.
    bytes: usize,
    /// Number of requests in seconds with more requests than `MAX_PENDING`, or with more bytes of IDs than `MAX_BYTES`. Such a second is
    /// spread in several parts.
    pub(crate) crowded: u64,
    pending: Vec<(Asked<'p>, Micros, Known)>,
    /// Requests that spreading moves to a later second, by their new time and their order in the log.
    later: BTreeMap<(Micros, u64), Asked<'p>>,
    /// Number of requests that ended in each second.
    ended: BTreeMap<Micros, u32>,
    count: u64,
}

/// The precision of a request's time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Exact,
    /// The time is in whole seconds.
    Second,
    /// The end is in whole seconds. The value is the time of arrival that follows from the evenly spread end.
    End(Micros),
}

impl<'p> Arrivals<'p> {
    /// Makes room for a request: passes waiting requests on to the runs if there are enough of them, or if their second is over.
    pub(crate) fn turn(&mut self, arrival: Micros, lanes: &mut [Lane<'p>]) {
        if lanes.len() == 1 {
            if self.pending.len() >= AHEAD {
                self.flush(arrival, lanes);
            }
        } else if arrival / SECOND != self.second {
            let start = arrival - arrival % SECOND;
            self.flush(start, lanes);
            (self.second, self.begun) = (arrival / SECOND, 0);
            // No later request of the log ends before this second, so the counts of earlier seconds are not needed.
            self.ended = self.ended.split_off(&self.second);
        } else if self.pending.len() + self.later.len() >= MAX_PENDING || self.bytes >= MAX_BYTES {
            // Spreads the waiting requests over half of the remaining time of the second. Requests that follow in this second get the other
            // half.
            let half = (SECOND - self.begun) / 2;
            self.hand_over(Micros::MAX, half, lanes);
            self.begun += half;
        }
    }

    /// Keeps the request of a log line until the request is passed on to the runs.
    pub(crate) fn push(&mut self, request: Asked<'p>, entry: &Entry<'_>) {
        let arrival = entry.arrival();
        let precision = match entry.stamp() {
            _ if entry.resolution() <= EXACT => Known::Exact,
            Stamp::Shifted => {
                let end = entry.ended().unwrap_or(arrival) / SECOND;
                let nth = self.ended.entry(end).or_default();
                let part = u64::from(nth.reverse_bits());
                *nth = nth.wrapping_add(1);
                // The offsets are 0, 1/2, 1/4, 3/4, 1/8 … of a second. They are evenly spread for any number of requests.
                Known::End(arrival + ((part * SECOND) >> u32::BITS))
            }
            Stamp::Arrival | Stamp::End => Known::Second,
        };
        self.bytes += id_bytes(&request);
        self.pending.push((request, arrival, precision));
    }

    /// Passes all waiting requests on to the runs. The run that spreads requests gets only requests whose spread time is before `until`.
    pub(crate) fn flush(&mut self, until: Micros, lanes: &mut [Lane<'p>]) {
        self.hand_over(until, SECOND - self.begun, lanes);
    }

    /// Works like `flush`, but spreads the requests over only `width` us of the current second.
    fn hand_over(&mut self, until: Micros, width: Micros, lanes: &mut [Lane<'p>]) {
        if width < SECOND {
            self.crowded += self.pending.len() as u64;
        }
        match lanes {
            [exact] => self.hand_on(exact),
            [even, at_once] => {
                self.spread(until, width, even);
                for (_, at, precision) in &mut self.pending {
                    if *precision == Known::Second {
                        *at -= *at % SECOND;
                    }
                }
                self.pending.sort_by_key(|(_, at, _)| *at);
                self.hand_on(at_once);
            }
            _ => {}
        }
    }

    fn hand_on(&mut self, lane: &mut Lane<'p>) {
        lane.arrive_all(self.pending.iter().map(|(request, at, _)| (request, *at)));
        self.pending.clear();
        self.bytes = self.later.values().map(id_bytes).sum();
    }

    fn spread(&mut self, until: Micros, width: Micros, even: &mut Lane<'p>) {
        let coarse = self.pending.iter().filter(|it| it.2 == Known::Second);
        let count = coarse.count() as u64;
        // Requests that were moved here from earlier seconds come first in the order.
        let after = self.later.split_off(&(until, 0));
        let before = std::mem::replace(&mut self.later, after);
        let mut order: Vec<(&Asked<'p>, Micros)> = Vec::with_capacity(self.pending.len());
        order.extend(before.iter().map(|((at, _), request)| (request, *at)));
        let mut nth = 0;
        for (request, at, precision) in &self.pending {
            let spread = match precision {
                Known::Exact => *at,
                Known::End(spread) => *spread,
                Known::Second => {
                    nth += 1;
                    at - at % SECOND + self.begun + (nth - 1) * width / count
                }
            };
            if spread < until {
                order.push((request, spread));
            } else {
                self.count += 1;
                self.later.insert((spread, self.count), request.clone());
            }
        }
        order.sort_by_key(|(_, at)| *at);
        even.arrive_all(order.into_iter());
    }
}

/// Returns the length of a request's ID in bytes.
fn id_bytes(request: &Asked<'_>) -> usize {
    request.id.as_ref().map_or(0, |id| id.len())
}

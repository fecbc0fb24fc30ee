//! Passes requests of the log on to the runs, in the order of their times.
//!
//! If the log has whole seconds, there are two runs. The first spreads the requests evenly over each second. The second has all requests of
//! a second at its start. If a line has an end and a duration, the first run spreads the ends evenly in place of the arrivals, and
//! subtracts the duration of each request from its end.

use std::collections::BTreeMap;

use tidegate_core::Micros;
use tidegate_logs::{Entry, Stamp};

use crate::asked::Asked;
use crate::lane::{AHEAD, Lane};

const SECOND: Micros = 1_000_000;

/// Coarsest resolution of times that are taken as they are, in us.
pub(crate) const EXACT: Micros = 10_000;

/// Most requests of one second that are kept, so that they can be spread over the second.
pub(crate) const MAX_PENDING: usize = 1 << 17;
/// Most bytes of the IDs of the kept requests.
const MAX_BYTES: usize = 64 << 20;

/// The requests that are not passed on yet: all of the current second, or a few with exact times.
#[derive(Default)]
pub(crate) struct Arrivals<'p> {
    second: Micros,
    /// Offset in the current second up to which requests are spread already, in us.
    begun: Micros,
    /// The bytes of the IDs of kept requests.
    bytes: usize,
    /// Number of requests in seconds that have too many requests to keep all.
    pub(crate) crowded: u64,
    pending: Vec<(Asked<'p>, Micros, Known)>,
    /// Requests that spreading moves to a later second, by their time and their order.
    later: BTreeMap<(Micros, u64), Asked<'p>>,
    /// Number of requests that ended in each second.
    ended: BTreeMap<Micros, u32>,
    count: u64,
}

/// The precision of a request's time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Exact,
    /// The time to the second, without a fraction.
    Second,
    /// The end to the second. The value is the time of arrival if ends are spread evenly.
    End(Micros),
}

impl<'p> Arrivals<'p> {
    /// Makes room for a request. Passes earlier requests on if there are enough of them, or if their second is over.
    pub(crate) fn turn(&mut self, arrival: Micros, lanes: &mut [Lane<'p>]) {
        if lanes.len() == 1 {
            if self.pending.len() >= AHEAD {
                self.flush(arrival, lanes);
            }
        } else if arrival / SECOND != self.second {
            let start = arrival - arrival % SECOND;
            self.flush(start, lanes);
            (self.second, self.begun) = (arrival / SECOND, 0);
            // No later request of the log ends before this second, so earlier counts are not needed.
            self.ended = self.ended.split_off(&self.second);
        } else if self.pending.len() + self.later.len() >= MAX_PENDING || self.bytes >= MAX_BYTES {
            // Spreads the kept requests over half of the rest of the second. Later requests of this second get the other half.
            let half = (SECOND - self.begun) / 2;
            self.hand_over(Micros::MAX, half, lanes);
            self.begun += half;
        }
    }

    /// Keeps the request of this line until it is passed on.
    pub(crate) fn push(&mut self, request: Asked<'p>, entry: &Entry<'_>) {
        let arrival = entry.arrival();
        let precision = match entry.stamp() {
            _ if entry.resolution() <= EXACT => Known::Exact,
            Stamp::Shifted => {
                let end = entry.ended().unwrap_or(arrival) / SECOND;
                let nth = self.ended.entry(end).or_default();
                let part = u64::from(nth.reverse_bits());
                *nth = nth.wrapping_add(1);
                // The places in the second are 0, 1/2, 1/4, 3/4, 1/8 …: evenly spread for any number of requests.
                Known::End(arrival + ((part * SECOND) >> u32::BITS))
            }
            Stamp::Arrival | Stamp::End => Known::Second,
        };
        self.bytes += id_bytes(&request);
        self.pending.push((request, arrival, precision));
    }

    /// Passes all requests on. The run that spreads requests gets only those with times before `until`.
    pub(crate) fn flush(&mut self, until: Micros, lanes: &mut [Lane<'p>]) {
        self.hand_over(until, SECOND - self.begun, lanes);
    }

    /// Passes requests on like `flush`, and spreads them over `width` of the second.
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
        // Requests that were moved from earlier seconds come first.
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

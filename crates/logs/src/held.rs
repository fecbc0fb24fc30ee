//! Puts requests in the order of arrival: logs have them in the order in which they ended.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::record::Record;

/// The most requests that are held.
const MAX_HELD: usize = 1 << 16;
/// The most bytes of their lines.
const MAX_BYTES: usize = 64 << 20;
/// What a place keeps for further lines.
const KEPT: usize = 4_096;

/// Requests that wait for earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Arrival, order in the log, place.
    order: BinaryHeap<Reverse<(u64, u64, u32)>>,
    places: Vec<Place>,
    free: Vec<u32>,
    bytes: usize,
    count: u64,
}

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) record: Record,
    pub(crate) line: Vec<u8>,
    /// The number of its log.
    pub(crate) log: usize,
}

impl Held {
    /// Holds a request of this line.
    pub(crate) fn push(&mut self, log: usize, line: &[u8], record: &Record) {
        let at = match self.free.pop() {
            Some(at) => {
                let place = &mut self.places[at as usize];
                place.record = *record;
                place.line.extend_from_slice(line);
                place.log = log;
                at
            }
            None => {
                self.places.push(Place {
                    record: *record,
                    line: line.to_vec(),
                    log,
                });
                (self.places.len() - 1) as u32
            }
        };
        self.bytes += line.len();
        self.count += 1;
        self.order.push(Reverse((record.arrival, self.count, at)));
    }

    /// Whether there is a request that arrived before this time, or no room for more.
    pub(crate) fn is_due(&self, before: u64) -> bool {
        let first = self.order.peek().map(|first| first.0.0);
        first.is_some_and(|first| {
            first < before || self.order.len() >= MAX_HELD || self.bytes >= MAX_BYTES
        })
    }

    /// The first request, if it arrived before this time, or if there is no room for more.
    pub(crate) fn pop(&mut self, before: u64) -> Option<u32> {
        if !self.is_due(before) {
            return None;
        }
        self.order.pop().map(|first| first.0.2)
    }

    pub(crate) fn place(&self, at: u32) -> &Place {
        &self.places[at as usize]
    }

    /// The request is done with.
    pub(crate) fn free(&mut self, at: u32) {
        let line = &mut self.places[at as usize].line;
        self.bytes -= line.len();
        line.clear();
        line.shrink_to(KEPT);
        self.free.push(at);
    }
}

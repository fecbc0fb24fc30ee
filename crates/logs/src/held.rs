//! Puts requests in the order of arrival. Logs list requests in the order in which they ended.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::record::Record;

/// The most requests that are held.
const MAX_HELD: usize = 1 << 16;
/// The most bytes of all lines that are held.
const MAX_BYTES: usize = 64 << 20;
/// The most bytes of memory that a free place keeps for its next line.
const KEPT: usize = 4_096;

/// Requests that are held back, because earlier requests may still follow in a log.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Requests in the order of arrival. No request in this queue arrived earlier than the request before it. In most logs, nearly all
    /// requests join this queue.
    ordered: VecDeque<Order>,
    /// Requests that arrived earlier than the last request in `ordered`.
    late: BinaryHeap<Reverse<Order>>,
    places: Vec<Place>,
    free: Vec<u32>,
    bytes: usize,
    count: u64,
}

/// The time of arrival, the number in the order of reading, and the index in `places`.
type Order = (u64, u64, u32);

#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) record: Record,
    pub(crate) line: Vec<u8>,
    /// The number of the log that has the line.
    pub(crate) log: usize,
}

impl Held {
    /// Holds the request in this line.
    pub(crate) fn push(&mut self, log: usize, line: &[u8], record: &Record) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[at as usize];
        (place.record, place.log) = (*record, log);
        place.line.extend_from_slice(line);
        self.bytes += line.len();
        self.count += 1;
        let order = (record.arrival, self.count, at);
        match self.ordered.back() {
            Some(last) if *last > order => self.late.push(Reverse(order)),
            _ => self.ordered.push_back(order),
        }
    }

    /// Whether the earliest request arrived before this time, or there is no room for more.
    pub(crate) fn is_due(&self, before: u64) -> bool {
        let count = self.ordered.len() + self.late.len();
        self.first().is_some_and(|(first, ..)| {
            first < before || count >= MAX_HELD || self.bytes >= MAX_BYTES
        })
    }

    fn first(&self) -> Option<Order> {
        let late = self.late.peek().map(|late| late.0);
        match (self.ordered.front().copied(), late) {
            (Some(ordered), Some(late)) => Some(ordered.min(late)),
            (ordered, late) => ordered.or(late),
        }
    }

    /// Takes the earliest request, if it arrived before this time, or if there is no room for more.
    pub(crate) fn pop(&mut self, before: u64) -> Option<u32> {
        if !self.is_due(before) {
            return None;
        }
        let first = self.first()?;
        match self.ordered.front() == Some(&first) {
            true => self.ordered.pop_front(),
            false => self.late.pop().map(|late| late.0),
        };
        Some(first.2)
    }

    pub(crate) fn place(&self, at: u32) -> &Place {
        &self.places[at as usize]
    }

    /// Frees the place of a request.
    pub(crate) fn free(&mut self, at: u32) {
        let line = &mut self.places[at as usize].line;
        self.bytes -= line.len();
        line.clear();
        line.shrink_to(KEPT);
        self.free.push(at);
    }
}

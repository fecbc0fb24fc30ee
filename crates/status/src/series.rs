//! Counters over time: their increase in each of the last seconds and minutes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::ring::push;

/// The most seconds in a series.
const SECONDS: usize = 300;
/// The most minutes in a series.
const MINUTES: usize = 240;

/// The increases of `K` counters over time.
#[derive(Clone, Debug)]
pub struct Series<const K: usize> {
    last: [u64; K],
    seconds: VecDeque<[u32; K]>,
    minutes: VecDeque<[u32; K]>,
    // The increase in the running minute.
    minute: [u32; K],
    ticks: u8,
}

impl<const K: usize> Series<K> {
    /// Returns an empty series. The first sample adds the increase from `counts` to the counts of the sample.
    pub const fn new(counts: [u64; K]) -> Self {
        Self {
            last: counts,
            seconds: VecDeque::new(),
            minutes: VecDeque::new(),
            minute: [0; K],
            ticks: 0,
        }
    }

    /// Adds the counts at the end of a second.
    pub fn sample(&mut self, counts: [u64; K]) {
        let mut added = [0; K];
        for (at, count) in counts.iter().enumerate() {
            // A counter that has decreased adds 0, not its new value.
            let more = count.saturating_sub(self.last[at]);
            added[at] = u32::try_from(more).unwrap_or(u32::MAX);
            self.minute[at] = self.minute[at].saturating_add(added[at]);
        }
        self.last = counts;
        push(&mut self.seconds, added, SECONDS);
        self.ticks += 1;
        if self.ticks == 60 {
            let minute = std::mem::replace(&mut self.minute, [0; K]);
            push(&mut self.minutes, minute, MINUTES);
            self.ticks = 0;
        }
    }

    /// Returns the increase of one counter in each second, the latest last.
    pub fn seconds(&self, counter: usize) -> Vec<u32> {
        self.seconds.iter().map(|added| added[counter]).collect()
    }

    /// Returns the increase of one counter in each complete minute, the latest last.
    pub fn minutes(&self, counter: usize) -> Vec<u32> {
        self.minutes.iter().map(|added| added[counter]).collect()
    }

    /// Returns the increase of one counter in the last `seconds` seconds.
    pub fn lately(&self, counter: usize, seconds: usize) -> u64 {
        let last = self.seconds.iter().rev().take(seconds);
        last.map(|added| u64::from(added[counter])).sum()
    }
}

/// A series for each name.
#[derive(Clone, Debug, Default)]
pub struct Tracks<const K: usize>(HashMap<Arc<str>, Series<K>>);

impl<const K: usize> Tracks<K> {
    /// Adds the counts of all names at the end of a second. Drops names that are not in `counts`.
    pub fn sample(&mut self, counts: impl IntoIterator<Item = (Arc<str>, [u64; K])>) {
        let mut before = std::mem::take(&mut self.0);
        for (name, counts) in counts {
            let mut series = before.remove(&name).unwrap_or(Series::new(counts));
            series.sample(counts);
            self.0.insert(name, series);
        }
    }

    /// Returns the series of this name.
    pub fn get(&self, name: &str) -> Option<&Series<K>> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_minutes_hold_what_was_added() {
        let mut series = Series::new([100, 7]);
        for second in 1..=3_600 {
            series.sample([100 + second, 7]);
        }
        assert_eq!(series.seconds(0), [1; SECONDS]);
        assert_eq!(series.seconds(1), [0; SECONDS]);
        assert_eq!(series.minutes(0), [60; 60]);
        assert_eq!(series.lately(0, 10), 10);
    }

    #[test]
    fn a_counter_that_goes_back_or_appears_adds_nothing() {
        let mut series = Series::new([100, 7]);
        for (counts, added) in [([5, 7], 0), ([6, 9], 1), ([100, 9], 94), ([0, 9], 0)] {
            series.sample(counts);
            assert_eq!(series.seconds(0).last(), Some(&added), "{counts:?}");
        }
        assert_eq!(series.seconds(1), [0, 2, 0, 0]);
        let mut tracks = Tracks::default();
        for (second, names) in [&["a", "b"][..], &["a"], &["a", "b"]].iter().enumerate() {
            let count = 1_000 * (second as u64 + 1);
            tracks.sample(names.iter().map(|name| ((*name).into(), [count])));
        }
        assert_eq!(tracks.get("a").unwrap().seconds(0), [0, 1_000, 1_000]);
        assert_eq!(tracks.get("b").unwrap().seconds(0), [0], "it came back");
    }

    #[test]
    fn nothing_grows_without_end() {
        let mut tracks = Tracks::default();
        for second in 0..20_000_u64 {
            tracks.sample([((second / 1_000).to_string().into(), [second])]);
        }
        assert_eq!(tracks.0.len(), 1, "names that are gone are dropped");
        let mut series = Series::new([0]);
        for _ in 0..60 * (MINUTES as u64 + 9) {
            series.sample([u64::MAX]);
        }
        assert_eq!(series.seconds(0).len(), SECONDS);
        assert_eq!(series.minutes(0).len(), MINUTES);
    }
}

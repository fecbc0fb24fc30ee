//! The keys whose exchange is due, and the turns at which they are exchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::entry::Due;
use crate::charge::LimitKey;

/// The keys of a row whose exchange is due. A key may be listed twice, or no longer be due. The entry of the key decides whether it is due.
#[derive(Debug, Default)]
pub(super) struct DueKeys {
    now: Vec<LimitKey>,
    retry: Vec<LimitKey>,
    // By interval. A file has few intervals.
    turns: Vec<(Duration, Vec<LimitKey>)>,
}

/// The next turn of each interval.
#[derive(Debug, Default)]
pub(super) struct Turns(BTreeMap<Duration, Instant>);

impl DueKeys {
    /// Adds the list of an interval, so that the interval has turns before its first key is due at one.
    pub(super) fn begin(&mut self, every: Duration) {
        self.of(Due::Turn, every);
    }

    /// Removes and returns the keys that are due at this time; for [`Due::Turn`], at a turn of the interval `every`. Adds no list.
    pub(super) fn take(&mut self, due: Due, every: Duration) -> impl Iterator<Item = LimitKey> {
        let turns = &mut self.turns;
        let keys = match due {
            Due::Now => Some(&mut self.now),
            Due::Retry => Some(&mut self.retry),
            Due::Turn => turns
                .iter_mut()
                .find(|it| it.0 == every)
                .map(|it| &mut it.1),
        };
        keys.into_iter().flat_map(|keys| keys.drain(..))
    }

    /// Returns the list of keys that are due at this time; for [`Due::Turn`], at a turn of the interval `every`.
    pub(super) fn of(&mut self, due: Due, every: Duration) -> &mut Vec<LimitKey> {
        let place = match due {
            Due::Now => return &mut self.now,
            Due::Retry => return &mut self.retry,
            Due::Turn => self.turns.iter().position(|(it, _)| *it == every),
        };
        let place = place.unwrap_or_else(|| {
            self.turns.push((every, Vec::new()));
            self.turns.len() - 1
        });
        &mut self.turns[place].1
    }

    /// Returns the intervals of the lists.
    pub(super) fn intervals(&self) -> impl Iterator<Item = Duration> {
        self.turns.iter().map(|(every, _)| *every)
    }

    /// Drops the lists of other intervals, if they are empty.
    pub(super) fn retain(&mut self, is_used: impl Fn(Duration) -> bool) {
        self.turns
            .retain(|(every, keys)| !keys.is_empty() || is_used(*every));
    }
}

impl Turns {
    /// Takes turns of these intervals only. The next turn of an interval that is not new stays.
    pub(super) fn keep(&mut self, intervals: &BTreeSet<Duration>) {
        self.0.retain(|every, _| intervals.contains(every));
        let now = Instant::now();
        for every in intervals {
            self.0.entry(*every).or_insert(now + *every);
        }
    }

    /// Waits for the next turn, and returns its interval. Waits without end if there is no interval.
    pub(super) async fn next(&mut self) -> Duration {
        let next = self.0.iter_mut().min_by_key(|(_, at)| **at);
        let Some((every, at)) = next else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(*at).await;
        *at = Instant::now() + *every;
        *every
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    #[test]
    fn an_interval_without_keys_is_dropped() {
        let [often, seldom] = [10, 100].map(Duration::from_millis);
        let key = LimitKey {
            limit: 1,
            key: Key {
                tag: [1; 16],
                rest: [0; 16],
            },
        };
        let mut keys = DueKeys::default();
        keys.begin(often);
        keys.of(Due::Turn, seldom).push(key);
        assert_eq!(keys.intervals().count(), 2);
        // A turn of another row's interval adds no list.
        assert_eq!(keys.take(Due::Turn, Duration::from_secs(1)).count(), 0);
        assert_eq!(keys.intervals().count(), 2);
        keys.retain(|_| false);
        assert_eq!(keys.intervals().collect::<Vec<_>>(), [seldom]);
        assert_eq!(keys.take(Due::Turn, seldom).collect::<Vec<_>>(), [key]);
        keys.retain(|_| false);
        assert_eq!(keys.intervals().count(), 0);
    }
}

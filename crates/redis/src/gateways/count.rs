//! Chooses the count in force from the counts that Redis returns.
//!
//! A Redis that lost its data has no heartbeats, and a replica with old data has too few. Their counts are too low until each gateway has
//! sent a heartbeat, and a low count makes each gateway's share too large. So a higher count applies at once. A lower count applies only
//! after Redis had time to receive a heartbeat from each gateway.

use std::time::{Duration, Instant};

use super::{HEARTBEAT, LAPSE};

/// The time for which Redis must return lower counts before a lower count applies. Every running gateway sends a heartbeat in this time,
/// even after the longest allowed silence.
const ROUND: Duration = HEARTBEAT.saturating_add(LAPSE);

/// The count in force, and the answers that may lower it.
#[derive(Debug)]
pub(super) struct Count {
    /// The number of gateways that decisions use, at least 1.
    pub(super) in_force: u64,
    /// Whether any heartbeat had an answer.
    pub(super) is_known: bool,
    // Whether a heartbeat had no answer before the first answer.
    is_missed: bool,
    lower: Option<Lower>,
}

/// Consecutive answers that were all below the count in force.
#[derive(Clone, Copy, Debug)]
struct Lower {
    since: Instant,
    // The highest count among these answers.
    most: u64,
}

impl Default for Count {
    /// Returns a count of 1: before the first answer this gateway counts as the only one.
    fn default() -> Self {
        Self {
            in_force: 1,
            is_known: false,
            is_missed: false,
            lower: None,
        }
    }
}

impl Count {
    /// Whether a heartbeat failed, and no heartbeat has had an answer yet.
    pub(super) const fn is_missed(&self) -> bool {
        self.is_missed && !self.is_known
    }

    /// Records the count of an answer that came at `at`. `is_continued` is true if no heartbeat is missing since the previous answer
    /// (`Beat::continues`).
    pub(super) fn answered(&mut self, count: u64, is_continued: bool, at: Instant) {
        let most = count.max(1);
        self.is_known = true;
        if most >= self.in_force {
            self.in_force = most;
            self.lower = None;
            return;
        }
        let lower = match self.lower {
            Some(lower) if is_continued => Lower {
                most: most.max(lower.most),
                ..lower
            },
            _ => Lower { since: at, most },
        };
        self.lower = Some(lower);
        if at.saturating_duration_since(lower.since) >= ROUND {
            self.in_force = lower.most;
            // A count that is even lower must wait for another `ROUND`.
            self.lower = None;
        }
    }

    /// Records that a heartbeat had no answer. Redis may have received the heartbeat.
    pub(super) const fn unanswered(&mut self) {
        self.is_missed |= !self.is_known;
        self.lower = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gateway that sends a heartbeat every two seconds. A test chooses the answers of Redis.
    struct Gateway {
        count: Count,
        start: Instant,
        seconds: u64,
        // Whether Redis has lost its data since the last heartbeat.
        is_lost: bool,
    }

    impl Gateway {
        fn new() -> Self {
            Self {
                count: Count::default(),
                start: Instant::now(),
                seconds: 0,
                is_lost: false,
            }
        }

        /// Advances two seconds, and receives `count` from Redis. Returns the count in force.
        fn hears(&mut self, count: u64) -> u64 {
            self.seconds += HEARTBEAT.as_secs();
            let is_continued = !std::mem::take(&mut self.is_lost);
            let at = self.start + Duration::from_secs(self.seconds);
            self.count.answered(count, is_continued, at);
            self.count.in_force
        }

        /// Advances two seconds without an answer. Returns the count in force.
        fn misses(&mut self) -> u64 {
            self.seconds += HEARTBEAT.as_secs();
            self.count.unanswered();
            self.count.in_force
        }
    }

    #[test]
    fn a_higher_count_applies_at_once_and_a_lower_one_after_a_round() {
        let mut gateway = Gateway::new();
        assert_eq!([1, 3, 4].map(|count| gateway.hears(count)), [1, 3, 4]);
        // The first of these answers begins the round, which ends 9 s later.
        assert_eq!([2; 5].map(|count| gateway.hears(count)), [4; 5]);
        assert_eq!(gateway.hears(2), 2);
        assert_eq!(gateway.hears(7), 7);
    }

    #[test]
    fn the_highest_count_of_the_round_is_the_one_that_applies() {
        let mut gateway = Gateway::new();
        assert_eq!(gateway.hears(8), 8);
        let answers = [1, 2, 5, 4, 3].map(|count| gateway.hears(count));
        assert_eq!((answers, gateway.hears(3)), ([8; 5], 5));
    }

    #[test]
    fn one_answer_that_is_as_high_as_before_begins_the_round_anew() {
        let mut gateway = Gateway::new();
        assert_eq!(gateway.hears(4), 4);
        for _ in 0..10 {
            assert_eq!([1, 2, 3, 4].map(|count| gateway.hears(count)), [4; 4]);
        }
    }

    #[test]
    fn an_answer_that_did_not_come_begins_the_round_anew() {
        let mut gateway = Gateway::new();
        assert_eq!(gateway.hears(4), 4);
        for _ in 0..10 {
            assert_eq!([3; 5].map(|count| gateway.hears(count)), [4; 5]);
            assert_eq!(gateway.misses(), 4);
        }
        assert_eq!([3; 5].map(|count| gateway.hears(count)), [4; 5]);
        assert_eq!(gateway.hears(3), 3);
    }

    /// Redis may lose its data between two heartbeats, so no call fails. The gateway detects the loss because Redis lacks its previous
    /// heartbeat.
    #[test]
    fn a_redis_that_has_lost_its_data_or_is_behind_begins_the_round_anew() {
        let mut gateway = Gateway::new();
        assert_eq!([4, 4].map(|count| gateway.hears(count)), [4; 2]);
        for _ in 0..10 {
            gateway.is_lost = true;
            assert_eq!([1; 5].map(|count| gateway.hears(count)), [4; 5]);
        }
        assert_eq!(gateway.hears(1), 1);
    }

    #[test]
    fn it_is_missed_until_it_is_known() {
        let mut gateway = Gateway::new();
        assert!(!gateway.count.is_missed());
        assert_eq!((gateway.misses(), gateway.count.is_missed()), (1, true));
        assert_eq!((gateway.hears(3), gateway.count.is_missed()), (3, false));
        assert_eq!((gateway.misses(), gateway.count.is_missed()), (3, false));
    }
}

//! Judges whether Redis decides requests, by counts of the last seconds. A single call, failed or successful, does not change the state.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::ring::push;

/// Seconds in the window.
const WINDOW: usize = 5;
/// Least calls in the window for a judgement; also least failures in a row, over any time.
const CALLS: u64 = 5;
/// Seconds that must show a problem before the state changes.
const SEEN: usize = 2;
/// Seconds after which a node without calls no longer counts as failing.
const QUIET: u32 = 60;

/// Counts of one second.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreSecond {
    /// Whether there is a connection; in a Redis Cluster, to one node at least.
    pub is_up: bool,
    /// Calls for decisions that ended.
    pub calls: u64,
    /// Calls that returned no decision.
    pub failures: u64,
    /// Nodes of a Redis Cluster without a connection.
    pub lost_nodes: usize,
    /// Nodes whose circuit breaker is open.
    pub open_nodes: usize,
}

/// The state of Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreState {
    /// Redis decides.
    #[default]
    Deciding,
    /// Redis does not decide keys of some nodes of a Redis Cluster.
    Partial,
    /// There is a connection, and most calls fail.
    Silent,
    /// There is no connection.
    Unreachable,
}

/// The state of Redis, updated once a second.
#[derive(Debug, Default)]
pub struct StoreHealth {
    state: StoreState,
    // Seconds in a row without a connection.
    lost: usize,
    // Seconds since it was reached.
    window: VecDeque<StoreSecond>,
    // Failures since the last successful call, and the seconds with such failures.
    in_a_row: u64,
    seconds_in_a_row: usize,
    // Seconds since a node was seen to fail.
    quiet: u32,
}

impl StoreSecond {
    /// Whether the second shows a failing node of a cluster. A breaker without calls stays open, so it needs failures, too.
    const fn shows_nodes(&self) -> bool {
        self.lost_nodes > 0 || self.open_nodes > 0 && self.failures > 0
    }
}

impl StoreHealth {
    /// Takes the counts of a second, and returns the state.
    pub fn look(&mut self, second: StoreSecond) -> StoreState {
        self.lost = match second.is_up {
            true => 0,
            false => self.lost.saturating_add(1),
        };
        // A gateway leaves and reconnects to a server that is loading or read-only, again and again. Such a server decides no requests.
        let patience = match self.state {
            StoreState::Unreachable => 1,
            StoreState::Deciding | StoreState::Partial => SEEN,
            StoreState::Silent => WINDOW,
        };
        if self.lost >= patience {
            *self = Self {
                state: StoreState::Unreachable,
                lost: self.lost,
                ..Self::default()
            };
            return self.state;
        }
        push(&mut self.window, second, WINDOW);
        if second.failures < second.calls {
            (self.in_a_row, self.seconds_in_a_row) = (0, 0);
        } else if second.failures > 0 {
            self.in_a_row += second.failures;
            self.seconds_in_a_row += 1;
        }
        self.quiet = match second.shows_nodes() {
            true => 0,
            false => self.quiet.saturating_add(1),
        };
        if self.state == StoreState::Unreachable && self.window.len() < SEEN {
            return self.state;
        }
        let is_silent = match self.state {
            StoreState::Silent => !self.succeeds(),
            _ => self.fails(),
        };
        let is_partial = match self.state {
            StoreState::Partial => self.keeps_failing_in_part(&second),
            _ => self.seconds(StoreSecond::shows_nodes) >= SEEN,
        };
        self.state = if is_silent {
            StoreState::Silent
        } else if is_partial {
            StoreState::Partial
        } else {
            StoreState::Deciding
        };
        self.state
    }

    fn seconds(&self, are: impl Fn(&StoreSecond) -> bool) -> usize {
        self.window.iter().filter(|second| are(second)).count()
    }

    fn counts(&self) -> (u64, u64) {
        let sum = |(calls, failures), second: &StoreSecond| {
            (calls + second.calls, failures + second.failures)
        };
        self.window.iter().fold((0, 0), sum)
    }

    /// Whether more than half of the calls failed, or several in a row.
    fn fails(&self) -> bool {
        let (calls, failures) = self.counts();
        let fails = calls >= CALLS && failures > calls / 2;
        let is_lasting = self.seconds(|second| second.failures > second.calls / 2) >= SEEN;
        fails && is_lasting || self.in_a_row >= CALLS && self.seconds_in_a_row >= SEEN
    }

    /// Whether nine of ten calls succeeded.
    fn succeeds(&self) -> bool {
        let (calls, failures) = self.counts();
        calls > 0 && failures <= calls / 10
    }

    fn keeps_failing_in_part(&self, second: &StoreSecond) -> bool {
        match second.open_nodes {
            0 => (self.quiet as usize) < WINDOW,
            _ => self.quiet < QUIET,
        }
    }
}

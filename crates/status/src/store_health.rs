//! Judges by the counts of the last seconds whether Redis decides requests. A single call does not change the state.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::ring::push;

/// The number of seconds in the window.
const WINDOW: usize = 5;
/// The state becomes `Silent` only if the window has this number of calls. This number of failures in a row is also enough, even if the
/// failures took longer than the window.
const CALLS: u64 = 5;
/// The number of seconds that must show a problem before the state changes.
const SEEN: usize = 2;
/// A node with an open circuit breaker counts as failing for this number of seconds after its last failure.
const QUIET: u32 = 60;

/// Counts of one second.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreSecond {
    /// Whether there is a connection. In a Redis Cluster, a connection to one node is enough.
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
    /// There is a connection, but most calls fail.
    Silent,
    /// There is no connection.
    Unreachable,
}

/// The state of Redis, updated once a second.
#[derive(Debug, Default)]
pub struct StoreHealth {
    state: StoreState,
    // The number of seconds in a row without a connection.
    lost: usize,
    // The counts of the last seconds, at most [`WINDOW`] seconds. When Redis becomes unreachable, all earlier counts are dropped.
    window: VecDeque<StoreSecond>,
    // The failures since the last second with a successful call.
    in_a_row: u64,
    // The number of seconds in which the failures of `in_a_row` occurred.
    seconds_in_a_row: usize,
    // The number of seconds since a node last failed.
    quiet: u32,
}

impl StoreSecond {
    /// Whether a node of a Redis Cluster failed in this second. An open circuit breaker does not close while there are no calls. So an open
    /// circuit breaker counts only if calls failed in the same second.
    const fn shows_nodes(&self) -> bool {
        self.lost_nodes > 0 || self.open_nodes > 0 && self.failures > 0
    }
}

impl StoreHealth {
    /// Adds the counts of a second. Returns the new state.
    pub fn look(&mut self, second: StoreSecond) -> StoreState {
        self.lost = match second.is_up {
            true => 0,
            false => self.lost.saturating_add(1),
        };
        // In state `Silent`, the connection must be lost for [`WINDOW`] seconds before the state becomes `Unreachable`. If a Redis server
        // is loading its data or is read-only, the gateway repeatedly disconnects from it and reconnects. But this server is reachable.
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
        let calls = self.window.iter().map(|second| second.calls).sum();
        let failures = self.window.iter().map(|second| second.failures).sum();
        (calls, failures)
    }

    /// Returns true in two cases, each with at least [`CALLS`] calls. Either more than half of the window's calls failed, and in at least
    /// [`SEEN`] seconds more than half of the second's calls. Or the last calls all failed, in at least [`SEEN`] seconds.
    fn fails(&self) -> bool {
        let (calls, failures) = self.counts();
        let fails = calls >= CALLS && failures > calls / 2;
        let is_lasting = self.seconds(|second| second.failures > second.calls / 2) >= SEEN;
        fails && is_lasting || self.in_a_row >= CALLS && self.seconds_in_a_row >= SEEN
    }

    /// Whether at least nine of ten calls in the window succeeded.
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

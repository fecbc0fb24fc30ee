//! Whether Redis decides, by what was counted in the last seconds. One call that fails is no news, and neither is one that succeeds.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::ring::push;

/// Seconds that are looked at.
const WINDOW: usize = 5;
/// Calls in the window that say something of Redis together; failures in a row that do, over any time.
const CALLS: u64 = 5;
/// Seconds of the window that something must have been seen in.
const SEEN: usize = 2;
/// Seconds after which a node that nobody asked since is no longer one that fails.
const QUIET: u32 = 60;

/// What was seen of Redis in a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreSecond {
    /// Whether there is a connection; in a Redis Cluster, to one node at least.
    pub is_up: bool,
    /// Calls of decisions that ended.
    pub calls: u64,
    /// Those that gave no decision.
    pub failures: u64,
    /// Nodes of a Redis Cluster without a connection.
    pub lost_nodes: usize,
    /// Nodes whose circuit breaker is open.
    pub open_nodes: usize,
}

/// Whether Redis decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreState {
    /// It does.
    #[default]
    Deciding,
    /// Not for the keys of some nodes of a Redis Cluster.
    Partial,
    /// There is a connection, and most calls fail.
    Silent,
    /// There is no connection.
    Unreachable,
}

/// Whether Redis decides, as seen once a second.
#[derive(Debug, Default)]
pub struct StoreHealth {
    state: StoreState,
    // Seconds in a row without a connection.
    lost: usize,
    // Since it was reached.
    window: VecDeque<StoreSecond>,
    // Failures since the last call that succeeded, and the seconds that they came in.
    in_a_row: u64,
    seconds_in_a_row: usize,
    // Seconds since a node was seen to fail.
    quiet: u32,
}

impl StoreSecond {
    /// Whether it was seen that a node of a cluster fails. A breaker stays open as long as nobody asks.
    const fn shows_nodes(&self) -> bool {
        self.lost_nodes > 0 || self.open_nodes > 0 && self.failures > 0
    }
}

impl StoreHealth {
    /// Takes what was seen in a second.
    pub fn look(&mut self, second: StoreSecond) -> StoreState {
        self.lost = match second.is_up {
            true => 0,
            false => self.lost.saturating_add(1),
        };
        // A server that is loading or read-only is left and connected to again and again: it gives no decisions.
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

    /// More than half of the calls failed, or many in a row.
    fn fails(&self) -> bool {
        let (calls, failures) = self.counts();
        let fails = calls >= CALLS && failures > calls / 2;
        let is_lasting = self.seconds(|second| second.failures > second.calls / 2) >= SEEN;
        fails && is_lasting || self.in_a_row >= CALLS && self.seconds_in_a_row >= SEEN
    }

    /// Nine of ten calls succeeded.
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

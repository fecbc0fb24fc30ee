//! The wait of a request for a server.

use std::time::{Duration, Instant};

use super::error::CallError;

/// The time for which a request waits for a server.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The time at which the request began to wait.
    pub start: Instant,
    /// The deadline of the request.
    pub until: Instant,
    // Whether the request waits for less than the configured timeout.
    is_short: bool,
}

impl Wait {
    /// Begins to wait for the configured `timeout`, or for `within` if that is shorter.
    pub fn new(timeout: Duration, within: Option<Duration>) -> Self {
        let start = Instant::now();
        let shorter = within.filter(|within| *within < timeout);
        Self {
            start,
            until: start + shorter.unwrap_or(timeout),
            is_short: shorter.is_some(),
        }
    }

    /// Returns the time from the start to the deadline.
    pub fn length(&self) -> Duration {
        self.until - self.start
    }

    /// Whether this error comes only from the early deadline of this wait, so that a longer wait may get an answer.
    pub fn explains(&self, error: &CallError) -> bool {
        self.is_short && *error == CallError::Timeout
    }
}

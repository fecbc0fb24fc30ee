//! The record of a request's attempts at servers, for logs and traces.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::StatusCode;

/// The most attempts of one request that are recorded: the first seven attempts, and the last attempt. All attempts are counted.
const MOST_NOTED: usize = 8;

/// One attempt to get an answer from a server.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// The server's address.
    pub server: SocketAddr,
    /// The time at which the attempt began.
    pub started: Instant,
    /// The time until the head of the answer, or until the attempt failed.
    pub took: Duration,
    /// The status of the answer.
    pub status: Option<StatusCode>,
    /// The reason why there was no answer, as a word.
    pub error: Option<&'static str>,
}

/// The attempts of one request, in order.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    last: Option<Attempt>,
    // Attempts before the last one. A separate field, because most requests have one attempt and so need no allocation.
    earlier: Vec<Attempt>,
    count: u32,
}

impl Attempts {
    /// Adds an attempt.
    pub(crate) fn add(&mut self, attempt: Attempt) {
        self.count = self.count.saturating_add(1);
        if let Some(earlier) = self.last.replace(attempt)
            && self.earlier.len() < MOST_NOTED - 1
        {
            self.earlier.push(earlier);
        }
    }

    /// Returns the number of attempts.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the last attempt.
    pub const fn last(&self) -> Option<&Attempt> {
        self.last.as_ref()
    }

    /// Returns the recorded attempts, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Attempt> {
        self.earlier.iter().chain(&self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ones_and_the_last_are_noted_and_all_are_counted() {
        let mut attempts = Attempts::default();
        assert!(attempts.last().is_none());
        for port in 1..=20 {
            attempts.add(Attempt {
                server: ([127, 0, 0, 1], port).into(),
                started: Instant::now(),
                took: Duration::ZERO,
                status: None,
                error: Some("unreachable"),
            });
        }
        let ports: Vec<u16> = attempts.iter().map(|one| one.server.port()).collect();
        assert_eq!(ports, [1, 2, 3, 4, 5, 6, 7, 20]);
        assert_eq!(attempts.count(), 20);
    }
}

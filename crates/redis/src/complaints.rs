//! Bounds how often errors are logged: each kind of error at once, and again once a minute while it lasts.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::error::CallError;

/// The time for which an error of the same kind is not logged again.
const AGAIN: Duration = Duration::from_secs(60);
/// The most kinds of errors that are logged within [`AGAIN`].
const MOST: usize = 16;

/// The kinds of errors that were logged within the last minute.
#[derive(Debug, Default)]
pub struct Complaints(Mutex<Vec<(String, Instant)>>);

impl Complaints {
    /// Returns whether the caller must log an error now. If so, records the error as logged.
    pub fn is_due(&self, error: &CallError) -> bool {
        self.is_due_at(error, Instant::now())
    }

    fn is_due_at(&self, error: &CallError, now: Instant) -> bool {
        let mut logged = self.0.lock();
        logged.retain(|(_, at)| now.saturating_duration_since(*at) < AGAIN);
        let kind = error.kind();
        let is_due = logged.len() < MOST && logged.iter().all(|(other, _)| *other != kind);
        if is_due {
            logged.push((kind, now));
        }
        is_due
    }

    /// Clears all records, because Redis decides again. So the next error is logged at once.
    pub(crate) fn end(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_is_due_once_a_minute() {
        let complaints = Complaints::default();
        let start = Instant::now();
        let due = |text: &str, seconds| {
            let error = CallError::refused(text);
            complaints.is_due_at(&error, start + Duration::from_secs(seconds))
        };
        assert!(due("OOM one", 0));
        assert!(!due("OOM two", 59));
        assert!(due("MISCONF", 59));
        assert!(due("OOM three", 60));
        assert!(due("ERR syntax error", 60));
        assert!(due("ERR DB index is out of range", 60), "another remedy");
        complaints.end();
        assert!(due("OOM four", 61));
        let kinds: Vec<String> = (b'A'..=b'Z')
            .map(|letter| char::from(letter).to_string())
            .collect();
        let logged = kinds.iter().filter(|kind| due(kind, 62)).count();
        assert_eq!(logged, MOST - 1, "however many kinds there are");
    }
}

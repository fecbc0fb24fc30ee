//! The text of `/metrics`. With many routes, writing the text takes many milliseconds, so the time for writing is bounded.

use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tidegate_telemetry::metrics::Format;

/// The time for writing the text in each second. When this time is used up, the text is kept, and is sent again until the second ends.
const MOST: Duration = Duration::from_millis(250);

const SECOND: Duration = Duration::from_secs(1);

/// The texts that are sent again while this second's time for writing is used up, one for each format.
#[derive(Debug)]
pub(super) struct MetricsPage(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    since: Instant,
    spent: Duration,
    texts: [Option<Bytes>; 2],
}

impl MetricsPage {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Kept::from(Instant::now())))
    }

    /// Returns the text in this format. Calls `write`, unless a text of this format is kept because this second's time for writing is used
    /// up.
    pub(super) fn text(&self, format: Format, write: impl FnOnce() -> String) -> Bytes {
        // The lock is held while `write` runs. Requests that wait for the lock may then get the same text.
        let mut kept = self.0.lock();
        let started = Instant::now();
        kept.text(started, format, || {
            let text = write();
            (text.into(), started.elapsed())
        })
    }
}

impl Kept {
    const fn from(since: Instant) -> Self {
        Self {
            since,
            spent: Duration::ZERO,
            texts: [None, None],
        }
    }

    fn text(
        &mut self,
        now: Instant,
        format: Format,
        write: impl FnOnce() -> (Bytes, Duration),
    ) -> Bytes {
        if now.duration_since(self.since) >= SECOND {
            *self = Self::from(now);
        }
        if let Some(text) = &self.texts[format as usize] {
            return text.clone();
        }
        let (text, took) = write();
        self.spent += took;
        if self.spent >= MOST {
            self.texts[format as usize] = Some(text.clone());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_asked_for_often_is_written_a_few_times_per_second() {
        let start = Instant::now();
        let mut kept = Kept::from(start);
        let mut written = 0;
        let mut ask = |at: Duration, format| {
            kept.text(start + at, format, || {
                written += 1;
                (Bytes::from(written.to_string()), Duration::from_millis(100))
            })
        };
        let at = Duration::from_millis;
        let texts: Vec<Bytes> = (0..9).map(|n| ask(at(n), Format::Text)).collect();
        assert_eq!(texts, ["1", "2", "3", "3", "3", "3", "3", "3", "3"]);
        assert_eq!(ask(at(9), Format::OpenMetrics), "4", "another format");
        assert_eq!(ask(at(999), Format::OpenMetrics), "4");
        assert_eq!(ask(at(1_000), Format::Text), "5", "the next second");
        assert_eq!(ask(at(1_000), Format::Text), "6");
    }
}

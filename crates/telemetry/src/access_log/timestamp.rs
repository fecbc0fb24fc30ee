//! The time of a line, in RFC 3339 and in the Common Log Format.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use tidegate_core::micros;

/// The length of `2026-11-22T15:32:17.123456Z`, in bytes.
pub(super) const LENGTH: usize = 27;
/// The length of `22/Nov/2026:15:32:17 +0000`, in bytes.
pub(super) const LOCAL_LENGTH: usize = 26;

/// Texts of the current time and of slightly earlier times. The text of a second is formatted once, and is used again for each time within
/// this second.
#[derive(Debug)]
pub(super) struct Clock {
    now: Duration,
    current: Second<LENGTH>,
    earlier: Second<LENGTH>,
    local: Second<LOCAL_LENGTH>,
}

/// The text of the second that was formatted last, in UTC.
#[derive(Debug)]
struct Second<const N: usize> {
    format: &'static str,
    second: u64,
    text: [u8; N],
}

impl Default for Clock {
    fn default() -> Self {
        let precise = || Second {
            format: "%Y-%m-%dT%H:%M:%S.000000Z",
            second: 0,
            text: *b"1970-01-01T00:00:00.000000Z",
        };
        Self {
            now: Duration::ZERO,
            current: precise(),
            earlier: precise(),
            local: Second {
                format: "%d/%b/%Y:%H:%M:%S +0000",
                second: 0,
                text: *b"01/Jan/1970:00:00:00 +0000",
            },
        }
    }
}

impl Clock {
    /// Reads the time, in microseconds since the epoch.
    pub(super) fn read(&mut self) -> u64 {
        // A clock set before 1970 reads as 1970.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.now = now.unwrap_or_default();
        micros(self.now)
    }

    /// Formats the time of the last `read`.
    pub(super) fn now(&mut self) -> &[u8; LENGTH] {
        self.current.precise(self.now)
    }

    /// Formats the time of the last `read` minus `span`.
    pub(super) fn before(&mut self, span: Duration) -> &[u8; LENGTH] {
        self.earlier.precise(self.now.saturating_sub(span))
    }

    /// Formats the time of the last `read` in the Common Log Format.
    pub(super) fn local(&mut self) -> &[u8; LOCAL_LENGTH] {
        self.local.at(self.now.as_secs())
    }
}

impl<const N: usize> Second<N> {
    /// Returns the text of this second. Formats the text only if `second` differs from the last call.
    fn at(&mut self, second: u64) -> &mut [u8; N] {
        if second != self.second {
            self.second = second;
            let second = i64::try_from(second).unwrap_or(i64::MAX);
            if let Ok(date) = Timestamp::from_second(second)
                && let Ok(text) = date.strftime(self.format).to_string().as_bytes().try_into()
            {
                self.text = text;
            }
        }
        &mut self.text
    }
}

impl Second<LENGTH> {
    /// Formats a time since the epoch, with microseconds.
    fn precise(&mut self, time: Duration) -> &[u8; LENGTH] {
        let text = self.at(time.as_secs());
        let mut rest = time.subsec_micros();
        for digit in text[LENGTH - 7..LENGTH - 1].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_what_the_library_writes() {
        let mut clock = Clock::default();
        for (second, micros, expected) in [
            (0, 0, "1970-01-01T00:00:00.000000Z"),
            (1_790_004_737, 123_456, "2026-09-21T15:32:17.123456Z"),
            (1_790_004_737, 7, "2026-09-21T15:32:17.000007Z"),
            (1_790_004_738, 999_999, "2026-09-21T15:32:18.999999Z"),
        ] {
            let text = clock.current.precise(Duration::new(second, 1_000 * micros));
            assert_eq!(std::str::from_utf8(text).unwrap(), expected);
        }
    }

    #[test]
    fn a_local_time_has_the_name_of_its_month() {
        let mut clock = Clock::default();
        for (second, expected) in [
            (0, "01/Jan/1970:00:00:00 +0000"),
            (1_790_004_737, "21/Sep/2026:15:32:17 +0000"),
            (1_790_004_738, "21/Sep/2026:15:32:18 +0000"),
        ] {
            assert_eq!(
                std::str::from_utf8(clock.local.at(second)).unwrap(),
                expected
            );
        }
    }
}

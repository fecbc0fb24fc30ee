//! The time of a line, as RFC 3339 has it.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp as Date;

/// `2026-11-22T15:32:17.123456Z`.
pub(super) const LENGTH: usize = 27;

/// The current time as text. All but its fraction is formatted once per second.
#[derive(Debug)]
pub(super) struct Timestamp {
    second: u64,
    text: [u8; LENGTH],
}

impl Default for Timestamp {
    fn default() -> Self {
        Self {
            second: 0,
            text: *b"1970-01-01T00:00:00.000000Z",
        }
    }
}

impl Timestamp {
    /// The time of this moment.
    pub(super) fn now(&mut self) -> &[u8; LENGTH] {
        // A clock that is set before 1970 shows 1970.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        self.at(now.as_secs(), now.subsec_micros())
    }

    fn at(&mut self, second: u64, micros: u32) -> &[u8; LENGTH] {
        if second != self.second {
            self.second = second;
            let date = i64::try_from(second).ok();
            let date = date.and_then(|second| Date::from_second(second).ok());
            if let Some(date) = date.map(|date| date.to_string())
                && let Some(text) = date.as_bytes().get(..LENGTH - 8)
            {
                self.text[..LENGTH - 8].copy_from_slice(text);
            }
        }
        let mut rest = micros;
        for digit in self.text[LENGTH - 7..LENGTH - 1].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_what_the_library_writes() {
        let mut timestamp = Timestamp::default();
        for (second, micros, expected) in [
            (0, 0, "1970-01-01T00:00:00.000000Z"),
            (1_790_004_737, 123_456, "2026-09-21T15:32:17.123456Z"),
            (1_790_004_737, 7, "2026-09-21T15:32:17.000007Z"),
            (1_790_004_738, 999_999, "2026-09-21T15:32:18.999999Z"),
        ] {
            let text = std::str::from_utf8(timestamp.at(second, micros)).unwrap();
            assert_eq!(text, expected);
        }
    }
}

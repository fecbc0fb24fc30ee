//! The time of a line, as RFC 3339 and as the Common Log Format have it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp as Date;
use jiff::tz::TimeZone;
use tidegate_core::micros;

/// `2026-11-22T15:32:17.123456Z`.
pub(super) const LENGTH: usize = 27;
/// `22/Nov/2026:15:32:17 +0000`.
pub(super) const LOCAL_LENGTH: usize = 26;

/// Texts of the current time and of times shortly before. What lasts a second is formatted once per second.
#[derive(Debug, Default)]
pub(super) struct Clock {
    now: Duration,
    current: Timestamp,
    earlier: Timestamp,
    local: LocalTime,
}

impl Clock {
    /// Reads the time, in us since the epoch.
    pub(super) fn read(&mut self) -> u64 {
        // A clock that is set before 1970 shows 1970.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.now = now.unwrap_or_default();
        micros(self.now)
    }

    /// The time that was read.
    pub(super) fn now(&mut self) -> &[u8; LENGTH] {
        let (second, micros) = (self.now.as_secs(), self.now.subsec_micros());
        self.current.at(second, micros)
    }

    /// The time so long before that.
    pub(super) fn before(&mut self, span: Duration) -> &[u8; LENGTH] {
        let time = self.now.saturating_sub(span);
        self.earlier.at(time.as_secs(), time.subsec_micros())
    }

    /// The time that was read, in the Common Log Format.
    pub(super) fn local(&mut self) -> &[u8; LOCAL_LENGTH] {
        self.local.at(self.now.as_secs())
    }
}

/// A time as RFC 3339 has it.
#[derive(Debug)]
struct Timestamp {
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
    fn at(&mut self, second: u64, micros: u32) -> &[u8; LENGTH] {
        if second != self.second {
            self.second = second;
            if let Some(date) = date(second).map(|date| date.to_string())
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

/// A time as the Common Log Format has it, in UTC.
#[derive(Debug)]
struct LocalTime {
    second: u64,
    text: [u8; LOCAL_LENGTH],
}

impl Default for LocalTime {
    fn default() -> Self {
        Self {
            second: 0,
            text: *b"01/Jan/1970:00:00:00 +0000",
        }
    }
}

impl LocalTime {
    fn at(&mut self, second: u64) -> &[u8; LOCAL_LENGTH] {
        if second != self.second {
            self.second = second;
            let date = date(second).map(|date| date.to_zoned(TimeZone::UTC));
            let text = date.map(|date| date.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string());
            if let Some(text) = text.and_then(|text| text.as_bytes().try_into().ok()) {
                self.text = text;
            }
        }
        &self.text
    }
}

fn date(second: u64) -> Option<Date> {
    let second = i64::try_from(second).ok()?;
    Date::from_second(second).ok()
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

    #[test]
    fn a_local_time_has_the_name_of_its_month() {
        let mut local = LocalTime::default();
        for (second, expected) in [
            (0, "01/Jan/1970:00:00:00 +0000"),
            (1_790_004_737, "21/Sep/2026:15:32:17 +0000"),
            (1_790_004_738, "21/Sep/2026:15:32:18 +0000"),
        ] {
            assert_eq!(std::str::from_utf8(local.at(second)).unwrap(), expected);
        }
    }
}

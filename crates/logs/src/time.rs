//! Reads times, in the forms that logs have.

/// A time in microseconds since the epoch, and its resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) micros: u64,
    /// The resolution in microseconds: 1,000,000 for whole seconds.
    pub(crate) resolution: u32,
}

/// A reader of times. It stores the result for the last second, because many lines have the same second.
#[derive(Debug, Default)]
pub(crate) struct TimeReader {
    text: [u8; LONGEST],
    length: usize,
    micros: u64,
}

/// The most bytes of a date and its zone, without a fraction, such as `22/Nov/2026:15:32:17 +0000`.
const LONGEST: usize = 26;

const SECOND: u64 = 1_000_000;

/// The latest time: the end of the year 9999.
const LATEST: u64 = 253_402_300_800 * SECOND;

impl TimeReader {
    /// Reads a time: `22/Nov/2026:15:32:17 +0000`, the same with a fraction or without a zone, RFC 3339, or seconds, milliseconds,
    /// microseconds or nanoseconds since the epoch. A time without a zone is UTC.
    pub(crate) fn read(&mut self, text: &[u8]) -> Option<Time> {
        let date = match text {
            [_, _, _, _, b'-', _, _, b'-', ..] => 19,
            [_, _, b'/', _, _, _, b'/', ..] => 20,
            _ => return epoch(text),
        };
        let (head, mut tail) = text.split_at_checked(date)?;
        let mut fraction = 0;
        let mut resolution = SECOND as u32;
        if let [b'.' | b',', rest @ ..] = tail {
            let digits = rest.iter().take_while(|it| it.is_ascii_digit()).count();
            (fraction, resolution) = fraction_of(&rest[..digits])?;
            tail = &rest[digits..];
        }
        let micros = self.seconds(head, tail)?.checked_add(fraction)?;
        Some(Time { micros, resolution })
    }

    /// Reads a date with its zone. If the text is the same as in the last call, returns the result of that call.
    fn seconds(&mut self, head: &[u8], zone: &[u8]) -> Option<u64> {
        let length = head.len() + zone.len();
        let previous = &self.text[..self.length];
        if previous.len() == length && previous.starts_with(head) && previous.ends_with(zone) {
            return Some(self.micros);
        }
        let offset = offset(zone)?;
        let seconds = i64::try_from(date(head)?).ok()? - offset;
        let micros = u64::try_from(seconds).ok()?.checked_mul(SECOND)?;
        if let Some(room) = self.text.get_mut(..length) {
            room[..head.len()].copy_from_slice(head);
            room[head.len()..].copy_from_slice(zone);
            (self.length, self.micros) = (length, micros);
        }
        Some(micros)
    }
}

/// Reads the digits after a decimal point. Returns microseconds, and their resolution.
fn fraction_of(digits: &[u8]) -> Option<(u64, u32)> {
    if digits.is_empty() || digits.len() > 12 {
        return None;
    }
    let mut unit = SECOND as u32;
    let mut fraction = 0;
    for digit in digits.iter().take(6) {
        unit /= 10;
        fraction += u64::from(digit - b'0') * u64::from(unit);
    }
    Some((fraction, unit.max(1)))
}

/// Returns the offset of a zone in seconds. The forms are `Z`, `+00:00`, ` +0000`, or an empty text.
fn offset(zone: &[u8]) -> Option<i64> {
    let zone = zone.strip_prefix(b" ").unwrap_or(zone);
    let (sign, hours, minutes) = match zone {
        [] | [b'Z' | b'z'] => return Some(0),
        [sign, a, b, c, d] | [sign, a, b, b':', c, d] => {
            (*sign, number(&[*a, *b])?, number(&[*c, *d])?)
        }
        _ => return None,
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = (hours * 3_600 + minutes * 60) as i64;
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

/// Reads `2026-11-22T15:32:17` or `22/Nov/2026:15:32:17`. Returns the seconds since the epoch.
fn date(text: &[u8]) -> Option<u64> {
    let (year, month, day, clock) = if text.len() == 19 {
        if !matches!(text[10], b'T' | b't' | b' ' | b'\t') {
            return None;
        }
        (
            number(&text[..4])?,
            number(&text[5..7])?,
            number(&text[8..10])?,
            &text[11..],
        )
    } else {
        let month = MONTHS
            .iter()
            .position(|name| text[3..6].eq_ignore_ascii_case(name))?;
        if text[11] != b':' {
            return None;
        }
        (
            number(&text[7..11])?,
            month as u64 + 1,
            number(&text[..2])?,
            &text[12..],
        )
    };
    let [a, b, b':', c, d, b':', e, f] = clock else {
        return None;
    };
    let (hour, minute, second) = (number(&[*a, *b])?, number(&[*c, *d])?, number(&[*e, *f])?);
    // 60 is a leap second.
    if hour > 23 || minute > 59 || second > 60 || year < 1_970 {
        return None;
    }
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Lets years begin in March, so that the leap day is the last day of a year.
    let (years, months) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days =
        years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3_600 + minute * 60 + second)
}

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Reads a time since the epoch, perhaps with a fraction. The number of digits before the point decides the unit, such as milliseconds for
/// 12 to 14 digits.
fn epoch(text: &[u8]) -> Option<Time> {
    let point = text.iter().position(|byte| *byte == b'.');
    let (whole, behind) = match point {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let value = number(whole)?;
    // Seconds have up to 11 digits, until the year 5138.
    let time = match (whole.len(), behind) {
        (1..=11, Some(digits)) if digits.iter().all(u8::is_ascii_digit) => {
            let (fraction, resolution) = fraction_of(digits)?;
            let micros = value.checked_mul(SECOND)?.checked_add(fraction)?;
            Time { micros, resolution }
        }
        (1..=11, None) => Time {
            micros: value.checked_mul(SECOND)?,
            resolution: SECOND as u32,
        },
        // From here on, the unit is a millisecond, a microsecond or a nanosecond. Digits after the point are dropped.
        (12..=14, _) => Time {
            micros: value.checked_mul(1_000)?,
            resolution: 1_000,
        },
        (15..=17, _) => Time {
            micros: value,
            resolution: 1,
        },
        (18.., _) => Time {
            micros: value / 1_000,
            resolution: 1,
        },
        _ => return None,
    };
    (time.micros < LATEST).then_some(time)
}

/// Reads a whole number, which has only digits.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit < 10).then(|| sum.wrapping_mul(10).wrapping_add(digit.into()))
    })
}

/// Returns the microseconds of a number with a fraction, such as `0.123` seconds. Digits finer than a microsecond are dropped.
pub(crate) fn scaled(text: &[u8], micros_per_unit: f64) -> Option<u64> {
    if micros_per_unit == 1.0
        && let Some(whole) = number(text)
    {
        return Some(whole);
    }
    let is_number =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+');
    if text.len() > 30 || !text.iter().all(is_number) {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let micros = value * micros_per_unit;
    // Adds half a nanosecond, because binary fractions are inexact.
    (0.0..LATEST as f64)
        .contains(&micros)
        .then_some((micros + 0.000_5) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(u64, u32)> {
        let time = TimeReader::default().read(text.as_bytes())?;
        Some((time.micros, time.resolution))
    }

    #[test]
    fn the_forms_of_a_time() {
        let second = 1_795_361_537;
        for (text, fraction, resolution) in [
            ("22/Nov/2026:15:32:17 +0000", 0, 1_000_000),
            ("22/Nov/2026:16:02:17 +0030", 0, 1_000_000),
            ("22/Nov/2026:15:32:17.504", 504_000, 1_000),
            ("2026-11-22T15:32:17Z", 0, 1_000_000),
            ("2026-11-22T15:32:17.090Z", 90_000, 1_000),
            ("2026-11-22T07:32:17.123456789-08:00", 123_456, 1),
            ("2026-11-22 15:32:17,5+0000", 500_000, 100_000),
            ("2026-11-22\t15:32:17", 0, 1_000_000),
            ("1795361537", 0, 1_000_000),
            ("1795361537.123", 123_000, 1_000),
            ("1795361537123", 123_000, 1_000),
            ("1795361537123.4", 123_000, 1_000),
            ("1795361537123456", 123_456, 1),
            ("1795361537123456789", 123_456, 1),
        ] {
            assert_eq!(
                read(text),
                Some((second * SECOND + fraction, resolution)),
                "{text}"
            );
        }
        assert_eq!(
            read("29/Feb/2024:00:00:00 +0000"),
            Some((1_709_164_800 * SECOND, 1_000_000))
        );
        assert_eq!(read("1970-01-01T00:00:00Z"), Some((0, 1_000_000)));
    }

    #[test]
    fn what_is_no_time() {
        for text in [
            "",
            "-",
            "now",
            "22/Nov/2026",
            "29/Feb/2026:00:00:00 +0000",
            "32/Nov/2026:15:32:17 +0000",
            "22/Foo/2026:15:32:17 +0000",
            "22/Nov/2026:24:32:17 +0000",
            "22/Nov/2026:15:32:17 UTC",
            "2026-13-22T15:32:17Z",
            "2026-11-22T15:32:17.Z",
            "2026-11-22T15:32:17+99:00",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "17953615x7",
            "99999999999999999999",
            "1795361537.",
            "1795361537.1x",
            "2026-11-22X15:32:17Z",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_second_that_is_known_is_not_mixed_up_with_another() {
        let mut reader = TimeReader::default();
        let mut seconds = |text: &str| reader.read(text.as_bytes()).map(|it| it.micros / SECOND);
        assert_eq!(seconds("2026-11-22T15:32:17.1Z"), Some(1_795_361_537));
        assert_eq!(seconds("2026-11-22T15:32:17.2Z"), Some(1_795_361_537));
        assert_eq!(seconds("2026-11-22T15:32:17.2+01:00"), Some(1_795_357_937));
        assert_eq!(seconds("2026-11-22T15:32:18.2+01:00"), Some(1_795_357_938));
        assert_eq!(seconds("22/Nov/2026:15:32:18 +0100"), Some(1_795_357_938));
        assert_eq!(seconds("22/Nov/2026:15:32:18 +0000"), Some(1_795_361_538));
    }

    #[test]
    fn durations_in_their_units() {
        assert_eq!(scaled(b"0.123", 1e6), Some(123_000));
        assert_eq!(scaled(b"1.005", 1e6), Some(1_005_000));
        assert_eq!(scaled(b"46", 1e3), Some(46_000));
        assert_eq!(scaled(b"43116978", 1e-3), Some(43_116));
        assert_eq!(scaled(b"17", 1.0), Some(17));
        for text in [&b"-1"[..], b"", b"inf", b"NaN", b"1e99", b"1.2.3"] {
            assert_eq!(scaled(text, 1e6), None);
        }
    }
}

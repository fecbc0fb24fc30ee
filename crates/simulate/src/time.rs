//! Formats times and numbers for people.

use jiff::Timestamp;
use tidegate_core::Micros;

use crate::range::Range;

/// Formats a time in UTC, to the second.
pub(crate) fn time(at: Micros) -> String {
    let seconds = i64::try_from(at / 1_000_000).unwrap_or(i64::MAX);
    match Timestamp::from_second(seconds) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => seconds.to_string(),
    }
}

/// Formats a number with commas.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a range as one number if its bounds are equal, and as `low..high` otherwise.
pub(crate) fn range(range: Range) -> String {
    if range.low == range.high {
        return number(range.low);
    }
    format!("{}..{}", number(range.low), number(range.high))
}

/// Formats a share in percent, with more digits for smaller shares.
pub(crate) fn percent(part: u64, of: u64) -> String {
    if part == 0 || of == 0 {
        return "0 %".to_owned();
    }
    let percent = part as f64 * 100.0 / of as f64;
    match percent {
        percent if percent >= 10.0 => format!("{percent:.0} %"),
        percent if percent >= 0.1 => format!("{percent:.1} %"),
        percent if percent >= 0.001 => format!("{percent:.3} %"),
        _ => "<0.001 %".to_owned(),
    }
}

/// Formats both bounds of a range as shares of `of`, in percent.
pub(crate) fn percents(part: Range, of: u64) -> String {
    let [low, high] = [percent(part.low, of), percent(part.high, of)];
    match low == high {
        true => low,
        false => format!("{}..{high}", low.trim_end_matches(" %")),
    }
}

/// Formats the upper bound of a range of waits, which are in milliseconds.
pub(crate) fn wait(range: Range) -> String {
    match range.high {
        0 => "-".to_owned(),
        ms if ms < 10_000 => format!("{} ms", number(ms)),
        ms => format!("{} s", number(ms / 1_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_by_people() {
        assert_eq!(number(0), "0");
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(percent(1, 8), "12 %");
        assert_eq!(percent(1, 1_000), "0.1 %");
        assert_eq!(percent(3, 100_000), "0.003 %");
        let between = Range {
            low: 3,
            high: 4_000,
        };
        assert_eq!(range(between), "3..4,000");
        assert_eq!(percents(between, 40_000), "0.007..10 %");
        assert_eq!(time(1_700_000_000_000_000), "2023-11-14 22:13:20");
    }
}

//! The numbers of a limit, and the errors of numbers that do not fit.

use std::fmt;
use std::time::Duration;

/// A time since the Unix epoch, or a span of time, in whole microseconds.
pub type Micros = u64;

/// Converts a duration to whole microseconds. A duration that does not fit becomes the largest number.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(tidegate_core::micros(Duration::from_millis(3)), 3_000);
/// ```
pub fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

/// The largest integer in decisions, 2^53 - 1. Lua's numbers are doubles, which round larger integers.
pub const MAX_EXACT: u64 = (1 << 53) - 1;

/// The longest time until all used units of a key are free again, 2^52 us (142 years). The sum of today's time and this span is below
/// [`MAX_EXACT`].
pub const MAX_SPAN: Micros = 1 << 52;

/// The longest window, 31 days.
pub const MAX_WINDOW: Micros = 31 * 86_400 * 1_000_000;

/// A number of units per span of time: `10/s` is a count of 10 and 1,000,000 us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The units, at least 1.
    pub count: u64,
    /// The span, at least 1 us and at most [`MAX_WINDOW`].
    pub per: Micros,
}

/// Formats a span of time as users write it, in the largest unit that gives a whole number.
pub(crate) fn written_span(span: Micros) -> String {
    const UNITS: [(Micros, &str); 5] = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "m"),
        (1_000_000, "s"),
        (1_000, "ms"),
    ];
    let whole = UNITS.iter().find(|(unit, _)| span.is_multiple_of(*unit));
    match whole {
        Some((unit, name)) => format!("{}{name}", span / unit),
        None => format!("{span}us"),
    }
}

/// The highest count of a rate in a configuration.
pub const HIGHEST_RATE: u64 = 1_000_000_000;

/// Returns the rate of `units` per `span` us, with a span of whole milliseconds. `units / span` must be in lowest terms. `None` if users
/// cannot write the rate.
pub(crate) fn in_millis(units: u128, span: u128) -> Option<Rate> {
    let factor = 1_000 / gcd(1_000, span);
    let rate = Rate {
        count: u64::try_from(units.checked_mul(factor)?).ok()?,
        per: u64::try_from(span * factor).ok()?,
    };
    (rate.count <= HIGHEST_RATE && rate.per <= MAX_WINDOW).then_some(rate)
}

/// Returns the greatest common divisor.
pub(crate) const fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Formats a rate as users write it: per second, minute, hour, day or millisecond if the count is then a whole number.
pub(crate) fn written_rate(rate: Rate) -> String {
    const PER: [(Micros, &str); 5] = [
        (1_000_000, "s"),
        (60_000_000, "m"),
        (3_600_000_000, "h"),
        (86_400_000_000, "d"),
        (1_000, "ms"),
    ];
    let (units, span) = (u128::from(rate.count), u128::from(rate.per.max(1)));
    let whole = PER.iter().find_map(|(time, name)| {
        let count = units * u128::from(*time);
        let is_whole = count % span == 0 && count / span <= u128::from(HIGHEST_RATE);
        is_whole.then(|| format!("{}/{name}", count / span))
    });
    whole.unwrap_or_else(|| {
        let common = gcd(units, span);
        let rate = in_millis(units / common, span / common).unwrap_or(rate);
        format!("{}/{}", rate.count, written_span(rate.per))
    })
}

/// The reason for which a quota was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaError {
    /// The named number is zero, and would refuse every request.
    Zero(&'static str),
    /// The window, or a rate's span, is longer than [`MAX_WINDOW`].
    LongWindow,
    /// The window of a `sliding_window_counter` is an hour or longer, but not a whole number of milliseconds.
    UnevenWindow,
    /// The named number is too large for the other numbers of the quota.
    TooLarge {
        /// The number's name as users write it.
        what: &'static str,
        /// The greatest number that fits; 0 if none fits.
        largest: u64,
    },
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero(what) => write!(f, "`{what}` must be at least 1"),
            Self::LongWindow => f.write_str("the longest window is 31d"),
            Self::UnevenWindow => f.write_str("a window of 1h or more must be whole milliseconds"),
            Self::TooLarge { what, largest: 0 } => {
                write!(f, "no `{what}` fits these numbers")
            }
            Self::TooLarge { what, largest } => {
                write!(
                    f,
                    "`{what}` is too large here; the largest that fits is {largest}"
                )
            }
        }
    }
}

impl std::error::Error for QuotaError {}

/// Returns the number, or an error with its name `what` if the number is zero.
pub(crate) fn nonzero(what: &'static str, number: u64) -> Result<u64, QuotaError> {
    if number == 0 {
        return Err(QuotaError::Zero(what));
    }
    Ok(number)
}

/// Checks a limit and its window: neither is zero, and the window is not too long.
pub(crate) fn window_quota(limit: u64, window: Micros) -> Result<(), QuotaError> {
    nonzero("limit", limit)?;
    nonzero("window", window)?;
    if window > MAX_WINDOW {
        return Err(QuotaError::LongWindow);
    }
    Ok(())
}

/// Checks that a limit is at most `largest`.
pub(crate) const fn at_most(largest: u64, limit: u64) -> Result<(), QuotaError> {
    let what = "limit";
    if limit > largest {
        return Err(QuotaError::TooLarge { what, largest });
    }
    Ok(())
}

/// The numbers of a quota, in the order of its script's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    all: [u64; 5],
    count: usize,
}

impl<const N: usize> From<[u64; N]> for Numbers {
    fn from(numbers: [u64; N]) -> Self {
        const { assert!(N <= 5) };
        let mut all = [0; 5];
        all[..N].copy_from_slice(&numbers);
        Self { all, count: N }
    }
}

impl std::ops::Deref for Numbers {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.all[..self.count]
    }
}

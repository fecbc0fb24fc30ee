//! Calendars: the starts of all windows of a day or a month in a time zone.
//!
//! A day begins at midnight. If clocks are put forward over midnight, the day begins at its first existing moment. The starts for all years
//! in `YEARS` are computed once per zone and never freed. They take little memory, because a configuration names few zones.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan as _};
use parking_lot::Mutex;
use tidegate_core::{Calendar, Micros};

/// The first and the last year of a calendar. Windows after these years have the length of the last window.
const YEARS: [i16; 2] = [2020, 2050];

/// The length of a window of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Period {
    /// From midnight to midnight: 23 to 25 hours.
    Day,
    /// From the first of a month to the first of the next.
    Month,
}

/// Returns the calendar of this zone. `None` if the zone has no name.
pub(crate) fn calendar(period: Period, zone: &TimeZone) -> Option<&'static Calendar> {
    static CALENDARS: LazyLock<Mutex<BTreeMap<String, &'static Calendar>>> =
        LazyLock::new(Mutex::default);
    let (word, step) = match period {
        Period::Day => ("1d", 1.day()),
        Period::Month => ("1mo", 1.month()),
    };
    let name = format!("{word}/{}", zone.iana_name()?);
    let mut calendars = CALENDARS.lock();
    if let Some(calendar) = calendars.get(&name) {
        return Some(calendar);
    }
    let calendar = Calendar::new(name.clone(), starts(step, zone))?;
    let calendar: &'static Calendar = Box::leak(Box::new(calendar));
    calendars.insert(name, calendar);
    Some(calendar)
}

/// Returns the start of each window, in us since the epoch. Windows are one `step` long.
fn starts(step: Span, zone: &TimeZone) -> Vec<Micros> {
    let [first, last] = YEARS;
    let days = Date::new(first, 1, 1)
        .into_iter()
        .flat_map(|day| day.series(step));
    days.take_while(|day| day.year() <= last)
        .filter_map(|day| {
            let start = day.to_zoned(zone.clone()).ok()?.start_of_day().ok()?;
            Micros::try_from(start.timestamp().as_microsecond()).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests;

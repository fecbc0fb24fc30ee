//! `fixed_window`, `sliding_window_log` and `sliding_window_counter`.

use std::time::Duration;

use crate::yaml::{Place, Problem};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Map;
use tidegate_core::{
    CalendarWindow, FixedWindow, Quota, SlidingWindowCounter, SlidingWindowLog, micros,
};

use crate::check::Check;
use crate::limits::calendar::{Period, calendar};
use crate::limits::numbers::{Numbers, fit};
use crate::value::number::{Count, pattern};
use crate::value::{Fault, Scalar, Value};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The largest `limit` of a `sliding_window_log` without a warning, in units. A log of this size takes 80 KB per client.
const LONG_LOG: u64 = 10_000;

/// The numbers of a fixed window.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FixedWindow")]
pub(crate) struct WrittenFixedWindow {
    /// The units per window.
    pub(crate) limit: Scalar<Count>,
    /// The length of a window, at most 31d, or 1mo for months.
    pub(crate) window: Scalar<WindowLength>,
    /// The time zone in which a window of 1d or 1mo begins, such as Asia/Jakarta. Default: UTC.
    pub(crate) zone: Option<Scalar<Zone>>,
}

impl Numbers for WrittenFixedWindow {
    fn quota(&self, check: &mut Check<'_>) -> Option<Quota> {
        let Self {
            limit,
            window,
            zone,
        } = self;
        let (count, length) = (check.read(limit), check.read(window));
        let named = check.read_some(zone.as_ref());
        let period = match (length?, zone) {
            (WindowLength::Month, _) => Period::Month,
            (WindowLength::Even(DAY), Some(_)) => Period::Day,
            (WindowLength::Even(_), Some(scalar)) => {
                let problem = Problem::new(scalar.place, "a `zone` has no effect on this window");
                check.refuse(problem.note("only windows of 1d and 1mo begin by a time zone"));
                return None;
            }
            (WindowLength::Even(length), None) => {
                let quota = FixedWindow::new(count?.0, micros(length)).map(Quota::from);
                return fit(check, quota, limit, window.place);
            }
        };
        let zone = match (named, zone) {
            (Some(Zone(zone)), _) => zone,
            (None, None) => TimeZone::UTC,
            (None, Some(_)) => return None,
        };
        // `calendar` returns `None` only for a zone without a name, and every zone of a valid configuration has a name.
        let calendar = calendar(period, &zone)?;
        let quota = CalendarWindow::new(count?.0, calendar).map(Quota::from);
        fit(check, quota, limit, window.place)
    }

    fn places(&self) -> (Option<Place>, Option<Place>) {
        (self.limit.place, self.window.place)
    }
}

/// The numbers of a window.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Window {
    /// The units per window.
    pub(crate) limit: Scalar<Count>,
    /// The length of a window, at most 31d.
    pub(crate) window: Scalar<Duration>,
}

// The numbers of a `sliding_window_log`. With a doc comment, this type would get a schema of its own in place of the schema of [`Window`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct WrittenLog(Window);

impl Numbers for WrittenLog {
    fn quota(&self, check: &mut Check<'_>) -> Option<Quota> {
        let Window { limit, window } = &self.0;
        let (count, length) = (check.read(limit), check.read(window));
        let (count, length) = (count?.0, micros(length?));
        if count > LONG_LOG {
            let kilobytes = count.saturating_mul(8) / 1_000;
            let problem = Problem::new(limit.place, "an exact log of this length is costly");
            check.warn(problem.note(format!(
                "every client may take {kilobytes} KB; sliding_window_counter takes a few bytes"
            )));
        }
        let quota = SlidingWindowLog::new(count, length).map(Quota::from);
        fit(check, quota, limit, window.place)
    }

    fn places(&self) -> (Option<Place>, Option<Place>) {
        (self.0.limit.place, self.0.window.place)
    }
}

// The numbers of a `sliding_window_counter`. This type has no doc comment for the same reason as [`WrittenLog`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct WrittenCounter(Window);

impl Numbers for WrittenCounter {
    fn quota(&self, check: &mut Check<'_>) -> Option<Quota> {
        let Window { limit, window } = &self.0;
        let (count, length) = (check.read(limit), check.read(window));
        let quota = SlidingWindowCounter::new(count?.0, micros(length?)).map(Quota::from);
        fit(check, quota, limit, window.place)
    }

    fn places(&self) -> (Option<Place>, Option<Place>) {
        (self.0.limit.place, self.0.window.place)
    }
}

/// The length of a fixed window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowLength {
    /// A duration.
    Even(Duration),
    /// A calendar month of 28 to 31 days.
    Month,
}

impl Value for WindowLength {
    const NAME: &'static str = "WindowLength";
    const WHAT: &'static str = "the length of a window";
    const ALLOWED: &'static str =
        "1mo, or a whole number and a unit (ms, s, m, h, d), such as 60s, 15m, 1h or 1d";

    fn read(text: &str) -> Result<Self, Fault> {
        match text {
            "1mo" => Ok(Self::Month),
            months if months.ends_with("mo") => {
                Err(Fault::Because("the only window of months is 1mo"))
            }
            even => Duration::read(even).map(Self::Even),
        }
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern(r"^(1mo|[0-9]+(ms|s|m|h|d))$")
    }
}

/// A time zone of the IANA database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zone(pub(crate) TimeZone);

impl Value for Zone {
    const NAME: &'static str = "Zone";
    const WHAT: &'static str = "a time zone";
    const ALLOWED: &'static str = "a name of the IANA database, such as UTC or Asia/Jakarta";

    fn read(text: &str) -> Result<Self, Fault> {
        // Other forms that the library reads, such as a path or an offset, are refused, so that each zone has one spelling.
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
        let zone = TimeZone::get(text)
            .ok()
            .filter(|_| text.chars().all(is_name));
        zone.map(Self).ok_or(Fault::Form)
    }
}

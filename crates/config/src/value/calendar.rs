//! Values of the calendar: windows that may be months, and time zones.

use std::time::Duration;

use jiff::tz::TimeZone;
use serde_json::Map;

use super::{Fault, Value};

/// How long a fixed window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowLength {
    /// So long.
    Even(Duration),
    /// A month, however long that is.
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
        super::number::pattern(r"^(1mo|[0-9]+(ms|s|m|h|d))$")
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
        // Others, such as a path or an offset, would be a second way to write one.
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
        let zone = TimeZone::get(text)
            .ok()
            .filter(|_| text.chars().all(is_name));
        zone.map(Self).ok_or(Fault::Form)
    }
}

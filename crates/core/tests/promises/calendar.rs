//! Windows of different lengths.

use std::sync::LazyLock;

use tidegate_core::{Calendar, CalendarWindow, Micros, Quota, State, WindowCount};

use crate::traffic::{DAY, request};

/// January to April of an uneven year that starts at day 100.
static MONTHS: LazyLock<Calendar> = LazyLock::new(|| {
    let starts = [100, 131, 159, 190].map(|day| day * DAY);
    Calendar::new("1mo", starts).unwrap()
});

#[test]
fn a_time_is_in_the_window_that_started_last() {
    let windows = |now: Micros| MONTHS.windows(now).map(|time| time / DAY);
    assert_eq!(windows(100 * DAY), [100, 131, 159]);
    assert_eq!(windows(131 * DAY - 1), [100, 131, 159]);
    assert_eq!(windows(131 * DAY), [131, 159, 190]);
    assert_eq!(
        windows(159 * DAY),
        [159, 190, 221],
        "as long as the last one that is known"
    );
    assert_eq!(windows(190 * DAY), [190, 221, 252]);
    assert_eq!(windows(221 * DAY), [221, 252, 283]);
    assert_eq!(
        windows(7),
        [0, 100, 131],
        "before the first there is one window"
    );
}

#[test]
fn starts_must_ascend_and_be_two_at_least() {
    assert_eq!(Calendar::new("1d", []), None);
    assert_eq!(Calendar::new("1d", [5]), None);
    assert_eq!(Calendar::new("1d", [5, 5]), None);
    assert_eq!(Calendar::new("1d", [5, 4]), None);
    assert!(Calendar::new("1d", [4, 5]).is_some());
}

#[test]
fn each_month_has_its_limit_whatever_its_length() {
    let quota = Quota::from(CalendarWindow::new(5, &MONTHS).unwrap());
    let mut state = quota.fresh();
    for (start, end) in [(100, 131), (131, 159), (159, 190), (190, 221)] {
        for at in [start * DAY, end * DAY - 1] {
            for _ in 0..3 {
                request(&quota, &mut state, 1, at);
            }
        }
        let refused = request(&quota, &mut state, 1, end * DAY - 7);
        assert!(!refused.allowed);
        assert_eq!(
            (refused.retry_after, refused.reset, refused.remaining),
            (7, 7, 0)
        );
        assert_eq!(state, counted(start, 5));
    }
}

#[test]
fn a_step_back_over_a_start_hands_nothing_out() {
    let quota = Quota::from(CalendarWindow::new(5, &MONTHS).unwrap());
    let mut state = counted(131, 5);
    let refused = request(&quota, &mut state, 1, 131 * DAY - 1);
    assert_eq!(
        (refused.allowed, refused.retry_after),
        (false, 28 * DAY + 1)
    );
    // After a step back by two windows, the count moves to the current window.
    let mut state = counted(159, 5);
    assert!(!request(&quota, &mut state, 1, 131 * DAY - 1).allowed);
    assert_eq!(state, counted(100, 5));
    assert!(request(&quota, &mut state, 1, 131 * DAY).allowed);
}

fn counted(start: u64, count: u64) -> State {
    let start = start * DAY;
    State::CalendarWindow(WindowCount { start, count })
}

//! The numbers and words of outcomes and classes.

use super::*;

#[test]
fn every_outcome_and_class_stands_at_its_number() {
    for (at, outcome) in RequestOutcome::ALL.into_iter().enumerate() {
        assert_eq!(outcome as usize, at, "{outcome:?}");
    }
    for (at, class) in StatusClass::ALL.into_iter().enumerate() {
        assert_eq!(class as usize, at, "{class:?}");
    }
}

#[test]
fn a_status_has_one_class() {
    for (status, class) in [
        (101, "1xx"),
        (204, "2xx"),
        (304, "3xx"),
        (429, "4xx"),
        (599, "5xx"),
        (999, "other"),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(StatusClass::of(Some(status)).label(), class, "{status}");
    }
    assert_eq!(StatusClass::of(None).label(), "none");
}

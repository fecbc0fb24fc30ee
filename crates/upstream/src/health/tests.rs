//! A server that fails, by a clock that the tests move.

use http::uri::PathAndQuery;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

const EJECT: EjectPlan = EjectPlan {
    after: 3,
    lasts: SECOND,
    at_most: 50,
};

fn checks() -> HealthPlan {
    HealthPlan {
        path: PathAndQuery::from_static("/"),
        every: SECOND,
        timeout: SECOND,
        healthy_after: 2,
        unhealthy_after: 3,
    }
}

#[test]
fn each_ejection_in_a_row_is_twice_as_long() {
    let health = Health::default();
    let mut now = Instant::now();
    for lasts in [1, 2, 4, 8, 16, 32, 32] {
        assert_eq!(health.eject(&EJECT, now), lasts * SECOND);
        assert!(health.is_ejected() && !health.is_in());
        now = health.ejected_until().unwrap();
        health.end_ejection(&EJECT, now);
        assert_eq!(health.ejected_until(), None);
        assert_eq!(health.failed(), EJECT.after, "one failure is enough");
    }
    // It was well for as long as it had been out.
    now += 32 * SECOND;
    assert_eq!(health.eject(&EJECT, now), SECOND);
}

#[test]
fn a_success_forgets_failures() {
    let health = Health::default();
    assert_eq!((health.failed(), health.failed()), (1, 2));
    health.succeeded();
    assert_eq!(health.failed(), 1);
}

#[test]
fn checks_in_a_row_change_what_is_believed() {
    let (health, plan, now) = (Health::default(), checks(), Instant::now());
    let mut believed = Vec::new();
    for passed in [
        true, false, false, true, false, false, false, false, true, false, true, true,
    ] {
        believed.push(health.checked(&plan, passed, now));
    }
    let mut expected = vec![None; 12];
    expected[6] = Some(false);
    expected[11] = Some(true);
    assert_eq!(believed, expected);
}

#[test]
fn of_a_server_that_never_passed_one_bad_answer_is_enough() {
    let (health, now) = (Health::default(), Instant::now());
    assert_eq!(health.checked(&checks(), false, now), Some(false));
    assert_eq!(health.checked(&checks(), true, now), None);
    assert_eq!(health.checked(&checks(), true, now), Some(true));
}

#[test]
fn who_comes_back_starts_with_a_small_share() {
    let (health, start) = (Health::default(), Instant::now());
    let share = |after: u32| health.share(10 * SECOND, start + after * SECOND);
    assert_eq!(share(0), 1.0, "it was always there");
    health.joined(start);
    assert_eq!(
        [share(0), share(1), share(5), share(10), share(99)],
        [0.1, 0.1, 0.5, 1.0, 1.0]
    );
    health.eject(&EJECT, start);
    health.end_ejection(&EJECT, start + 20 * SECOND);
    assert_eq!([share(20), share(25), share(30)], [0.1, 0.5, 1.0]);
}

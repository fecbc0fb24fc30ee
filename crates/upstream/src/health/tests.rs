//! Tests of a failing server. The tests choose the time.

use super::*;
use crate::settings::HealthRequest;

const SECOND: Duration = Duration::from_secs(1);

const EJECT: EjectSettings = EjectSettings {
    after: 3,
    statuses: Vec::new(),
    lasts: SECOND,
    at_most: 50,
};

/// Records a failed request during which no server served another request.
fn fail(health: &Health) {
    let (here, by_all) = (health.served(), 0);
    health.failed(Served { here, by_all });
}

fn checks() -> HealthSettings {
    HealthSettings {
        request: HealthRequest::Grpc { service: "".into() },
        port: None,
        host: None,
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
        assert!(!health.fails(&EJECT, 2));
        fail(&health);
        assert!(health.fails(&EJECT, 2), "one failure is enough");
    }
    // The server stayed in use for as long as the last ejection.
    now += 32 * SECOND;
    assert_eq!(health.eject(&EJECT, now), SECOND);
}

#[test]
fn a_row_of_failures_makes_a_server_failing_until_a_success() {
    let health = Health::default();
    for _ in 0..2 {
        fail(&health);
        assert!(!health.starts_failing(EJECT.after));
    }
    fail(&health);
    assert!(health.starts_failing(EJECT.after));
    assert_eq!(health.state(), State::Failing);
    fail(&health);
    assert!(!health.starts_failing(EJECT.after), "once");
    assert!(health.is_in(), "it gets requests as before");
    assert!(health.succeeded());
    assert_eq!(health.state(), State::Healthy);
    assert!(!health.succeeded(), "once");
}

/// If old failures counted, the server would be ejected again at its next failure, even after a success.
#[test]
fn failures_before_an_ejection_do_not_eject_again() {
    let (health, now) = (Health::default(), Instant::now());
    (0..64).for_each(|_| fail(&health));
    health.eject(&EJECT, now);
    health.end_ejection(&EJECT, now + SECOND);
    health.succeeded();
    fail(&health);
    assert!(!health.fails(&EJECT, 0));
}

#[test]
fn a_success_forgets_failures() {
    let health = Health::default();
    fail(&health);
    fail(&health);
    assert_eq!(health.failures(), 2);
    health.succeeded();
    fail(&health);
    assert_eq!(health.failures(), 1);
}

/// Requests that fail at all servers at the same moment are no sign that one server is broken.
#[test]
fn a_row_of_failures_counts_when_others_have_served_meanwhile() {
    let health = Health::default();
    let by_all = 100;
    for _ in 0..9 {
        health.failed(Served { here: 0, by_all });
        assert!(!health.fails(&EJECT, 101));
    }
    assert!(health.fails(&EJECT, 102));
    let impatient = EjectSettings { after: 1, ..EJECT };
    assert!(health.fails(&impatient, 100));
}

/// A slow request that fails while the server serves other requests is no failure of the server.
#[test]
fn a_failure_does_not_count_if_another_request_was_served_meanwhile() {
    let health = Health::default();
    let before = Served::default();
    health.succeeded();
    for _ in 0..9 {
        health.failed(before);
    }
    assert_eq!(health.failures(), 0);
}

#[test]
fn half_of_the_last_requests_are_too_many_failures() {
    let health = Health::default();
    let failures = |of: u32| {
        for number in 0..2 * of {
            match number % 2 {
                0 => fail(&health),
                _ => _ = health.succeeded(),
            }
        }
    };
    failures(31);
    assert!(!health.fails(&EJECT, 0));
    failures(1);
    assert!(health.fails(&EJECT, 0));
    let patient = EjectSettings { after: 40, ..EJECT };
    assert!(!health.fails(&patient, 0));
}

#[test]
fn a_server_is_compared_with_another() {
    let (one, other) = (Health::default(), Health::default());
    (0..5).for_each(|_| fail(&one));
    assert!(one.fails_more_than(&other));
    fail(&other);
    assert!(one.fails_more_than(&other));
    fail(&other);
    assert!(!one.fails_more_than(&other));
    (0..64).for_each(|_| _ = other.succeeded());
    assert!(one.fails_more_than(&other), "its failures are forgotten");
}

#[test]
fn checks_in_a_row_change_what_is_believed() {
    let (health, settings, now) = (Health::default(), checks(), Instant::now());
    let mut believed = Vec::new();
    for passed in [
        true, false, false, true, false, false, false, false, true, false, true, true,
    ] {
        believed.push(health.checked(&settings, passed, now));
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

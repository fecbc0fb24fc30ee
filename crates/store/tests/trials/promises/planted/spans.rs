//! Faults of too many requests in a time span.

use super::*;

#[test]
fn too_much_in_a_span() {
    for (kind, promise) in [
        (Kind::TokenBucket, "token_bucket"),
        (Kind::FixedWindow, "fixed_window"),
        (Kind::Log, "sliding_window_log"),
        (Kind::Counter, "sliding_window_counter"),
    ] {
        let history = ten(exact(kind));
        // In a bucket, one unit is paid off in 10 ms.
        breaks(history.clone(), admitted(9 * MS), promise);
        let mut later = history;
        later.requests.push(admitted(match kind {
            Kind::TokenBucket => 10 * MS,
            Kind::Counter => 110 * MS,
            _ => 100 * MS,
        }));
        assert_eq!(names(&later), [""; 0]);
    }
    breaks(
        ten(exact(Kind::LeakyBucket)).queued(),
        admitted(9 * MS).queued(10, 9 * MS),
        "leaky_bucket",
    );
}

#[test]
fn a_true_window_of_the_counter() {
    let mut history = exact(Kind::Counter);
    history.requests.extend((0..10).map(|_| admitted(99 * MS)));
    // The estimate allows far fewer requests than this.
    history.requests.extend((0..9).map(|_| admitted(190 * MS)));
    assert!(!names(&history).contains(&"sliding_window_counter_worst"));
    history.requests.push(admitted(190 * MS));
    assert!(names(&history).contains(&"sliding_window_counter_worst"));
}

#[test]
fn the_largest_numbers_count_and_no_more() {
    let mut history = ten(exact(Kind::TokenBucket));
    let mut small = admitted(0);
    small.charges[0].numbers.limit = 2;
    breaks(history.clone(), small, "token_bucket");
    // A reset allows the limit to be used once more.
    let span = Span::at(START + MS);
    let (limit, key, done) = (0, 0, true);
    history.resets.push(Reset {
        limit,
        key,
        span,
        done,
    });
    history.requests.extend((0..10).map(|_| admitted(MS)));
    breaks(history, admitted(MS), "token_bucket");
}

#[test]
fn a_replica_that_was_behind_may_have_forgotten_some() {
    let mut history = ten(exact(Kind::FixedWindow));
    let begin = START + 5 * MS;
    let end = START + 10 * MS;
    let span = Span { begin, end };
    let is_whole = false;
    history.losses.push(Loss { span, is_whole });
    // The replica may still have the charges from before the loss.
    history.requests.push(refused(15 * MS, Via::Store));
    history.requests.extend((0..10).map(|_| admitted(20 * MS)));
    breaks(history, admitted(20 * MS), "fixed_window");
}

#[test]
fn a_script_at_a_step_may_have_forgotten_its_key() {
    let mut history = ten(exact(Kind::FixedWindow));
    let span = Span::at(START + 5 * MS);
    history.steps.push(Step { span, ahead: 0 });
    breaks(history.clone(), admitted(20 * MS), "fixed_window");
    history.requests.push(refused(5 * MS, Via::Store));
    history.requests.extend((0..10).map(|_| admitted(20 * MS)));
    breaks(history, admitted(20 * MS), "fixed_window");
}

#[test]
fn settlements() {
    let mut history = ten(exact(Kind::FixedWindow));
    for request in &mut history.requests[..3] {
        request.settled = Some(START + 10 * MS);
        request.charges[0].used = Some(0);
    }
    let mut early = history.clone();
    history.requests.extend((0..3).map(|_| admitted(20 * MS)));
    breaks(history, admitted(20 * MS), "fixed_window");
    early.requests.push(admitted(5 * MS));
    assert_eq!(names(&early), ["fixed_window"]);
}

#[test]
fn slices_and_counts() {
    let slice = |at| {
        let mut request = admitted(at);
        request.charges[0].here = true;
        request.charges[0].at = request.asked;
        request.said = Said::Decided {
            outcome: Outcome::Admitted,
            via: Via::Here,
            error: None,
        };
        request
    };
    let mut leased = of(Kind::FixedWindow, Mode::Leased, OnFailure::Closed);
    leased
        .requests
        .extend((1..11).map(|nth| slice(nth * 9 * MS)));
    breaks(leased.clone(), slice(95 * MS), "leased");
    leased.limits[0].mode = Mode::Synced;
    leased.unseen = 0;
    // Each gateway admits one request before it receives the count of the other.
    leased.requests.push(slice(95 * MS));
    leased.requests.last_mut().unwrap().gateway = 1;
    breaks(leased, slice(98 * MS), "synced");
}

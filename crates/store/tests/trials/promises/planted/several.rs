//! Faults in requests with several limits, in retry-after, and at changes of mode.

use tidegate_core::Block;

use super::*;

/// The time from a request to the end of its window of 100 ms.
fn rest(at: Micros) -> Micros {
    WINDOW - at % WINDOW
}

/// A history of two limits that are used up, each by ten requests at the start. The second limit has a window ten times as long.
fn two(mode: Mode) -> History {
    let mut history = exact(Kind::FixedWindow);
    let mut other = history.limits[0].clone();
    other.window = 10 * WINDOW;
    history.limits[0].mode = mode;
    history.limits.push(other);
    for limit in 0..2 {
        for _ in 0..10 {
            let mut request = admitted(0);
            let charge = &mut request.charges[0];
            charge.limit = limit;
            if limit == 0 && mode != Mode::Exact {
                charge.here = true;
                request.said = by(Outcome::Admitted, Via::Here);
            }
            history.requests.push(request);
        }
    }
    history
}

fn by(outcome: Outcome, via: Via) -> Said {
    Said::Decided {
        outcome,
        via,
        error: None,
    }
}

/// A refusal by the first limit, and also by the second limit if `second` has its retry-after.
fn both(at: Micros, via: Via, second: Option<Micros>) -> Request {
    let mut request = refused(at, via);
    let mut other = request.charges[0].clone();
    request.charges[0].verdict.as_mut().unwrap().retry_after = rest(at);
    other.limit = 1;
    other.verdict = second.map(|retry_after| Verdict {
        allowed: false,
        retry_after,
        ..VERDICT
    });
    request.charges.push(other);
    request
}

#[test]
fn every_limit_that_refuses_is_named() {
    let long = 10 * WINDOW - 20 * MS;
    for mode in [Mode::Exact, Mode::Local, Mode::Synced] {
        let via = if mode == Mode::Exact {
            Via::Store
        } else {
            Via::Here
        };
        let request = |second| {
            let mut request = both(20 * MS, via, second);
            request.charges[0].here = mode != Mode::Exact;
            request
        };
        let mut history = two(mode);
        // The gateway received the second limit's refusal a moment ago.
        let mut asked = refused(12 * MS, Via::Store);
        asked.charges[0].limit = 1;
        asked.charges[0].verdict.as_mut().unwrap().retry_after = long + 8 * MS;
        history.requests.push(asked);
        let mut named = history.clone();
        named.requests.push(request(Some(long)));
        assert_eq!(names(&named), [""; 0], "{mode:?}");
        let silent = match mode {
            // Redis has decided on both limits.
            Mode::Exact => {
                let mut request = request(Some(long));
                request.charges[1].verdict.as_mut().unwrap().allowed = true;
                request
            }
            _ => request(None),
        };
        breaks(history.clone(), silent.clone(), "several");
        breaks(history.clone(), silent, "retry_after");
        breaks(history, request(Some(50 * MS)), "retry_after");
    }
}

/// Another gateway used up the limit. This gateway has an answer that left room, or no answer.
#[test]
fn limits_that_a_gateway_does_not_know_to_refuse() {
    let elsewhere = |mut history: History| {
        for request in &mut history.requests[10..] {
            request.gateway = 1;
        }
        history
    };
    let mut history = elsewhere(two(Mode::Local));
    let mut early = admitted(0);
    early.asked.begin -= MS;
    early.asked.end = early.asked.begin + 1;
    early.charges[0].limit = 1;
    early.charges[0].verdict.as_mut().unwrap().remaining = 9;
    early.charges[0].at = Span::at(early.asked.begin);
    history.requests[10] = early;
    let mut request = both(20 * MS, Via::Here, None);
    request.charges[0].here = true;
    history.requests.push(request.clone());
    assert_eq!(names(&history), [""; 0]);
    // Without an answer, the gateway must call Redis, unless it still waits for the answer to a client that has left.
    let asked_before = |left: bool| {
        let mut history = elsewhere(two(Mode::Local));
        let mut before = request.clone();
        before.asked = Span::at(START - 300 * MS);
        if left {
            before.said = Said::Aborted;
        }
        history.requests.push(before);
        history
    };
    let mut history = asked_before(true);
    history.requests.push(request.clone());
    assert_eq!(names(&history), [""; 0]);
    breaks(asked_before(false), request, "several");
    // A limit of `mode: local` is always checked.
    let mut history = two(Mode::Exact);
    history.limits[1].mode = Mode::Local;
    breaks(history, both(20 * MS, Via::Remembered, None), "several");
}

/// A refusal of a small cost is repeated for a large cost.
#[test]
fn a_refusal_that_is_too_short_for_its_cost() {
    let mut history = ten(exact(Kind::Log));
    history.requests.truncate(9);
    let mut late = admitted(50 * MS);
    late.charges[0].verdict.as_mut().unwrap().remaining = 0;
    history.requests.push(late);
    let mut small = refused(60 * MS, Via::Store);
    small.charges[0].verdict.as_mut().unwrap().retry_after = 40 * MS;
    history.requests.push(small);
    let mut large = refused(65 * MS, Via::Remembered);
    large.charges[0].cost = 10;
    large.charges[0].verdict.as_mut().unwrap().retry_after = 85 * MS;
    let mut right = history.clone();
    right.requests.push(large.clone());
    assert_eq!(names(&right), [""; 0]);
    large.charges[0].verdict.as_mut().unwrap().retry_after = 35 * MS;
    breaks(history, large, "retry_after");
}

#[test]
fn a_refusal_that_is_shorter_than_its_block() {
    let mut history = ten(exact(Kind::FixedWindow));
    history.limits[0].block = Some(Block {
        span: 300 * MS,
        extend: false,
    });
    let told = |at, left| {
        let mut request = refused(at, Via::Store);
        request.charges[0].verdict.as_mut().unwrap().retry_after = left;
        request
    };
    history.requests.push(told(10 * MS, 300 * MS));
    let mut right = history.clone();
    right.requests.push(told(20 * MS, 290 * MS));
    assert_eq!(names(&right), [""; 0]);
    breaks(history, told(20 * MS, 80 * MS), "retry_after");
}

#[test]
fn a_block_that_should_have_begun() {
    let mut history = two(Mode::Local);
    history.limits[1].block = Some(Block {
        span: 2_000 * MS,
        extend: false,
    });
    let mut request = both(20 * MS, Via::Here, None);
    request.charges[0].here = true;
    let mut after = admitted(1_100 * MS);
    after.charges[0].limit = 1;
    let mut broken = history.clone();
    broken.requests.extend([request, after.clone()]);
    assert!(names(&broken).contains(&"several_block"));
    // The gateway received an answer that left room a moment ago.
    let mut asked = admitted(MS);
    asked.charges[0].limit = 1;
    asked.charges[0].verdict.as_mut().unwrap().remaining = 5;
    asked.charges[0].cost = 0;
    let mut request = both(20 * MS, Via::Here, None);
    request.charges[0].here = true;
    history.requests.extend([asked, request, after]);
    assert_eq!(names(&history), [""; 0]);
}

#[test]
fn a_block_that_a_gateway_does_not_prolong() {
    let mut history = ten(exact(Kind::FixedWindow));
    let span = 1_000 * MS;
    history.limits[0].block = Some(Block { span, extend: true });
    let told = |at, via, left| {
        let mut request = refused(at, via);
        request.charges[0].verdict.as_mut().unwrap().retry_after = left;
        request
    };
    history.requests.push(told(10 * MS, Via::Store, span));
    history
        .requests
        .push(told(260 * MS, Via::Remembered, 750 * MS));
    breaks(
        history,
        told(450 * MS, Via::Remembered, 560 * MS),
        "block_ends",
    );
}

#[test]
fn a_reset_that_comes_late() {
    let mut history = ten(exact(Kind::FixedWindow));
    history.limits[0].window = 3_600_000 * MS;
    history.resets.push(Reset {
        limit: 0,
        key: 0,
        span: Span {
            begin: START + 5 * MS,
            end: START + 105 * MS,
        },
        done: false,
    });
    // A failed reset may have been made before its answer.
    let mut early = history.clone();
    early.requests.extend((0..10).map(|_| admitted(50 * MS)));
    assert_eq!(names(&early), [""; 0]);
    let mut late = history.clone();
    late.requests.clear();
    late.requests.extend((0..10).map(|_| admitted(110 * MS)));
    breaks(late, admitted(400 * MS), "reset");
    // Charges after the answer are kept.
    let look = |remaining| Look {
        limit: 0,
        key: Some(0),
        numbers: TEN,
        at: START + 2_000 * MS,
        remaining,
        lent: None,
    };
    history.requests.truncate(9);
    history.requests.push(admitted(200 * MS));
    history.looks.push(look(9));
    assert_eq!(names(&history), [""; 0]);
    history.looks.push(look(10));
    assert_eq!(names(&history), ["reset"]);
}

#[test]
fn a_limit_that_leaves_its_slices() {
    let leaving = |gateway| {
        let mut history = of(Kind::FixedWindow, Mode::Leased, OnFailure::Closed);
        history.limits[0].becomes = Some(Mode::Exact);
        for nth in 0..10 {
            let mut request = admitted(if nth < 5 { nth * MS } else { (20 + nth) * MS });
            let charge = &mut request.charges[0];
            if nth < 5 {
                charge.here = true;
                request.said = by(Outcome::Admitted, Via::Here);
                request.gateway = gateway;
            } else {
                charge.changed = Some(Mode::Exact);
            }
            history.requests.push(request);
        }
        history
    };
    let more = |at| {
        let mut request = admitted(at);
        request.charges[0].changed = Some(Mode::Exact);
        request
    };
    breaks(leaving(0), more(50 * MS), "leaving_leased");
    // Another gateway has not left `mode: leased` yet.
    let mut other = leaving(1);
    other.requests[4].asked.end += 20 * MS;
    other.requests.push(more(50 * MS));
    assert_eq!(names(&other), [""; 0]);
}

#[test]
fn places_that_gateways_gave_away_in_an_outage() {
    let runs = |mut request: Request| {
        request.ran_until = Some(START + 3_000 * MS);
        request
    };
    let mut history = of(Kind::Concurrency, Mode::Exact, OnFailure::Local);
    history.requests.extend((0..5).map(|_| runs(alone(0, 0))));
    history
        .requests
        .extend((0..5).map(|_| runs(admitted(2_000 * MS))));
    breaks(history.clone(), admitted(2_010 * MS), "concurrency");
    // The outage has just ended.
    history.troubles.push(Trouble {
        gateway: None,
        kind: "Redis frozen",
        span: Span {
            begin: START,
            end: START + 1_900 * MS,
        },
    });
    history.requests.push(admitted(2_010 * MS));
    assert_eq!(names(&history), [""; 0]);
}

#[test]
fn what_is_kept_of_slices() {
    let mut history = of(Kind::FixedWindow, Mode::Leased, OnFailure::Closed);
    history.limits[0].window = 3_600_000 * MS;
    for nth in 0..5 {
        let mut request = admitted(nth * MS);
        request.charges[0].here = true;
        request.said = by(Outcome::Admitted, Via::Here);
        history.requests.push(request);
    }
    let kept = |history: &History, remaining, lent| {
        let mut history = history.clone();
        history.looks.push(Look {
            limit: 0,
            key: Some(0),
            numbers: TEN,
            at: START + 1_000 * MS,
            remaining,
            lent: Some(lent),
        });
        names(&history)
    };
    assert_eq!(kept(&history, 5, 0), [""; 0]);
    assert_eq!(kept(&history, 4, 0), ["kept"]);
    // The units that a killed gateway has spent are still lent.
    history.ends.push(End {
        gateway: 0,
        at: START + 50 * MS,
        in_order: false,
    });
    assert_eq!(kept(&history, 10, 5), [""; 0]);
    assert_eq!(kept(&history, 10, 4), ["kept"]);
}

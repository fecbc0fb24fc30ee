//! Faults in places, shares, refusals, kept budgets, and the order of queues.

use tidegate_core::Block;
use tidegate_store::StoreError;

use super::*;

#[test]
fn places() {
    let runs = |at: Micros, time: Micros| {
        let mut request = admitted(at);
        request.ran_until = Some(START + at + time);
        request
    };
    let mut history = exact(Kind::Concurrency);
    history
        .requests
        .extend((0..10).map(|nth| runs(nth, 500 * MS)));
    history.requests.push(runs(501 * MS, MS));
    breaks(history.clone(), runs(200 * MS, MS), "concurrency");
    // Places may be lost if a gateway could not renew them for this time, until it has had time to register them again.
    history.requests.push(runs(1_000 * MS, 2_000 * MS));
    history
        .requests
        .extend((0..9).map(|nth| runs(1_001 * MS + nth, 2_000 * MS)));
    let begin = START + 1_100 * MS;
    let end = begin + 60 * MS;
    let span = Span { begin, end };
    history.troubles.push(Trouble {
        gateway: Some(0),
        kind: "paused",
        span,
    });
    history.requests.push(runs(1_155 * MS, MS));
    breaks(history.clone(), runs(1_140 * MS, MS), "concurrency");
    breaks(history, runs(1_800 * MS, MS), "concurrency");
}

#[test]
fn reserved_units() {
    let held = |at: Micros, until: Micros| {
        let mut request = admitted(at);
        request.charges[0].cost = 3;
        request.charges[0].used = Some(1);
        request.settled = Some(START + until);
        request
    };
    let mut history = exact(Kind::FixedWindow);
    history.limits[0].reserves = true;
    history.requests.push(held(0, 500 * MS));
    history.requests.push(held(MS, 500 * MS));
    history.requests.push(held(2 * MS, 10 * MS));
    history.requests.push(held(20 * MS, 500 * MS));
    breaks(history.clone(), held(30 * MS, 40 * MS), "reserve");
    // Holds may have lapsed if their gateway could not renew them.
    history.troubles.push(Trouble {
        gateway: Some(0),
        kind: "paused",
        span: Span {
            begin: START + 21 * MS,
            end: START + 400 * MS,
        },
    });
    history.requests.push(held(380 * MS, 390 * MS));
    assert_eq!(names(&history), [""; 0]);
}

#[test]
fn shares() {
    let mut history = of(Kind::FixedWindow, Mode::Exact, OnFailure::Local);
    history.requests.extend((0..5).map(|_| alone(0, 0)));
    history.requests.extend((0..5).map(|_| alone(0, 1)));
    breaks(history.clone(), alone(MS, 1), "on_failure_local");
    history.gateways = None;
    for count in [2, 1] {
        history.counts.push(Count {
            gateway: 1,
            at: START - 5 * MS + count,
            count,
        });
    }
    breaks(history, alone(MS, 1), "on_failure_local");
    let mut own = ten(of(Kind::FixedWindow, Mode::Local, OnFailure::Local));
    own.requests.extend((0..10).map(|_| alone(0, 1)));
    breaks(own, alone(MS, 1), "local");
    let closed = ten(exact(Kind::FixedWindow));
    breaks(closed, alone(MS, 0), "on_failure_closed");
    let runs = |at| {
        let mut request = alone(at, 1);
        request.ran_until = Some(START + 500 * MS);
        request
    };
    let mut places = of(Kind::Concurrency, Mode::Exact, OnFailure::Local);
    places.requests.extend((0..5).map(|_| runs(0)));
    breaks(places, runs(5 * MS), "concurrency");
    // Redis has decided, and its answer reaches the gateway later.
    let answered = |at| {
        let mut history = of(Kind::Concurrency, Mode::Exact, OnFailure::Local);
        let mut request = admitted(0);
        request.gateway = 1;
        request.asked.end = START + at;
        request.ran_until = Some(START + 500 * MS);
        history.requests.extend(vec![request; 5]);
        history
    };
    breaks(answered(4 * MS), runs(5 * MS), "concurrency");
    let mut unheard = answered(6 * MS);
    unheard.requests.push(runs(5 * MS));
    assert_eq!(names(&unheard), [""; 0]);
}

#[test]
fn refusals() {
    for (kind, free) in [
        (Kind::TokenBucket, 10 * MS),
        (Kind::LeakyBucket, 10 * MS),
        (Kind::FixedWindow, 100 * MS),
        (Kind::Log, 101 * MS),
        (Kind::Counter, 112 * MS),
    ] {
        let mut history = ten(exact(kind));
        if kind == Kind::LeakyBucket {
            history = history.queued();
        }
        history.requests.push(refused(free - 2 * MS, Via::Store));
        breaks(history.clone(), refused(free + MS, Via::Store), "refusal");
        // The refusal is remembered from the arrival of its answer on.
        history
            .requests
            .push(refused(free + 5 * MS, Via::Remembered));
        breaks(
            history,
            refused(free + 50 * MS, Via::Remembered),
            "remembered_refusal",
        );
    }
    // A call without an answer may have charged units.
    let mut history = exact(Kind::FixedWindow);
    history.requests.extend((0..9).map(|_| admitted(0)));
    breaks(history.clone(), refused(5 * MS, Via::Store), "refusal");
    let mut lost = admitted(0);
    lost.said = Said::Aborted;
    history.requests.push(lost);
    history.requests.push(refused(5 * MS, Via::Store));
    assert_eq!(names(&history), [""; 0]);
    let mut places = exact(Kind::Concurrency);
    places.requests.extend((0..10).map(|_| admitted(0)));
    places.requests.push(refused(2 * MS, Via::Store));
    breaks(places, refused(1_500 * MS, Via::Store), "refusal");
}

#[test]
fn who_comes_back_and_what_is_kept() {
    let mut history = ten(exact(Kind::Log));
    let mut again = Return {
        limit: 0,
        key: 0,
        refused: START,
        retry_after: MS,
        asked_again: START + MS,
        admitted: true,
    };
    history.returns.push(again);
    assert_eq!(names(&history), [""; 0]);
    again.admitted = false;
    history.returns.push(again);
    assert_eq!(names(&history), ["retry_after"]);
    // A gateway does not have the charges of other gateways since the answer that it remembers.
    let told = |via, charged_by| {
        let mut history = history.clone();
        let by = |request: &mut Request| request.gateway = charged_by;
        history.requests.iter_mut().for_each(by);
        history.requests.push(refused(40 * MS, via));
        history.returns[1].refused = START + 50 * MS;
        names(&history)
    };
    assert_eq!(told(Via::Remembered, 0), ["retry_after"]);
    assert_eq!(told(Via::Store, 1), ["retry_after"]);
    assert_eq!(told(Via::Remembered, 1), [""; 0]);
    // The refusal of a gateway without a slice is as old as its last call.
    let without_slice = |called_at| {
        let mut history = history.clone();
        history.limits[0].mode = Mode::Leased;
        let by = |request: &mut Request| request.gateway = 1;
        history.requests.iter_mut().for_each(by);
        history.requests.push(refused(called_at, Via::Store));
        history.requests.push(refused(40 * MS, Via::Here));
        history.returns[1].refused = START + 50 * MS;
        names(&history)
    };
    assert_eq!(without_slice(0), [""; 0]);
    assert_eq!(without_slice(5 * MS), ["retry_after"]);
    // If the request has another limit, the call may have been about that limit.
    let beside = |limits| {
        let mut history = history.clone();
        history.limits[0].mode = Mode::Leased;
        history.limits.push(history.limits[0].clone());
        let by = |request: &mut Request| request.gateway = 1;
        history.requests.iter_mut().for_each(by);
        let mut request = refused(40 * MS, Via::Store);
        let other = Charge {
            limit: 1,
            verdict: Some(VERDICT),
            ..request.charges[0].clone()
        };
        request.charges.extend((1..limits).map(|_| other.clone()));
        history.requests.push(request);
        history.returns[1].refused = START + 50 * MS;
        names(&history)
    };
    assert_eq!(beside(1), ["retry_after"]);
    assert_eq!(beside(2), [""; 0]);
    // The gateway does not have refusals of other gateways either, which extend a block.
    let extended = |extend, refused_by| {
        let mut history = history.clone();
        history.limits[0].block = Some(Block {
            span: 30 * MS,
            extend,
        });
        history.requests.push(refused(10 * MS, Via::Store));
        let mut other = refused(35 * MS, Via::Store);
        other.gateway = refused_by;
        history.requests.push(other);
        history.requests.push(refused(40 * MS, Via::Remembered));
        history.returns[1].refused = START + 50 * MS;
        names(&history)
    };
    assert!(extended(true, 0).contains(&"retry_after"));
    assert!(extended(false, 1).contains(&"retry_after"));
    assert!(!extended(true, 1).contains(&"retry_after"));
    // A late answer of Redis sets the clock of a synced limit ahead.
    let late = |ended: Micros| {
        let mut history = history.clone();
        history.limits[0].mode = Mode::Synced;
        history.returns[1].refused = START + 2_000 * MS;
        history.troubles.push(Trouble {
            gateway: None,
            kind: "Redis paused",
            span: Span::at(START + ended),
        });
        names(&history).contains(&"retry_after")
    };
    assert!(late(900 * MS));
    assert!(!late(1_100 * MS));
    history.returns.clear();

    let look = |key, remaining| Look {
        limit: 0,
        key,
        numbers: TEN,
        at: START + 50 * MS,
        remaining,
        lent: None,
    };
    history
        .looks
        .extend([look(Some(0), 0), look(Some(1), 10), look(None, 10)]);
    assert_eq!(names(&history), [""; 0]);
    for (look, promise) in [
        (look(Some(0), 1), "kept"),
        (look(Some(1), 9), "kept"),
        (look(None, 9), "fresh_key"),
    ] {
        let mut broken = history.clone();
        broken.looks.push(look);
        assert_eq!(names(&broken), [promise]);
    }
}

#[test]
fn what_a_replica_that_takes_over_may_have_missed() {
    let mut history = exact(Kind::FixedWindow);
    // The last second of the trial is within the window.
    history.limits[0].window = 3_600_000 * MS;
    let mut request = admitted(0);
    request.charges[0].used = Some(0);
    request.settled = Some(START + 2 * MS);
    history.requests.push(request);
    let look = |remaining| Look {
        limit: 0,
        key: Some(0),
        numbers: TEN,
        at: START + 1_000 * MS,
        remaining,
        lent: None,
    };
    let kept = |history: &History, remaining| {
        let mut history = history.clone();
        history.looks.push(look(remaining));
        names(&history)
    };
    assert_eq!(kept(&history, 10), [""; 0]);
    assert_eq!(kept(&history, 9), ["kept"]);
    // A settlement may be missing in the replica, but no other units.
    history.losses.push(Loss {
        span: Span {
            begin: START + 50 * MS,
            end: START + 60 * MS,
        },
        is_whole: false,
    });
    assert_eq!(kept(&history, 10), [""; 0]);
    assert_eq!(kept(&history, 9), [""; 0]);
    assert_eq!(kept(&history, 8), ["kept"]);
}

/// The replica still has the hold, after a time in which the units of a charge would be free again.
#[test]
fn a_hold_whose_end_a_replica_may_have_missed() {
    let mut history = exact(Kind::TokenBucket);
    history.limits[0].reserves = true;
    let mut request = admitted(0);
    request.charges[0].used = Some(0);
    request.settled = Some(START + 2 * MS);
    history.requests.push(request);
    history.looks.push(Look {
        limit: 0,
        key: Some(0),
        numbers: TEN,
        at: START + 1_000 * MS,
        remaining: 9,
        lent: None,
    });
    assert_eq!(names(&history), ["kept"]);
    history.losses.push(Loss {
        span: Span {
            begin: START + 50 * MS,
            end: START + 60 * MS,
        },
        is_whole: false,
    });
    assert_eq!(names(&history), [""; 0]);
}

#[test]
fn a_settlement_that_is_sent_again() {
    let mut history = exact(Kind::FixedWindow);
    history.limits[0].window = 10 * MS;
    history.limits[0].reserves = true;
    let mut request = admitted(0);
    request.charges[0].used = Some(5);
    request.settled = Some(START + 2 * MS);
    history.requests.push(request);
    // A settlement is charged in the window in which it arrives.
    history.looks.push(Look {
        limit: 0,
        key: Some(0),
        numbers: TEN,
        at: START + 1_005 * MS,
        remaining: 5,
        lent: None,
    });
    assert_eq!(names(&history), ["kept"]);
    history.troubles.push(Trouble {
        gateway: None,
        kind: "call lost",
        span: Span {
            begin: START,
            end: START + 400 * MS,
        },
    });
    assert_eq!(names(&history), [""; 0]);
}

#[test]
fn a_hold_that_lapses_by_a_step_is_charged_as_reserved() {
    let mut history = exact(Kind::FixedWindow);
    history.limits[0].window = 3_600_000 * MS;
    history.limits[0].reserves = true;
    let mut request = admitted(0);
    request.charges[0].used = Some(5);
    request.settled = Some(START + 20 * MS);
    history.requests.push(request);
    history.looks.push(Look {
        limit: 0,
        key: Some(0),
        numbers: TEN,
        at: START + 1_000 * MS,
        remaining: 9,
        lent: None,
    });
    assert_eq!(names(&history), ["kept"]);
    let span = Span::at(START + 5 * MS);
    history.steps.push(Step { span, ahead: 0 });
    assert_eq!(names(&history), [""; 0]);
}

#[test]
fn a_queue_that_is_overtaken() {
    let mut history = exact(Kind::LeakyBucket);
    history.requests.extend((0..3).map(|_| admitted(0)));
    let history = history.queued();
    breaks(history.clone(), admitted(MS).queued(2, MS), "delay");
    let mut late = history;
    late.requests.push(admitted(MS).queued(3, MS));
    assert_eq!(names(&late), [""; 0]);
}

#[test]
fn every_promise_has_a_name_and_a_sentence_of_its_own() {
    let mut names: Vec<_> = ALL.iter().map(|promise| promise.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALL.len());
    assert!(ALL.iter().all(|promise| promise.words.ends_with('.')));
}

/// The documentation has the sentence of each promise, word for word.
#[test]
fn the_documentation_repeats_every_promise() {
    let page = include_str!("../../../../../../docs/promises.md");
    for promise in ALL {
        let row = format!("| `{}` | {} |", promise.name, promise.words);
        assert!(page.contains(&row), "missing: {row}");
    }
}

#[test]
fn outages_that_are_not_noticed() {
    let vain = |at: Micros| {
        let mut request = alone(at, 0);
        request.within = Some(2 * MS);
        request.said = Said::Decided {
            outcome: Outcome::Unavailable,
            via: Via::Fallback,
            error: Some(StoreError::Timeout.to_string()),
        };
        request
    };
    let not_asked = |at: Micros| {
        let mut request = vain(at);
        request.said = Said::Decided {
            outcome: Outcome::Unavailable,
            via: Via::Fallback,
            error: Some(StoreError::NotAsked.to_string()),
        };
        request
    };
    let mut history = exact(Kind::FixedWindow);
    history.outages.push(Span {
        begin: START,
        end: START + 2_000 * MS,
    });
    // Five timeouts and their tolerances end after 128 ms.
    let waits = (0..42).map(|nth| vain(10 * MS * nth + 2 * MS));
    history.requests.extend(waits);
    let last = vain(440 * MS);
    breaks(history.clone(), last.clone(), "noticed");
    history.requests.extend([not_asked(400 * MS), last]);
    assert_eq!(names(&history), [""; 0]);
    // A busy machine notices later.
    history.requests.retain(is_vain);
    assert_eq!(names(&history), ["noticed"]);
    let begin = START + 100 * MS;
    let end = begin + 90 * MS;
    history.troubles.push(Trouble {
        gateway: None,
        kind: "stall",
        span: Span { begin, end },
    });
    assert_eq!(names(&history), [""; 0]);
}

#[test]
fn holds_of_decisions_that_were_given_up() {
    let mut history = exact(Kind::FixedWindow);
    history.limits[0].window = 10_000 * MS;
    history.limits[0].reserves = true;
    history.requests.extend((0..9).map(|_| admitted(0)));
    let mut short = admitted(0);
    short.within = Some(2 * MS);
    short.said = Said::Decided {
        outcome: Outcome::Unavailable,
        via: Via::Fallback,
        error: Some(StoreError::Timeout.to_string()),
    };
    history.requests.push(short);
    // The end of the hold may not have arrived yet.
    history.requests.push(refused(20 * MS, Via::Store));
    breaks(history.clone(), refused(900 * MS, Via::Store), "refusal");
    // The end of the hold may be lost.
    history.requests.push(refused(900 * MS, Via::Store));
    let begin = START + 10 * MS;
    let end = begin + MS;
    history.troubles.push(Trouble {
        gateway: Some(0),
        kind: "paused",
        span: Span { begin, end },
    });
    assert_eq!(names(&history), [""; 0]);
}

fn is_vain(request: &Request) -> bool {
    let vain = StoreError::Timeout.to_string();
    matches!(&request.said, Said::Decided { error: Some(error), .. } if *error == vain)
}

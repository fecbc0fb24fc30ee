//! Blocks, limits that only count, and windows of a calendar.

use tidegate_core::Block;

use super::*;

fn blocking(extend: bool) -> History {
    let mut history = ten(exact(Kind::FixedWindow));
    let span = 300 * MS;
    history.limits[0].block = Some(Block { span, extend });
    history.requests.push(refused(10 * MS, Via::Store));
    history
}

#[test]
fn a_block_lasts_until_its_end() {
    breaks(blocking(false), admitted(305 * MS), "block");
    let mut over = blocking(false);
    over.requests.push(admitted(311 * MS));
    assert_eq!(names(&over), [""; 0]);
    // A reset may have come after the refusal, or before it.
    let mut lifted = blocking(false);
    let begin = START + 5 * MS;
    let end = START + 15 * MS;
    lifted.resets.push(Reset {
        limit: 0,
        key: 0,
        span: Span { begin, end },
        done: true,
    });
    lifted.requests.push(admitted(120 * MS));
    assert_eq!(names(&lifted), [""; 0]);
    // With `extend`, a refused request prolongs the block.
    let mut longer = blocking(true);
    longer.requests.push(refused(200 * MS, Via::Store));
    breaks(longer, admitted(490 * MS), "block");
    let mut same = blocking(false);
    same.requests.push(refused(200 * MS, Via::Store));
    same.requests.push(admitted(490 * MS));
    assert_eq!(names(&same), [""; 0]);
    // The same for a limit of `mode: local`.
    let mut own = blocking(false);
    own.limits[0].mode = Mode::Local;
    for request in &mut own.requests {
        let verdict = request.charges[0].verdict.as_mut().unwrap();
        verdict.retry_after = 300 * MS;
    }
    let mut other = admitted(200 * MS);
    other.gateway = 1;
    own.requests.push(other);
    breaks(own, admitted(305 * MS), "block");
}

/// A call together with a remembered refusal may begin a block, even if its answer is lost.
#[test]
fn a_block_that_began_without_an_answer() {
    let after = |error: Option<&str>| {
        let mut history = ten(exact(Kind::FixedWindow));
        let span = 300 * MS;
        history.limits[0].block = Some(Block {
            span,
            extend: false,
        });
        let mut remembered = refused(10 * MS, Via::Remembered);
        if let Said::Decided { error: said, .. } = &mut remembered.said {
            *said = error.map(str::to_owned);
        }
        history.requests.push(remembered);
        history.requests.push(refused(200 * MS, Via::Store));
        history.requests.push(admitted(320 * MS));
        names(&history).contains(&"block")
    };
    assert!(after(None));
    assert!(!after(Some("no answer")));
}

/// The retry-after of a gateway without Redis is about its share. The block may end before it.
#[test]
fn a_block_that_goes_on_in_an_outage() {
    let outage = || {
        let mut history = blocking(false);
        history.limits[0].on_failure = OnFailure::Local;
        let mut here = refused(200 * MS, Via::Fallback);
        here.charges[0].here = true;
        here.charges[0].verdict.as_mut().unwrap().retry_after = 150 * MS;
        history.requests.push(here);
        history
    };
    let admitted_here = |limit| {
        let mut request = alone(320 * MS, 0);
        request.charges[0].numbers.limit = limit;
        request
    };
    breaks(outage(), admitted_here(10), "block");
    // A reload changes the share.
    let mut reloaded = outage();
    reloaded.requests.push(admitted_here(20));
    assert_eq!(names(&reloaded), [""; 0]);
}

#[test]
fn a_block_that_a_replica_may_have_missed() {
    let lost = |begin| {
        let mut history = blocking(false);
        let (begin, end) = (START + begin, START + begin + 5 * MS);
        let span = Span { begin, end };
        let is_whole = false;
        history.losses.push(Loss { span, is_whole });
        history
    };
    let mut missed = lost(60 * MS);
    missed.requests.push(admitted(120 * MS));
    assert_eq!(names(&missed), [""; 0]);
    breaks(lost(200 * MS), admitted(150 * MS), "block");
}

#[test]
fn a_block_across_a_step_of_the_clock() {
    let stepped = |left| {
        let mut history = blocking(false);
        for request in &mut history.requests {
            let verdict = request.charges[0].verdict.as_mut().unwrap();
            verdict.retry_after = left;
        }
        let span = Span::at(START - 500 * MS);
        history.steps.push(Step { span, ahead: 0 });
        history
    };
    // The block began before the step. Its rest is the retry-after of the refusal.
    let mut over = stepped(50 * MS);
    over.requests.push(admitted(120 * MS));
    assert_eq!(names(&over), [""; 0]);
    breaks(stepped(300 * MS), admitted(120 * MS), "block");
    // A request that was sent before the refusal may be decided by the clock before the step.
    let mut early = stepped(300 * MS);
    let mut request = admitted(120 * MS);
    request.asked = Span::at(START + 5 * MS);
    early.requests.push(request);
    assert_eq!(names(&early), [""; 0]);
}

#[test]
fn a_block_lasts_longer_if_its_clock_is_stepped_back() {
    let stepped = |kind, by: i64| {
        let mut history = ten(exact(kind));
        let span = 300 * MS;
        history.limits[0].block = Some(Block {
            span,
            extend: false,
        });
        let mut first = refused(10 * MS, Via::Store);
        // The block alone does not cause this retry-after.
        first.charges[0].verdict.as_mut().unwrap().retry_after = 1_000 * MS;
        history.requests.push(first);
        let ahead = -by * MS.cast_signed();
        let span = Span::at(START + 100 * MS);
        history.steps.push(Step { span, ahead });
        history
    };
    let after = |mut request: Request, by: Micros| {
        let at = &mut request.charges[0].at;
        *at = Span::at(at.begin - by * MS);
        if let Some(verdict) = &mut request.charges[0].verdict {
            verdict.retry_after = 1_000 * MS;
        }
        request
    };
    // The block ends 385 ms after the start. A refusal before that time begins no new block.
    let mut within = stepped(Kind::Log, 75);
    let mut late = refused(350 * MS, Via::Store);
    within.requests.push(after(late, 75));
    within.requests.push(after(admitted(400 * MS), 75));
    let broken = broken_by_any_clock(&within);
    assert!(broken.is_empty(), "{broken:?}");
    // At the step, the block is cut to its span. By the clock of a window, which stands still, the block would last for a second more.
    let mut stands = stepped(Kind::Counter, 1_000);
    stands.limits[0].window = 3_600_000 * MS;
    late = refused(101 * MS, Via::Store);
    stands.requests.push(after(late, 1_000));
    stands.requests.push(after(admitted(405 * MS), 1_000));
    // The limit admits only ten requests in an hour, so another promise is broken.
    let broken = broken_by_any_clock(&stands);
    assert!(
        broken.iter().all(|breach| breach.promise != "block"),
        "{broken:?}"
    );
}

/// Over several slots, the first call may have begun the block. A later call returns the rest of its time.
#[test]
fn a_block_that_the_first_of_several_calls_began() {
    let split = || {
        let mut history = blocking(false);
        history.in_cluster = true;
        let request = history.requests.last_mut().unwrap();
        request.charges[0].verdict.as_mut().unwrap().retry_after = 200 * MS;
        let mut other = request.charges[0].clone();
        (other.key, other.verdict) = (1, None);
        request.charges.push(other);
        history
    };
    let mut over = split();
    over.requests.push(admitted(220 * MS));
    assert_eq!(names(&over), [""; 0]);
    breaks(split(), admitted(120 * MS), "block");
}

#[test]
fn a_block_ends() {
    let mut history = blocking(false);
    history.requests.push(refused(305 * MS, Via::Store));
    breaks(history, refused(312 * MS, Via::Store), "block_ends");
    let mut longer = blocking(true);
    longer.requests.push(refused(200 * MS, Via::Store));
    longer.requests.push(refused(495 * MS, Via::Store));
    breaks(longer, refused(797 * MS, Via::Store), "block_ends");
    // A gateway refused the request after it had given up, and Redis may have refused it too.
    let mut unknown = blocking(true);
    let mut here = alone(305 * MS, 0);
    here.charges[0].verdict = refused(0, Via::Fallback).charges[0].verdict;
    here.said = Said::Decided {
        outcome: Outcome::Refused,
        via: Via::Fallback,
        error: Some("no answer".to_owned()),
    };
    unknown.requests.push(here);
    unknown.requests.push(refused(500 * MS, Via::Store));
    assert_eq!(names(&unknown), [""; 0]);
    // A block that a reset lifts.
    let mut lifted = blocking(false);
    let span = Span::at(START + 20 * MS);
    lifted.resets.push(Reset {
        limit: 0,
        key: 0,
        span,
        done: true,
    });
    breaks(lifted, refused(25 * MS, Via::Store), "block_ends");
    // The refusal is remembered until the end of the block.
    let mut remembered = blocking(false);
    remembered.requests.push(refused(315 * MS, Via::Remembered));
    breaks(
        remembered,
        refused(330 * MS, Via::Remembered),
        "remembered_refusal",
    );
}

#[test]
fn an_observed_limit_refuses_nobody() {
    let mut history = ten(exact(Kind::FixedWindow));
    history.limits[0].is_observed = true;
    let mut counted = refused(MS, Via::Store);
    counted.said = admitted(MS).said;
    history.requests.push(counted);
    breaks(history.clone(), refused(MS, Via::Store), "observe");
    let mut unavailable = admitted(MS);
    unavailable.charges[0].verdict = None;
    unavailable.said = Said::Decided {
        outcome: Outcome::Unavailable,
        via: Via::Fallback,
        error: None,
    };
    breaks(history, unavailable, "observe");
}

#[test]
fn a_window_of_a_calendar() {
    let history = ten(exact(Kind::Calendar));
    breaks(history.clone(), admitted(99 * MS), "fixed_window");
    breaks(history, refused(101 * MS, Via::Store), "refusal");
}

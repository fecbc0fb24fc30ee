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
    // A refused request prolongs it, if that is wanted.
    let mut longer = blocking(true);
    longer.requests.push(refused(200 * MS, Via::Store));
    breaks(longer, admitted(490 * MS), "block");
    let mut same = blocking(false);
    same.requests.push(refused(200 * MS, Via::Store));
    same.requests.push(admitted(490 * MS));
    assert_eq!(names(&same), [""; 0]);
    // A gateway that keeps the limit for itself.
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

#[test]
fn a_block_ends() {
    let mut history = blocking(false);
    history.requests.push(refused(305 * MS, Via::Store));
    breaks(history, refused(312 * MS, Via::Store), "block_ends");
    let mut longer = blocking(true);
    longer.requests.push(refused(200 * MS, Via::Store));
    longer.requests.push(refused(495 * MS, Via::Store));
    breaks(longer, refused(797 * MS, Via::Store), "block_ends");
    // One that is lifted.
    let mut lifted = blocking(false);
    let span = Span::at(START + 20 * MS);
    lifted.resets.push(Reset {
        limit: 0,
        key: 0,
        span,
        done: true,
    });
    breaks(lifted, refused(25 * MS, Via::Store), "block_ends");
    // It is remembered until then.
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

//! Faults of a trial, alone or several at a time.

use std::time::Duration;

use tidegate_testkit::CallFault;

use super::Theme;
use crate::case::{Fault, Mishap};
use tidegate_testkit::trials::Dice;

/// The faults of a trial.
pub(super) fn faults(
    dice: &mut Dice,
    theme: Theme,
    in_memory: bool,
    gateways: usize,
    length: u64,
) -> Vec<Fault> {
    let mut at = dice.between(20, length);
    let many = dice.pick(&[0, 1, 2, 2, 3]);
    let many = if theme == Theme::Outages {
        many.max(2)
    } else {
        many
    };
    (0..many)
        .map(|nth| {
            // The next fault comes soon after this fault, or at any time.
            at = if dice.one_in(2) {
                at + dice.between(0, 30)
            } else {
                dice.between(20, length)
            };
            let what = match theme {
                _ if in_memory => Mishap::Paused(dice.between(100, 900)),
                Theme::Outages => outage(dice),
                _ if dice.one_in(3) => server_fault(dice),
                _ => gateway_fault(dice),
            };
            Fault {
                nth,
                at,
                gateway: dice.next() as usize % gateways,
                what,
            }
        })
        .collect()
}

fn outage(dice: &mut Dice) -> Mishap {
    let time = dice.between(50, 250);
    dice.pick(&[
        Mishap::Emptied(time),
        Mishap::Emptied(time),
        Mishap::Killed(time),
        Mishap::Frozen(time),
    ])
}

fn server_fault(dice: &mut Dice) -> Mishap {
    let time = dice.between(10, 400);
    dice.pick(&[
        Mishap::Frozen(time),
        Mishap::ClientsPaused(time),
        Mishap::Killed(time / 2),
        Mishap::Emptied(time / 2),
        Mishap::ScriptsFlushed,
        Mishap::ClientsKilled,
    ])
}

fn gateway_fault(dice: &mut Dice) -> Mishap {
    let late = CallFault::AnsweredLate(Duration::from_millis(dice.between(1, 80)));
    let calls = [
        CallFault::Unanswered,
        CallFault::Unanswered,
        CallFault::Unanswered,
        CallFault::Unsent,
        CallFault::HalfSent,
        CallFault::HalfAnswered,
        late,
    ];
    let calls = Mishap::Calls {
        fault: dice.pick(&calls),
        skip: dice.between(0, 6) as usize,
        times: dice.pick(&[1, 1, 2, 4]),
    };
    let paused = Mishap::Paused(dice.between(50, 900));
    dice.pick(&[
        calls,
        calls,
        calls,
        calls,
        Mishap::Cut,
        paused,
        Mishap::GatewayKilled,
        Mishap::GatewayEnded,
    ])
}

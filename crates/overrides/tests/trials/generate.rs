//! Makes up a case from a seed.

use std::time::Duration;

use tidegate_testkit::CallFault;
use tidegate_testkit::trials::{Dice, Name};

use crate::case::{Case, Change, Condition, Ends, Extra, Fault, Mishap, Work};

/// The number of names that changes are about.
pub(crate) const SUBJECTS: usize = 4;

/// The servers of a case, and their clock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Theme {
    Plain,
    Clock,
    Sentinels,
}

pub(crate) fn case(seed: u64) -> Case {
    let mut dice = Dice(seed);
    let theme = match dice.between(0, 19) {
        0 => Theme::Sentinels,
        1..=4 => Theme::Clock,
        _ => Theme::Plain,
    };
    let gateways = dice.pick(&[1, 2, 2, 2, 3, 3, 4]);
    let length = dice.between(800, 2_400);
    let mut work: Vec<Work> = (0..dice.between(4, 12) as usize)
        .map(|nth| piece(&mut dice, nth, gateways, length))
        .collect();
    work.sort_by_key(|work| work.at);
    let mut faults = faults(&mut dice, theme, gateways, length);
    if theme == Theme::Plain && dice.one_in(3) {
        late(&mut dice, gateways, length, &mut work, &mut faults);
    }
    let mut extras = Vec::new();
    if dice.one_in(12) && theme == Theme::Plain {
        extras.push((0, Extra::Away(dice.between(50, 800))));
    }
    if dice.one_in(12) {
        extras.push((1, Extra::Many));
    }
    if dice.one_in(8) && theme == Theme::Plain {
        extras.push((2, Extra::Forgetful));
    }
    Case {
        name: Name::of(seed),
        gateways,
        work,
        faults,
        has_sentinels: theme == Theme::Sentinels,
        extras,
    }
}

fn piece(dice: &mut Dice, nth: usize, gateways: usize, length: u64) -> Work {
    let many = dice.pick(&[1, 1, 1, 1, 2, 3]);
    Work {
        nth,
        at: dice.between(10, length),
        gateway: dice.next() as usize % gateways,
        changes: (0..many).map(|_| change(dice)).collect(),
    }
}

fn change(dice: &mut Dice) -> Change {
    let long = dice.between(2_000, 4_000_000);
    let short = dice.between(50, 800);
    let sets = match dice.between(0, 9) {
        0..=1 => None,
        2..=4 => Some(Ends::Never),
        5..=6 => Some(Ends::After(short)),
        7 => Some(Ends::At(short)),
        8 => Some(Ends::After(long)),
        _ => Some(Ends::At(long)),
    };
    Change {
        subject: dice.pick(&[0, 0, 0, 1, 2]),
        condition: dice.pick(&[
            Condition::Any,
            Condition::Any,
            Condition::Any,
            Condition::Nothing,
            Condition::Listed,
        ]),
        sets,
    }
}

fn faults(dice: &mut Dice, theme: Theme, gateways: usize, length: u64) -> Vec<Fault> {
    let mut at = dice.between(20, length);
    let many = dice.pick(&[0, 1, 2, 2, 2, 3, 3]);
    let mut faults = Vec::new();
    for nth in 0..many {
        // Together, or one after the other.
        at = match dice.one_in(2) {
            true => at + dice.between(0, 50),
            false => dice.between(20, length),
        };
        let mishap = match theme {
            Theme::Sentinels if nth == 0 => primary_fault(dice),
            Theme::Sentinels => {
                let time = away(dice);
                dice.pick(&[Mishap::Paused(time), Mishap::Killed(time / 4)])
            }
            Theme::Clock if nth == 0 || dice.one_in(2) => Mishap::ClockStepped(step(dice)),
            _ if dice.one_in(2) => server_fault(dice),
            _ => gateway_fault(dice),
        };
        let gateway = dice.next() as usize % gateways;
        faults.push(Fault {
            nth,
            at,
            gateway,
            mishap,
        });
    }
    if let (Theme::Clock, true) = (theme, dice.one_in(2)) {
        step_back(dice, &mut faults);
    }
    faults
}

/// Adds a step that undoes the first, some time later.
fn step_back(dice: &mut Dice, faults: &mut Vec<Fault>) {
    let Some(Fault {
        at,
        mishap: Mishap::ClockStepped(by),
        ..
    }) = faults.first().cloned()
    else {
        return;
    };
    faults.push(Fault {
        nth: faults.len(),
        at: at + dice.between(100, 1_200),
        gateway: 0,
        mishap: Mishap::ClockStepped(-by),
    });
}

/// Makes a change late: a connection stalls, or Redis is frozen, while one gateway changes a name and another changes it again.
fn late(
    dice: &mut Dice,
    gateways: usize,
    length: u64,
    work: &mut Vec<Work>,
    faults: &mut Vec<Fault>,
) {
    let (at, gateway) = (dice.between(300, length), dice.next() as usize % gateways);
    let time = dice.between(100, 900);
    let late = CallFault::SentLate(Duration::from_millis(time));
    let calls = Mishap::Calls {
        fault: late,
        skip: 0,
        times: 1,
    };
    let mishap = dice.pick(&[
        Mishap::Stalled(time),
        Mishap::Stalled(time),
        calls,
        Mishap::RedisFrozen(time),
    ]);
    faults.push(Fault {
        nth: faults.len(),
        at,
        gateway,
        mishap,
    });
    let subject = dice.pick(&[0, 0, 1, 2]);
    let other = (gateway + 1) % gateways;
    let mut at = at;
    for gateway in [gateway, other] {
        at += dice.between(0, time / 2 + 50);
        let change = Change {
            subject,
            condition: Condition::Any,
            ..change(dice)
        };
        work.push(Work {
            nth: work.len(),
            at,
            gateway,
            changes: vec![change],
        });
    }
}

/// How long a gateway is away: often longer than any record is kept by code that drops those that are over soon.
fn away(dice: &mut Dice) -> u64 {
    match dice.one_in(2) {
        true => dice.between(700, 1_800),
        false => dice.between(50, 700),
    }
}

fn gateway_fault(dice: &mut Dice) -> Mishap {
    let time = away(dice);
    let late = Duration::from_millis(dice.between(20, 500));
    let calls = [
        CallFault::Unanswered,
        CallFault::Unsent,
        CallFault::HalfSent,
        CallFault::HalfAnswered,
        CallFault::AnsweredLate(late),
        CallFault::SentLate(late),
    ];
    let calls = Mishap::Calls {
        fault: dice.pick(&calls),
        skip: dice.between(0, 6) as usize,
        times: dice.pick(&[1, 1, 2, 4]),
    };
    dice.pick(&[
        calls,
        calls,
        Mishap::Reset,
        Mishap::CutOff(time),
        Mishap::CutOff(time),
        Mishap::Stalled(time),
        Mishap::Paused(time),
        Mishap::Paused(time),
        Mishap::PausedAndCutOff(time),
        Mishap::Killed(time / 4),
    ])
}

fn server_fault(dice: &mut Dice) -> Mishap {
    let (time, behind) = (dice.between(20, 600), dice.between(200, 1_600));
    dice.pick(&[
        Mishap::RedisFrozen(time),
        Mishap::RedisKilled(time / 2),
        Mishap::RedisEmptied(time / 2),
        Mishap::RedisOlder(behind),
        Mishap::RedisOlder(behind),
    ])
}

fn primary_fault(dice: &mut Dice) -> Mishap {
    let behind = dice.between(200, 1_600);
    dice.pick(&[
        Mishap::FailedOver,
        Mishap::FailedOverBehind(behind),
        Mishap::FailedOverBehind(behind),
        Mishap::FailedOverBehind(behind),
        Mishap::PrimaryKilled,
    ])
}

/// How far a clock is stepped.
fn step(dice: &mut Dice) -> i64 {
    let by = match dice.between(0, 3) {
        0 => dice.between(5, 100),
        1 => dice.between(300, 3_000),
        2 => 120_000,
        _ => 3_600_000,
    };
    let by = by.cast_signed();
    if dice.one_in(3) { -by } else { by }
}

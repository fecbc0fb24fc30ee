//! Trials of a limit that its members share. One seed in sixteen has this theme, so that all other seeds keep their trials.

use tidegate_store::Mode;
use tidegate_testkit::trials::Dice;

use super::extras::{node_fault, step};
use super::themes::{add, limit};
use super::{MS, Theme, mishaps};
use crate::case::{Ask, Case, Extra, LimitCase, Member, Mishap, Then, What};
use crate::law::Kind;

/// Makes the random numbers of these trials differ from the numbers of other trials.
const OTHERS: u64 = 0x1f83_d9ab_fb41_bd6b;

/// The name of the theme in figures.
const NAME: &str = "shares";

/// The members of the limit.
const MEMBERS: u64 = 4;

/// Whether a seed has this theme.
pub(super) const fn is_themed(seed: u64) -> bool {
    seed % 16 == 2
}

/// The whole trial of such a seed.
pub(super) fn case(seed: u64) -> Case {
    let mut dice = Dice(seed ^ OTHERS);
    let in_memory = dice.one_in(6);
    let gateways = match in_memory {
        true => 1,
        false => dice.pick(&[1, 2, 2, 2, 3]),
    };
    // Longer than the window of a share.
    let length = dice.between(1_200, 2_800);
    let mut case = Case {
        in_memory,
        gateways,
        heartbeat: dice.one_in(3).then(|| dice.between(50, 600)),
        remembers: !dice.one_in(4),
        limits: limits(&mut dice),
        ..Case::new(seed, NAME)
    };
    let heavy = dice.pick(&[1, 4]);
    for gateway in 0..gateways {
        for nth in 0..dice.between(3, 5) {
            let at = dice.between(0, length / 3);
            let name = if nth == 0 {
                0
            } else {
                dice.between(0, MEMBERS - 1)
            };
            let member = Member {
                name,
                weight: if name == 1 { heavy } else { 1 },
            };
            let what = ask(&mut dice, &case.limits, member, length - at);
            add(&mut case, gateway, at, what);
        }
    }
    // Members that come once find the limit at any level.
    for name in 0..dice.between(0, 20) {
        let member = Member {
            name: MEMBERS + name,
            weight: 1,
        };
        let at = dice.between(length / 4, length);
        let what = ask(&mut dice, &case.limits, member, 1);
        add(&mut case, name as usize % gateways, at, what);
    }
    if dice.one_in(4) {
        let mut numbers = case.limits[0].plans[0];
        numbers.limit = dice.between(numbers.limit / 2, 2 * numbers.limit);
        numbers.refill = numbers.limit;
        let reload = What::Reload {
            limit: 0,
            plan: 0,
            numbers,
        };
        let at = dice.between(length / 4, length);
        add(&mut case, 0, at, reload);
    }
    if dice.one_in(6) {
        let at = dice.between(length / 4, length);
        add(&mut case, 0, at, What::Reset { limit: 0, key: 0 });
    }
    if !in_memory && !dice.one_in(3) {
        case.faults = mishaps::faults(&mut dice, Theme::Any, in_memory, gateways, length);
    }
    case
}

/// The extras of such a trial.
pub(super) fn extras(case: &Case) -> Vec<Extra> {
    let mut dice = Dice(case.name.seed ^ OTHERS.rotate_left(32));
    let mut extras = Vec::new();
    if case.in_memory {
        return extras;
    }
    if dice.one_in(10) {
        extras.push(Extra::Cluster);
        for _ in 0..dice.pick(&[0, 1, 1, 2]) {
            let what = node_fault(&mut dice);
            extras.push(Extra::Also(what, dice.between(20, 1_000)));
        }
    } else if dice.one_in(12) {
        let step = Mishap::ClockStepped(step(&mut dice));
        extras.push(Extra::Also(step, dice.between(20, 1_000)));
    }
    extras
}

/// The shared limit, and at times a limit behind it.
fn limits(dice: &mut Dice) -> Vec<LimitCase> {
    let kind = dice.pick(&[
        Kind::TokenBucket,
        Kind::TokenBucket,
        Kind::TokenBucket,
        Kind::LeakyBucket,
    ]);
    let window = dice.pick(&[200, 500, 1_000, 1_500]) * MS;
    let most = dice.pick(&[6, 11, 20, 40]);
    let mut shared = limit(dice, kind, Mode::Exact, window, most);
    for plan in &mut shared.plans {
        (plan.limit, plan.refill, plan.per) = (most, most, window);
    }
    if kind == Kind::TokenBucket && dice.one_in(5) {
        shared.reserves = Some(dice.between(500, 5_000) * MS);
    }
    let mut limits = vec![shared];
    if dice.one_in(4) {
        let kind = dice.pick(&[Kind::TokenBucket, Kind::FixedWindow]);
        let mode = dice.pick(&[Mode::Exact, Mode::Exact, Mode::Local]);
        limits.push(limit(dice, kind, mode, 400 * MS, 20));
    }
    limits
}

/// Requests of one member, which is greedy if its name is 0.
fn ask(dice: &mut Dice, limits: &[LimitCase], member: Member, length: u64) -> What {
    let one = |(nth, limit): (usize, &LimitCase)| Ask {
        limit: nth,
        key: 0,
        plan: 0,
        cost: dice.pick(&[1, 1, 1, 2]).min(limit.plans[0].limit),
        member: (nth == 0).then_some(member),
    };
    let charges: Vec<Ask> = limits.iter().enumerate().map(one).collect();
    let then = match limits[0].reserves {
        Some(_) => Then::Run(dice.pick(&[0, 3, 20, 80]), dice.pick(&[0, 1, 1, 2])),
        None if dice.one_in(8) => Then::Leave(dice.pick(&[0, 300, 1_000, 3_000])),
        None if dice.one_in(5) => Then::Retry(400 * MS),
        None => Then::Run(0, 1),
    };
    let pause = match member.name {
        0 => dice.pick(&[0, 1_000, 3_000]),
        _ => dice.pick(&[10_000, 40_000, 100_000, 300_000]),
    };
    let run = match then {
        Then::Run(time, _) => time * 1_000,
        // A refused request may wait several times.
        Then::Retry(most) => most / 4,
        _ => 0,
    };
    What::Ask {
        times: (length * 1_000 / (pause + 1_500 + run)).clamp(2, 300),
        pause,
        charges,
        then,
        within: None,
    }
}

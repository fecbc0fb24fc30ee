//! Trials of many costly calls at once, each of which reserves what it asks for. One seed in sixteen has this theme, so that all other seeds
//! keep their trials.

use tidegate_store::{Mode, OnFailure};
use tidegate_testkit::trials::Dice;

use super::extras::{node_fault, step};
use super::themes::{add, limit};
use super::{HOUR, MS, Theme, mishaps};
use crate::case::{Ask, Case, Extra, Fault, LimitCase, Mishap, Then, What};
use crate::law::Kind;

/// Makes the random numbers of these trials differ from the numbers of other trials.
const OTHERS: u64 = 0x5be0_cd19_137e_2179;

/// The name of the theme in figures.
const NAME: &str = "reserves";

/// Whether a seed has this theme.
pub(super) const fn is_themed(seed: u64) -> bool {
    seed % 16 == 10
}

/// The whole trial of such a seed.
pub(super) fn case(seed: u64) -> Case {
    let mut dice = Dice(seed ^ OTHERS);
    let in_memory = dice.one_in(8);
    let gateways = match in_memory {
        true => 1,
        false => dice.pick(&[1, 2, 2, 2, 3]),
    };
    let length = dice.between(400, 1_000);
    let limits = limits(&mut dice);
    let mut case = Case {
        in_memory,
        gateways,
        heartbeat: dice.one_in(3).then(|| dice.between(50, 600)),
        remembers: dice.one_in(2),
        limits,
        ..Case::new(seed, NAME)
    };
    // About ten of the calls fit, and a hundred come.
    let most = case.limits[0].plans[0].limit / dice.pick(&[5, 10, 10, 20]);
    let together = dice.one_in(2);
    for nth in 0..dice.between(40, 100) as usize {
        let cost = dice.between(1, 2 * most.max(1));
        let at = match together {
            true => dice.between(10, 20),
            false => dice.between(0, length / 2),
        };
        let what = call(&mut dice, &case.limits, cost);
        add(&mut case, nth % gateways, at, what);
    }
    if !in_memory && !dice.one_in(4) {
        case.faults = mishaps::faults(&mut dice, Theme::Any, in_memory, gateways, length);
    }
    if gateways > 1 && dice.one_in(3) {
        let killed = Fault {
            nth: case.faults.len(),
            at: dice.between(15, length / 2),
            gateway: dice.next() as usize % gateways,
            what: Mishap::GatewayKilled,
        };
        case.faults.push(killed);
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
    if dice.one_in(8) {
        extras.push(Extra::Cluster);
        let what = node_fault(&mut dice);
        extras.push(Extra::Also(what, dice.between(20, 500)));
    } else if dice.one_in(10) {
        let step = Mishap::ClockStepped(step(&mut dice));
        extras.push(Extra::Also(step, dice.between(20, 500)));
    }
    extras
}

/// Budgets of tokens: one that does not come back within a trial, and at times another one.
fn limits(dice: &mut Dice) -> Vec<LimitCase> {
    let kinds = [
        Kind::FixedWindow,
        Kind::FixedWindow,
        Kind::TokenBucket,
        Kind::Log,
        Kind::Counter,
    ];
    let many = dice.pick(&[1, 1, 1, 2]);
    let budget = |nth: usize| {
        let kind = dice.pick(&kinds);
        let window = match nth == 0 && !dice.one_in(3) {
            true => 600 * HOUR,
            false => dice.between(200, 800) * MS,
        };
        let units = dice.pick(&[50, 100, 200, 400]);
        let mut budget = limit(dice, kind, Mode::Exact, window, units);
        for plan in &mut budget.plans {
            plan.limit = units;
        }
        budget.reserves = Some(dice.pick(&[300, 1_000, 5_000]) * MS);
        if nth == 0 && !dice.one_in(4) {
            budget.on_failure = OnFailure::Closed;
        }
        budget
    };
    (0..many).map(budget).collect()
}

/// A call that reserves `cost`. Its answer names a lower cost, none, or now and then a higher one.
fn call(dice: &mut Dice, limits: &[LimitCase], cost: u64) -> What {
    let charges = limits.iter().enumerate().map(|(nth, limit)| Ask {
        limit: nth,
        key: 0,
        plan: 0,
        cost: cost.min(limit.plans[0].limit),
        member: None,
    });
    let used = match dice.between(0, 9) {
        0 => 0,
        1 => cost,
        2 => 2 * cost,
        _ => dice.between(0, cost),
    };
    let then = match dice.one_in(10) {
        true => Then::Leave(dice.pick(&[0, 300, 3_000])),
        false => Then::Run(dice.pick(&[0, 5, 40, 150]), used),
    };
    What::Ask {
        times: dice.pick(&[1, 1, 2]),
        pause: dice.pick(&[0, 5_000, 50_000]),
        charges: charges.collect(),
        then,
        within: None,
    }
}

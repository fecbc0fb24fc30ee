//! Trials with decisions that wait for less than the timeout. One seed in sixteen has this theme, so that all other seeds keep their trials.

use std::time::Duration;

use tidegate_core::Block;
use tidegate_store::Mode;
use tidegate_testkit::CallFault;
use tidegate_testkit::trials::Dice;

use super::themes::{add, limit};
use super::{HOUR, KEYS, MS, extras::node_fault};
use crate::case::{Ask, Case, Extra, Fault, LimitCase, Mishap, Then, What};
use crate::law::Kind;

/// Makes the random numbers of these trials differ from the numbers of other trials.
const OTHERS: u64 = 0x3c6e_f372_fe94_f82b;

/// The name of the theme in figures.
const NAME: &str = "short waits";

/// Whether a seed has this theme.
pub(super) const fn is_themed(seed: u64) -> bool {
    seed % 16 == 12
}

/// The whole trial of such a seed.
pub(super) fn case(seed: u64) -> Case {
    let mut dice = Dice(seed ^ OTHERS);
    let gateways = dice.pick(&[1, 1, 2, 2, 3]);
    let is_outage = dice.one_in(4);
    let length = match is_outage {
        true => 2_400,
        false => dice.between(600, 1_800),
    };
    let many = dice.pick(&[1, 1, 1, 2]);
    let mut case = Case {
        gateways,
        remembers: !dice.one_in(4),
        limits: (0..many).map(|_| a_limit(&mut dice)).collect(),
        ..Case::new(seed, NAME)
    };
    for gateway in 0..gateways {
        let all_are_short = is_outage && !dice.one_in(4) || dice.one_in(2);
        for _ in 0..dice.between(2, 4) {
            let at = dice.between(0, length / 4);
            let is_short = all_are_short || dice.one_in(2);
            let within = is_short.then(|| dice.pick(&[1, 2, 3, 5, 8, 12, 20, 35, 60]));
            let what = ask(&mut dice, &case.limits, within, length - at);
            add(&mut case, gateway, at, what);
        }
    }
    if dice.one_in(6) {
        let limit = dice.next() as usize % many;
        let key = dice.between(0, KEYS - 1);
        let at = dice.between(length / 4, length);
        add(&mut case, 0, at, What::Reset { limit, key });
    }
    case.faults = faults(&mut dice, gateways, length);
    if is_outage {
        // All gateways have time to notice it.
        let outage = Fault {
            nth: case.faults.len(),
            at: dice.between(20, length / 5),
            gateway: 0,
            what: Mishap::Frozen(dice.between(1_300, 1_700)),
        };
        case.faults.push(outage);
    }
    case
}

/// The extras of such a trial.
pub(super) fn extras(case: &Case) -> Vec<Extra> {
    let mut dice = Dice(case.name.seed ^ OTHERS.rotate_left(32));
    let mut extras = Vec::new();
    for (nth, limit) in case.limits.iter().enumerate() {
        let is_whole = matches!(limit.mode, Mode::Exact | Mode::Local);
        if is_whole && limit.kind != Kind::Concurrency && dice.one_in(6) {
            let span = dice.between(50, 600) * MS;
            let extend = dice.one_in(2);
            extras.push(Extra::Blocks(nth, Block { span, extend }));
        }
        if dice.one_in(15) {
            extras.push(Extra::Observed(nth));
        }
    }
    if dice.one_in(8) {
        extras.push(Extra::Cluster);
        for _ in 0..dice.between(1, 2) {
            let what = node_fault(&mut dice);
            extras.push(Extra::Also(what, dice.between(20, 800)));
        }
    }
    extras
}

fn a_limit(dice: &mut Dice) -> LimitCase {
    let mode = dice.pick(&[
        Mode::Exact,
        Mode::Exact,
        Mode::Exact,
        Mode::Exact,
        Mode::Leased,
        Mode::Leased,
        Mode::Synced,
        Mode::Local,
    ]);
    let kind = match mode {
        Mode::Synced => dice.pick(&[Kind::FixedWindow, Kind::Counter]),
        Mode::Leased => dice.pick(&[
            Kind::TokenBucket,
            Kind::FixedWindow,
            Kind::Log,
            Kind::Counter,
        ]),
        _ => dice.pick(&Kind::ALL),
    };
    let window = match kind {
        Kind::Concurrency => dice.between(400, 700) * MS,
        // Used units do not come back within a trial.
        _ if !dice.one_in(3) => 600 * HOUR,
        _ => dice.between(100, 800) * MS,
    };
    let most = match kind {
        Kind::Concurrency => dice.between(2, 6),
        _ => dice.pick(&[5, 25, 60, 150, 400]),
    };
    let mut limit = limit(dice, kind, mode, window, most);
    let may_reserve = mode == Mode::Exact && !matches!(kind, Kind::LeakyBucket | Kind::Concurrency);
    if may_reserve && dice.one_in(3) {
        limit.reserves = Some(5_000 * MS);
    }
    limit
}

/// Requests whose decisions wait for at most `within` ms.
fn ask(dice: &mut Dice, limits: &[LimitCase], within: Option<u64>, length: u64) -> What {
    let is_all = dice.one_in(2);
    let one = dice.next() as usize % limits.len();
    let charges = limits.iter().enumerate();
    let charges = charges.filter(|(nth, _)| is_all || *nth == one);
    let charges: Vec<Ask> = charges
        .map(|(nth, limit)| Ask {
            limit: nth,
            key: if dice.one_in(4) { KEYS - 1 } else { 0 },
            plan: 0,
            cost: dice.pick(&[1, 1, 1, 2]).min(limit.plans[0].limit),
            member: None,
        })
        .collect();
    let holds = charges.iter().any(|ask| {
        let limit = &limits[ask.limit];
        limit.kind == Kind::Concurrency || limit.reserves.is_some()
    });
    let then = match holds {
        true => Then::Run(dice.pick(&[0, 3, 20, 80, 300]), dice.pick(&[0, 0, 1, 2])),
        false if dice.one_in(8) => Then::Leave(dice.pick(&[0, 300, 1_000, 3_000])),
        false if dice.one_in(6) => Then::Retry(200 * MS),
        false => Then::Run(0, 1),
    };
    let pause = dice.pick(&[0, 500, 2_000, 5_000, 20_000]);
    let each = pause
        + 1_500
        + match then {
            Then::Run(time, _) => time * 1_000,
            _ => 0,
        };
    What::Ask {
        times: (length * 1_000 / each).clamp(2, 300),
        pause,
        charges,
        then,
        within,
    }
}

fn faults(dice: &mut Dice, gateways: usize, length: u64) -> Vec<Fault> {
    let many = dice.pick(&[0, 1, 1, 2, 2, 3]);
    let one = |nth| Fault {
        nth,
        at: dice.between(20, length * 3 / 4),
        gateway: dice.next() as usize % gateways,
        what: fault(dice),
    };
    (0..many).map(one).collect()
}

/// A fault that delays or freezes Redis, or cuts it off.
fn fault(dice: &mut Dice) -> Mishap {
    let late = Duration::from_millis(dice.between(1, 90));
    let calls = [
        CallFault::AnsweredLate(late),
        CallFault::AnsweredLate(late),
        CallFault::SentLate(late),
        CallFault::SentLate(late),
        CallFault::Unanswered,
        CallFault::Unsent,
        CallFault::HalfAnswered,
    ];
    let calls = Mishap::Calls {
        fault: dice.pick(&calls),
        skip: dice.between(0, 10) as usize,
        times: dice.pick(&[1, 2, 5, 15]),
    };
    let time = dice.between(5, 300);
    dice.pick(&[
        calls,
        calls,
        calls,
        calls,
        Mishap::Frozen(time),
        Mishap::Frozen(time),
        Mishap::Paused(time),
        Mishap::Paused(time),
        Mishap::ClientsPaused(time),
        Mishap::Cut,
        Mishap::Killed(time / 2),
        Mishap::ClientsKilled,
        Mishap::GatewayKilled,
        Mishap::GatewayEnded,
    ])
}

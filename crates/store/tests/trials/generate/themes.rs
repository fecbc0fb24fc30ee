//! Trials about one subject. Only some seeds have them, so that the trials of all other seeds stay the same.

use std::time::Duration;

use tidegate_core::{Block, Micros};
use tidegate_store::{Mode, OnFailure};
use tidegate_testkit::CallFault;
use tidegate_testkit::trials::Dice;

use super::{HOUR, KEYS, MS, numbers};
use crate::case::{Ask, Case, Change, Extra, Fault, LimitCase, Mishap, Then, What, Work};

use crate::law::Kind;

/// Makes the random numbers of these trials differ from the numbers of other trials.
const OTHERS: u64 = 0x6a09_e667_f3bc_c908;

/// The errors of Redis for calls that it does not run at all.
const ERRORS: [&str; 4] = [
    "ERR ACL failure in script: User default has no permissions to run the 'hdel' command script: \
     0000000000000000000000000000000000000000, on @user_script:7.",
    "NOPERM User default has no permissions to run the 'evalsha' command",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "ERR unknown command 'EVALSHA', with args beginning with: ",
];

/// The subject of such a trial.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Theme {
    /// Requests with two or three limits of several modes.
    Several,
    /// Gateways that leave `mode: leased`, at the same time or one after the other.
    Leaving,
    /// Gateways whose numbers and leases differ.
    Unequal,
    /// Requests that wait for their turns, or leave before.
    Queues,
    /// Redis answers with errors while requests are settled.
    Errors,
    /// Resets while Redis or the connection to it stands still.
    Resets,
}

impl Theme {
    const fn name(self) -> &'static str {
        match self {
            Self::Several => "several limits",
            Self::Leaving => "leased is left",
            Self::Unequal => "unequal gateways",
            Self::Queues => "queues",
            Self::Errors => "errors of Redis",
            Self::Resets => "late resets",
        }
    }
}

/// Whether a seed has one of these themes.
pub(crate) const fn is_themed(seed: u64) -> bool {
    matches!(seed % 8, 1 | 3 | 7)
}

/// The whole trial of such a seed.
pub(super) fn case(seed: u64) -> Case {
    let mut dice = Dice(seed ^ OTHERS);
    let theme = dice.pick(&[
        Theme::Several,
        Theme::Several,
        Theme::Several,
        Theme::Several,
        Theme::Leaving,
        Theme::Leaving,
        Theme::Unequal,
        Theme::Queues,
        Theme::Queues,
        Theme::Errors,
        Theme::Errors,
        Theme::Resets,
        Theme::Resets,
    ]);
    let in_memory = matches!(theme, Theme::Several | Theme::Queues) && dice.one_in(6);
    let gateways = match theme {
        _ if in_memory => 1,
        Theme::Leaving => dice.pick(&[1, 1, 2]),
        Theme::Unequal => dice.pick(&[2, 3]),
        Theme::Resets | Theme::Errors => dice.pick(&[1, 2]),
        _ => dice.pick(&[1, 2, 2, 3]),
    };
    let length = match theme {
        Theme::Several => dice.between(600, 2_000),
        Theme::Resets | Theme::Unequal => dice.between(800, 1_400),
        _ => dice.between(500, 1_000),
    };
    let mut case = Case {
        in_memory,
        gateways,
        remembers: !dice.one_in(6),
        limits: limits(&mut dice, theme),
        ..Case::new(seed, theme.name())
    };
    for gateway in 0..gateways {
        for _ in 0..dice.between(2, 4) {
            let at = dice.between(0, length / 3);
            let what = ask(&mut dice, &case.limits, theme, length - at);
            add(&mut case, gateway, at, what);
        }
    }
    changes(&mut dice, theme, &mut case, length);
    case.faults = faults(&mut dice, theme, &case, length);
    case
}

/// The extras of such a trial.
pub(super) fn extras(case: &Case) -> Vec<Extra> {
    let mut dice = Dice(case.name.seed ^ OTHERS.rotate_left(32));
    let mut extras = Vec::new();
    for (nth, limit) in case.limits.iter().enumerate() {
        let is_whole = matches!(limit.mode, Mode::Exact | Mode::Local);
        let blocks = case.theme == Theme::Several.name() && limit.kind != Kind::Concurrency;
        if is_whole && blocks && dice.one_in(2) {
            let extend = dice.one_in(2);
            let span = match extend {
                true => dice.between(300, 1_600),
                false => dice.between(50, 900),
            };
            let span = span * MS;
            extras.push(Extra::Blocks(nth, Block { span, extend }));
        }
        if blocks && dice.one_in(12) {
            extras.push(Extra::Observed(nth));
        }
    }
    extras
}

pub(super) fn add(case: &mut Case, gateway: usize, at: u64, what: What) {
    let nth = case.work.len();
    case.work.push(Work {
        nth,
        gateway,
        at,
        what,
    });
}

fn limits(dice: &mut Dice, theme: Theme) -> Vec<LimitCase> {
    let window = |dice: &mut Dice| dice.between(150, 1_200) * MS;
    let windows = [Kind::FixedWindow, Kind::Counter];
    let of_slices = [
        Kind::TokenBucket,
        Kind::FixedWindow,
        Kind::Log,
        Kind::Counter,
    ];
    match theme {
        Theme::Several => {
            let many = dice.pick(&[2, 2, 3]);
            let mut limits = Vec::new();
            for nth in 0..many {
                let mode = match nth {
                    0 => Mode::Exact,
                    _ => dice.pick(&[
                        Mode::Exact,
                        Mode::Exact,
                        Mode::Local,
                        Mode::Local,
                        Mode::Leased,
                        Mode::Synced,
                    ]),
                };
                let kind = match mode {
                    Mode::Synced => dice.pick(&windows),
                    Mode::Leased => dice.pick(&of_slices),
                    _ => dice.pick(&[
                        Kind::TokenBucket,
                        Kind::FixedWindow,
                        Kind::Log,
                        Kind::Counter,
                        Kind::LeakyBucket,
                        Kind::Calendar,
                    ]),
                };
                let window = match dice.one_in(3) {
                    true => 600 * HOUR,
                    false => window(dice),
                };
                let most = dice.pick(&[2, 3, 5, 8, 20]);
                limits.push(limit(dice, kind, mode, window, most));
            }
            if dice.one_in(2) {
                limits.reverse();
            }
            limits
        }
        Theme::Leaving => {
            let kind = dice.pick(&of_slices);
            let most = dice.pick(&[40, 100, 300]);
            vec![limit(dice, kind, Mode::Leased, 600 * HOUR, most)]
        }
        Theme::Unequal => {
            let kind = dice.pick(&Kind::ALL);
            let window = match kind {
                Kind::Concurrency => dice.between(400, 700) * MS,
                _ => window(dice),
            };
            let most = dice.between(2, 20);
            let mut first = limit(dice, kind, Mode::Exact, window, most);
            if !matches!(kind, Kind::Concurrency | Kind::LeakyBucket) && dice.one_in(2) {
                first.reserves = Some(dice.between(500, 5_000) * MS);
            }
            vec![first]
        }
        Theme::Queues => {
            // The queue releases a request every 3 to 60 ms.
            let most = dice.between(3, 12);
            let window = most * dice.between(3, 60) * MS;
            let mode = dice.pick(&[Mode::Exact, Mode::Exact, Mode::Exact, Mode::Local]);
            let mut queue = limit(dice, Kind::LeakyBucket, mode, window, most);
            for plan in &mut queue.plans {
                plan.refill = plan.limit;
            }
            vec![queue]
        }
        Theme::Errors => {
            let kind = dice.pick(&of_slices);
            let most = dice.pick(&[10, 25, 60]);
            let mut first = limit(dice, kind, Mode::Exact, 600 * HOUR, most);
            first.reserves = Some(5_000 * MS);
            vec![first]
        }
        Theme::Resets => {
            let mode = dice.pick(&[Mode::Exact, Mode::Exact, Mode::Leased, Mode::Synced]);
            let kind = match mode {
                Mode::Synced => dice.pick(&windows),
                _ => dice.pick(&of_slices),
            };
            let most = dice.pick(&[10, 25, 60]);
            vec![limit(dice, kind, mode, 600 * HOUR, most)]
        }
    }
}

pub(super) fn limit(
    dice: &mut Dice,
    kind: Kind,
    mode: Mode,
    window: Micros,
    most: u64,
) -> LimitCase {
    LimitCase {
        kind,
        window,
        plans: vec![numbers(dice, kind, most, window)],
        mode,
        on_failure: dice.pick(&[
            OnFailure::Closed,
            OnFailure::Closed,
            OnFailure::Local,
            OnFailure::Open,
        ]),
        reserves: None,
        block: None,
        is_observed: false,
    }
}

fn ask(dice: &mut Dice, limits: &[LimitCase], theme: Theme, length: u64) -> What {
    let is_all = theme != Theme::Several || !dice.one_in(3);
    let one = dice.next() as usize % limits.len();
    let key = if dice.one_in(5) { KEYS - 1 } else { 0 };
    let charges = limits.iter().enumerate();
    let charges = charges.filter(|(nth, _)| is_all || *nth == one);
    let charges = charges.map(|(nth, limit)| Ask {
        limit: nth,
        key,
        plan: 0,
        cost: dice.pick(&[1, 1, 1, 2]).min(limit.plans[0].limit),
        member: None,
    });
    let charges = charges.collect();
    let then = match theme {
        Theme::Several if dice.one_in(3) => Then::Retry(400 * MS),
        Theme::Several | Theme::Leaving => Then::Run(0, 1),
        Theme::Unequal if limits[0].kind == Kind::Concurrency => {
            Then::Run(dice.between(20, 900), 0)
        }
        Theme::Queues => Then::Wait(dice.pick(&[3 * MS, 30 * MS, 200 * MS, 60_000 * MS])),
        Theme::Unequal | Theme::Errors => {
            Then::Run(dice.pick(&[0, 3, 20, 80]), dice.pick(&[0, 0, 1, 2]))
        }
        Theme::Resets => Then::Run(0, 1),
    };
    let pause = match theme {
        Theme::Leaving => 1_000,
        Theme::Several => dice.pick(&[2_000, 10_000, 40_000]),
        _ => dice.pick(&[0, 1_000, 5_000, 20_000]),
    };
    let most = if theme == Theme::Leaving { 300 } else { 100 };
    let each = pause
        + 1_500
        + match then {
            Then::Run(time, _) => time * 1_000,
            _ => 0,
        };
    What::Ask {
        times: (length * 1_000 / each).clamp(2, most),
        pause,
        charges,
        then,
        within: None,
    }
}

/// Changes of configuration, and resets.
fn changes(dice: &mut Dice, theme: Theme, case: &mut Case, length: u64) {
    match theme {
        Theme::Leaving => {
            let of_windows = matches!(case.limits[0].kind, Kind::FixedWindow | Kind::Counter);
            let mode = match of_windows && dice.one_in(3) {
                true => Mode::Synced,
                false => Mode::Exact,
            };
            let at = dice.between(length / 4, length / 2);
            let together = dice.one_in(2);
            for gateway in 0..case.gateways {
                let later = if together { 0 } else { dice.between(0, 150) };
                let change = Change::Mode(mode);
                add(case, gateway, at + later, What::Change { limit: 0, change });
            }
        }
        Theme::Unequal => {
            for gateway in 0..case.gateways {
                let known = &case.limits[0];
                let mut other = numbers(dice, known.kind, 2 * known.plans[0].limit, known.window);
                other.limit = other.limit.max(2);
                let at = dice.pick(&[0, 0, length / 3, length / 2]);
                let longer = dice.between(known.window / MS, 3 * known.window / MS) * MS;
                let lease = match known.kind {
                    Kind::Concurrency => Some(longer),
                    _ => known
                        .reserves
                        .map(|lease| lease + dice.between(0, 3_000) * MS),
                };
                let numbers = Change::Numbers(0, other);
                let change = match lease {
                    Some(lease) if dice.one_in(2) => Change::Lease(lease),
                    _ => numbers,
                };
                add(case, gateway, at, What::Change { limit: 0, change });
            }
        }
        Theme::Resets => {
            for _ in 0..dice.between(2, 4) {
                let gateway = dice.next() as usize % case.gateways;
                let at = dice.between(length / 4, length * 3 / 4);
                add(case, gateway, at, What::Reset { limit: 0, key: 0 });
            }
        }
        _ => {}
    }
}

fn faults(dice: &mut Dice, theme: Theme, case: &Case, length: u64) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut add = |dice: &mut Dice, at: u64, what: Mishap| {
        faults.push(Fault {
            nth: faults.len(),
            at,
            gateway: dice.next() as usize % case.gateways,
            what,
        });
    };
    match theme {
        _ if case.in_memory => {}
        Theme::Errors => {
            for _ in 0..dice.between(1, 3) {
                let at = dice.between(20, length);
                let what = Mishap::Calls {
                    fault: CallFault::Refused(dice.pick(&ERRORS)),
                    skip: dice.between(0, 6) as usize,
                    times: dice.between(1, 40) as usize,
                };
                add(dice, at, what);
            }
        }
        Theme::Resets => {
            for _ in 0..dice.between(1, 2) {
                let at = dice.between(length / 5, length * 3 / 5);
                let time = dice.between(200, 700);
                let what = dice.pick(&[Mishap::Frozen(time), Mishap::Paused(time)]);
                add(dice, at, what);
            }
        }
        _ if dice.one_in(4) => {
            let late = CallFault::AnsweredLate(Duration::from_millis(dice.between(1, 80)));
            let what = Mishap::Calls {
                fault: dice.pick(&[CallFault::Unanswered, CallFault::Unsent, late]),
                skip: dice.between(0, 20) as usize,
                times: 1,
            };
            let at = dice.between(20, length);
            add(dice, at, what);
        }
        _ => {}
    }
    faults
}

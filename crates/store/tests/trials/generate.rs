//! Makes a case from a seed. A theme makes some choices more likely, because some findings need several of them together: places of long
//! requests, plans of one client, settlements, outages.

mod extras;
mod mishaps;
mod reserves;
mod shares;
mod themes;
mod waits;

use tidegate_core::Micros;
use tidegate_store::{Mode, OnFailure};

use crate::case::{Ask, Case, LimitCase, Then, What, Work};
pub(crate) use extras::extras;
use tidegate_testkit::trials::Dice;

use crate::law::{Kind, Numbers};

const MS: Micros = 1_000;
const HOUR: Micros = 3_600_000 * MS;

/// The theme of a trial.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Theme {
    Any,
    Places,
    Plans,
    Settlements,
    Outages,
}

/// The keys of each limit.
pub(crate) const KEYS: u64 = 2;

/// The whole trial of a seed.
pub(crate) fn case(seed: u64) -> Case {
    if themes::is_themed(seed) {
        return themes::case(seed);
    }
    if waits::is_themed(seed) {
        return waits::case(seed);
    }
    if shares::is_themed(seed) {
        return shares::case(seed);
    }
    if reserves::is_themed(seed) {
        return reserves::case(seed);
    }
    let mut dice = Dice(seed);
    let theme = dice.pick(&[
        Theme::Any,
        Theme::Any,
        Theme::Places,
        Theme::Plans,
        Theme::Settlements,
        Theme::Outages,
    ]);
    let in_memory = dice.one_in(8);
    let gateways = match theme {
        _ if in_memory => 1,
        Theme::Outages => dice.between(2, 4) as usize,
        _ => dice.pick(&[1, 2, 2, 3]),
    };
    let limits: Vec<LimitCase> = (0..dice.pick(&[1, 1, 2, 3]))
        .map(|nth| limit(&mut dice, if nth == 0 { theme } else { Theme::Any }))
        .collect();
    // The time in which work begins, in ms.
    let length = match theme {
        Theme::Places => dice.between(2_200, 3_200),
        Theme::Outages => dice.between(600, 1_200),
        _ => dice.between(200, 700),
    };
    let mut case = Case {
        in_memory,
        gateways,
        heartbeat: (theme == Theme::Outages || dice.one_in(3)).then(|| dice.between(50, 600)),
        remembers: dice.one_in(2),
        limits,
        ..Case::new(seed, "")
    };
    for gateway in 0..gateways {
        let many = match theme {
            Theme::Places => dice.between(4, 7),
            _ => dice.between(2, 4),
        };
        for _ in 0..many {
            let nth = case.work.len();
            let at = dice.between(0, length / 3);
            let what = ask(&mut dice, &case.limits, theme, length);
            let work = Work {
                nth,
                gateway,
                at,
                what,
            };
            case.work.push(work);
        }
    }
    for _ in 0..dice.pick(&[0, 0, 1, 2]) {
        let nth = case.work.len();
        let limit = dice.next() as usize % case.limits.len();
        let what = change(&mut dice, limit, &case.limits[limit]);
        let work = Work {
            nth,
            gateway: dice.next() as usize % gateways,
            at: dice.between(0, length),
            what,
        };
        case.work.push(work);
    }
    case.faults = mishaps::faults(&mut dice, theme, in_memory, gateways, length);
    case
}

fn limit(dice: &mut Dice, theme: Theme) -> LimitCase {
    let kind = match theme {
        Theme::Places => Kind::Concurrency,
        Theme::Plans => dice.pick(&[
            Kind::TokenBucket,
            Kind::TokenBucket,
            Kind::FixedWindow,
            Kind::Log,
        ]),
        Theme::Settlements => dice.pick(&[
            Kind::TokenBucket,
            Kind::FixedWindow,
            Kind::Log,
            Kind::Counter,
        ]),
        _ => dice.pick(&Kind::ALL),
    };
    let modes: &[Mode] = match kind {
        _ if theme == Theme::Settlements => &[Mode::Exact],
        Kind::LeakyBucket | Kind::Concurrency | Kind::Calendar => {
            &[Mode::Exact, Mode::Exact, Mode::Exact, Mode::Local]
        }
        Kind::TokenBucket | Kind::Log => &[Mode::Exact, Mode::Exact, Mode::Leased, Mode::Local],
        Kind::FixedWindow | Kind::Counter => &[
            Mode::Exact,
            Mode::Exact,
            Mode::Leased,
            Mode::Synced,
            Mode::Local,
        ],
    };
    let mut mode = dice.pick(modes);
    if theme == Theme::Places {
        mode = Mode::Exact;
    }
    let is_quiet = match theme {
        Theme::Settlements | Theme::Outages => !dice.one_in(4),
        _ => dice.one_in(2),
    };
    let window = match kind {
        Kind::Concurrency => dice.between(400, 700) * MS,
        // Used units do not come back within a trial.
        _ if is_quiet => 600 * HOUR,
        _ => dice.between(50, 600) * MS,
    };
    let most = match kind {
        Kind::Concurrency => dice.between(1, 6),
        _ => dice.pick(&[3, 10, 25, 60, 150]),
    };
    let plans = match theme {
        Theme::Plans => dice.between(2, 3),
        _ => dice.pick(&[1, 1, 1, 2]),
    };
    let plans = (0..plans)
        .map(|_| numbers(dice, kind, most, window))
        .collect();
    let may_reserve = mode == Mode::Exact && !matches!(kind, Kind::LeakyBucket | Kind::Concurrency);
    let reserves = may_reserve && (theme == Theme::Settlements || dice.one_in(4));
    LimitCase {
        kind,
        window,
        plans,
        mode,
        on_failure: match theme {
            Theme::Outages => OnFailure::Local,
            _ => dice.pick(&[
                OnFailure::Closed,
                OnFailure::Closed,
                OnFailure::Local,
                OnFailure::Open,
            ]),
        },
        reserves: reserves.then_some(5_000 * MS),
        block: None,
        is_observed: false,
    }
}

/// The numbers of a plan: `most`, or a part of it.
fn numbers(dice: &mut Dice, kind: Kind, most: u64, window: Micros) -> Numbers {
    let limit = dice.pick(&[most, most, most / 2, most / 6]).max(1);
    let refill = match kind {
        _ if kind.is_bucket() => dice.pick(&[limit, limit, limit / 2, 2 * limit]).max(1),
        _ => 1,
    };
    Numbers {
        limit,
        refill,
        per: window,
    }
}

/// Requests, and their course after they are admitted.
fn ask(dice: &mut Dice, limits: &[LimitCase], theme: Theme, length: u64) -> What {
    let mut charges = Vec::new();
    for (nth, limit) in limits.iter().enumerate() {
        if nth == 0 && theme != Theme::Any || dice.one_in(2) {
            charges.push(charge(dice, nth, limit, theme));
        }
    }
    if charges.is_empty() {
        let nth = dice.next() as usize % limits.len();
        charges.push(charge(dice, nth, &limits[nth], theme));
    }
    let then = match theme {
        Theme::Places => Then::Run(dice.between(500, 2_600), 0),
        _ if dice.one_in(8) => Then::Leave(dice.pick(&[0, 100, 300, 1_000, 3_000])),
        _ => {
            let used = dice.pick(&[0, 0, 1, 2, 5]);
            Then::Run(dice.pick(&[0, 0, 3, 20, 80]), used)
        }
    };
    let pause = match theme {
        Theme::Places => dice.pick(&[0, 2_000, 20_000]),
        _ => dice.pick(&[0, 100, 1_000, 5_000, 20_000]),
    };
    // Long requests, and requests with long pauses, are few: together they take as long as the trial, or a part of that time.
    let each = pause
        + 1_500
        + match then {
            Then::Run(time, _) => time * 1_000,
            _ => 0,
        };
    let most = (length * 1_000 / each).clamp(2, 200);
    let times = if dice.one_in(2) {
        most
    } else {
        dice.between(2, most)
    };
    What::Ask {
        times,
        pause,
        charges,
        then,
        within: None,
    }
}

fn charge(dice: &mut Dice, nth: usize, limit: &LimitCase, theme: Theme) -> Ask {
    let plan = dice.next() as usize % limit.plans.len();
    let least = limit.plans.iter().map(|plan| plan.limit).min().unwrap_or(1);
    let cost = dice.pick(&[1, 1, 1, 2, 3]).min(least);
    let key = match theme {
        Theme::Places | Theme::Plans => 0,
        _ => dice.between(0, KEYS - 1),
    };
    Ask {
        limit: nth,
        key,
        plan,
        cost,
        member: None,
    }
}

/// A reset, or a reload with other numbers.
fn change(dice: &mut Dice, nth: usize, limit: &LimitCase) -> What {
    if dice.one_in(2) {
        return What::Reset {
            limit: nth,
            key: dice.between(0, KEYS - 1),
        };
    }
    let plan = dice.next() as usize % limit.plans.len();
    let most = limit.plans[plan].limit;
    let mut numbers = numbers(dice, limit.kind, 2 * most, limit.window);
    // A gateway rejects a configuration whose limit is below a cost.
    numbers.limit = numbers.limit.max(3);
    What::Reload {
        limit: nth,
        plan,
        numbers,
    }
}

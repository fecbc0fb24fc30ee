//! Runs the limits and work of trials on the memory store, with a given clock. Such a trial takes no time, because it never waits. Holds
//! use the system's clock, so they are left to the other trials.

use tidegate_core::Micros;
use tidegate_store::{Charge, MemoryStore, Outcome};

use crate::case::{Ask, Case, Change, What, budget_key};
use crate::history::{self, History, Request, Reset, Said, Span};
use crate::law::{Kind, Numbers};
use crate::machine::{key_of, limit_of, share_of, store_charges};
use tidegate_testkit::trials::{self, Dice, Name};

/// The start of a trial's clock. Windows of all lengths begin at this time.
pub(crate) const START: Micros = 1_700_000_000_000_000;

/// A step of the work, with its time.
struct Step {
    at: Micros,
    what: Doing,
}

enum Doing {
    Ask(Vec<Ask>),
    Reset(usize, u64),
    Reload(usize, usize, Numbers),
}

/// Runs the limits and the work of a trial.
pub(crate) fn run(case: &Case) -> History {
    let store = MemoryStore::new(1_000);
    let mut plans: Vec<Vec<Numbers>> = case
        .limits
        .iter()
        .map(|limit| limit.plans.clone())
        .collect();
    let mut history = History {
        limits: case
            .limits
            .iter()
            .map(|limit| history::Limit::of(limit, None))
            .collect(),
        in_memory: true,
        ..History::default()
    };
    for step in steps(case) {
        let now = START + step.at;
        match step.what {
            Doing::Ask(asks) => history.requests.push(ask(case, &plans, &store, &asks, now)),
            Doing::Reload(limit, plan, numbers) => plans[limit][plan] = numbers,
            Doing::Reset(limit, key) => {
                for (plan, numbers) in plans[limit].iter().enumerate() {
                    let own = limit_of(limit, &case.limits[limit], plan, *numbers);
                    store.reset(&[Charge {
                        limit: &own,
                        key: key_of(key),
                        cost: 1,
                        origin: None,
                    }]);
                    history.resets.push(Reset {
                        limit,
                        key: budget_key(key, plan),
                        span: Span::at(now),
                        done: true,
                    });
                }
            }
        }
    }
    history
}

/// The steps of the work in the order of their times. No two steps have the same time.
fn steps(case: &Case) -> Vec<Step> {
    let mut dice = Dice(case.name.seed);
    let mut steps = Vec::new();
    for work in &case.work {
        let mut at = work.at * 1_000 + dice.between(0, 999);
        match &work.what {
            What::Ask {
                times,
                pause,
                charges,
                ..
            } => {
                let held = |ask: &Ask| {
                    let limit = &case.limits[ask.limit];
                    limit.kind == Kind::Concurrency || limit.reserves.is_some()
                };
                let charges: Vec<Ask> = charges.iter().filter(|ask| !held(ask)).copied().collect();
                for _ in 0..*times {
                    let what = Doing::Ask(charges.clone());
                    steps.push(Step { at, what });
                    at += pause + dice.between(1, 2_000);
                }
            }
            What::Reset { limit, key } => {
                let what = Doing::Reset(*limit, *key);
                steps.push(Step { at, what });
            }
            What::Reload {
                limit,
                plan,
                numbers,
            } => {
                let what = Doing::Reload(*limit, *plan, *numbers);
                steps.push(Step { at, what });
            }
            What::Change { limit, change } => {
                if let Change::Numbers(plan, numbers) = change {
                    let what = Doing::Reload(*limit, *plan, *numbers);
                    steps.push(Step { at, what });
                }
            }
        }
    }
    steps.retain(|step| !matches!(&step.what, Doing::Ask(charges) if charges.is_empty()));
    steps.sort_by_key(|step| step.at);
    let mut last = 0;
    for step in &mut steps {
        step.at = step.at.max(last + 1);
        last = step.at;
    }
    steps
}

fn ask(
    case: &Case,
    plans: &[Vec<Numbers>],
    store: &MemoryStore,
    asks: &[Ask],
    now: Micros,
) -> Request {
    let limits: Vec<_> = asks
        .iter()
        .map(|ask| {
            let numbers = plans[ask.limit][ask.plan];
            let limit = limit_of(ask.limit, &case.limits[ask.limit], ask.plan, numbers);
            let share = share_of(&limit, ask);
            (numbers, limit, share)
        })
        .collect();
    let charged = limits.iter().zip(asks);
    let charged = charged
        .flat_map(|((_, limit, share), ask)| store_charges(limit, share.as_ref(), ask))
        .map(|(limit, key, cost)| Charge {
            limit,
            key,
            cost,
            origin: None,
        });
    let decision = store.decide_at(&charged.collect::<Vec<_>>(), now);
    let mut verdicts = decision.verdicts.iter().copied();
    let charges = limits.iter().zip(asks);
    let charges = charges.map(|((numbers, ..), ask)| history::Charge {
        limit: ask.limit,
        key: ask.budget(),
        numbers: *numbers,
        cost: ask.cost,
        verdict: verdicts.next().flatten(),
        at: Span::at(now),
        here: true,
        used: None,
        changed: None,
        share: ask.member.map(|member| (member, verdicts.next().flatten())),
    });
    Request {
        gateway: 0,
        asked: Span::at(now),
        charges: charges.collect(),
        ran_until: (decision.outcome == Outcome::Admitted).then_some(now),
        said: Said::Decided {
            outcome: decision.outcome,
            via: decision.via,
            error: None,
        },
        settled: None,
        called: false,
        given_up: now,
        within: None,
    }
}

/// Runs many seeds, which takes only a moment.
#[test]
fn the_memory_store_keeps_its_promises_by_a_given_clock() {
    let seed = trials::first_seed();
    let count = trials::count().unwrap_or(30);
    for seed in (0..count).map(|nth| seed.wrapping_add(nth)) {
        let name = Name::of(seed);
        let case = Case::of(&name);
        let history = run(&case);
        let broken = crate::promises::broken(&history);
        let report = || crate::report::finding(&case, &history, &broken);
        assert!(broken.is_empty(), "{}", report());
    }
}

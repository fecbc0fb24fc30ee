//! The work of a trial: requests, resets and reloads.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::Micros;
use tidegate_store::{Charge, Decision, Holds, Limit, Mode, Outcome, Via};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::case::{Ask, Change, Then, What, Work, budget_key};
use crate::gateway::{Gateway, Life};
use crate::history::{self, Request, Reset, Said, Span};
use crate::law::Numbers;
use crate::machine::{Trial, key_of, now, share_of, store_charges};

/// Does one piece of work, until it or its gateway ends.
pub(crate) async fn run(trial: Arc<Trial>, work: Work) {
    trial.until(work.at).await;
    match work.what {
        What::Ask {
            times,
            pause,
            charges,
            then,
            within,
        } => {
            let within = within.map(Duration::from_millis);
            for _ in 0..times {
                asked(&trial, work.gateway, &charges, then, within).await;
                tokio::time::sleep(Duration::from_micros(pause)).await;
            }
        }
        What::Reset { limit, key } => reset(&trial, work.gateway, limit, key).await,
        What::Reload {
            limit,
            plan,
            numbers,
        } => {
            for place in 0..trial.gateways.len() {
                trial.change(place, limit, Change::Numbers(plan, numbers));
            }
        }
        What::Change { limit, change } => {
            if let Change::Mode(mode) = change {
                // A reload of a gateway does the same before the new mode decides.
                let next = trial.limits_with(work.gateway, limit, mode);
                let store = trial.gateway(work.gateway).store.clone();
                let runtime = Handle::current();
                let returned = move || runtime.block_on(store.keep_leased(next.iter()));
                spawn_blocking(returned).await.unwrap();
            }
            trial.change(work.gateway, limit, change);
        }
    }
}

/// The most attempts of a request that waits for its limits.
const ATTEMPTS: usize = 3;

/// Sends a request, and sends it again after the retry-after if it waits for its limits.
async fn asked(trial: &Trial, place: usize, asks: &[Ask], then: Then, within: Option<Duration>) {
    for _ in 0..ATTEMPTS {
        let answer = request(trial, place, asks, then, within).await;
        let wait = answer.and_then(|answer| answer.retry_after);
        let Some(wait) = wait.filter(|wait| matches!(then, Then::Retry(most) if *wait <= most))
        else {
            return;
        };
        tokio::time::sleep(Duration::from_micros(wait)).await;
    }
}

async fn reset(trial: &Trial, gateway: usize, limit: usize, key: u64) {
    let plans = 0..trial.case.limits[limit].plans.len();
    let own = plans
        .clone()
        .map(|plan| trial.limit(gateway, limit, plan).1);
    let own: Vec<_> = own.collect();
    let gateway = trial.gateway(gateway);
    let charges: Vec<_> = own
        .iter()
        .map(|own| Charge {
            limit: own,
            key: key_of(key),
            cost: 1,
            origin: None,
        })
        .collect();
    let begin = now();
    let done = gateway.store.reset(&charges).await.is_ok();
    let span = Span { begin, end: now() };
    let resets = plans.map(|plan| Reset {
        limit,
        key: budget_key(key, plan),
        span,
        done,
    });
    trial.log.resets.lock().unwrap().extend(resets);
}

/// One charge of a request.
struct Asked {
    limit: Arc<Limit>,
    share: Option<Arc<Limit>>,
    numbers: Numbers,
    ask: Ask,
    changed: Option<Mode>,
}

/// The parts of an answer that matter to the client.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// Whether Redis was called, and did not answer.
    pub(crate) has_error: bool,
    /// The longest wait of the limits that refuse, if the request is refused.
    pub(crate) retry_after: Option<Micros>,
    /// The limit and the key with this wait.
    pub(crate) by: Option<(usize, u64)>,
    /// Whether all its limits decided, so that the wait is the longest of all limits.
    pub(crate) is_of_all: bool,
}

/// Sends a request once. Its decision waits for at most `within`, or for the timeout. `None` if the gateway does not run, or if the client did not wait for the answer.
pub(crate) async fn request(
    trial: &Trial,
    place: usize,
    asks: &[Ask],
    then: Then,
    within: Option<Duration>,
) -> Option<Answer> {
    let gateway = trial.gateway(place);
    let mut life = gateway.life.subscribe();
    if *life.borrow() != Life::Runs {
        // Another gateway will soon take its place.
        tokio::time::sleep(Duration::from_millis(1)).await;
        return None;
    }
    let asked: Vec<Asked> = asks
        .iter()
        .map(|ask| {
            let (numbers, limit) = trial.limit(place, ask.limit, ask.plan);
            Asked {
                share: share_of(&limit, ask),
                limit,
                numbers,
                ask: *ask,
                changed: trial.changed(place, ask.limit),
            }
        })
        .collect();
    let charged = || {
        let asked = asked.iter();
        asked.flat_map(|it| store_charges(&it.limit, it.share.as_ref(), &it.ask))
    };
    let charges: SmallVec<[Charge<'_>; 4]> = charged()
        .map(|(limit, key, cost)| Charge {
            limit,
            key,
            cost,
            origin: None,
        })
        .collect();
    let begin = now();
    let key = asked[0].ask.key;
    let given_up = gateway.given_up(key, begin, within);
    let patience = match then {
        Then::Leave(time) => Duration::from_micros(time),
        _ => Duration::from_secs(60),
    };
    let deciding = gateway.store.decide_within(&charges, within);
    let decision = tokio::select! {
        decision = tokio::time::timeout(patience, deciding) => decision.ok(),
        _ = life.wait_for(|life| *life == Life::Killed) => None,
    };
    let span = Span { begin, end: now() };
    let mut request = noted(trial, gateway.number, &asked, span, decision.as_ref());
    request.given_up = given_up;
    request.within = within.map(|within| within.as_micros() as Micros);
    if request.via() == Some(Via::Store) && !request.is_unanswered() {
        gateway.answered(key, span.end - begin);
    }
    if let Some(decision) = decision.filter(|_| request.is_admitted()) {
        let holds = gateway.store.holds(charged(), &decision);
        if let Then::Wait(most) = then {
            let turn = decision.verdicts.iter().flatten();
            let turn = turn.map(|verdict| verdict.delay).max().unwrap_or(0);
            let leaves = life.wait_for(|life| *life != Life::Runs);
            drop(tokio::time::timeout(Duration::from_micros(most.min(turn)), leaves).await);
        }
        if let (Some(holds), Then::Run(time, used)) = (holds, then) {
            run_on(trial, &gateway, &mut life, &mut request, holds, time, used).await;
        }
    }
    if request.is_admitted() && request.ran_until.is_none() {
        request.ran_until = Some(span.end);
    }
    let answer = answer(trial, &request);
    trial.log.requests.lock().unwrap().push(request);
    answer
}

/// The answer that the client gets.
fn answer(trial: &Trial, request: &Request) -> Option<Answer> {
    let Said::Decided { outcome, error, .. } = &request.said else {
        return None;
    };
    let refusing = request.charges.iter().filter_map(|charge| {
        let is_enforced = !trial.case.limits[charge.limit].is_observed;
        let wait = charge.refused_for().filter(|_| is_enforced)?;
        Some((wait, (charge.limit, charge.key)))
    });
    let is_exact = |charge: &history::Charge| {
        let mode = charge.changed;
        mode.unwrap_or(trial.case.limits[charge.limit].mode) == Mode::Exact
    };
    let is_alone = request.charges.len() == 1 && request.charges[0].share.is_none();
    let is_of_all = trial.case.in_memory
        || is_alone
        || request.via() == Some(Via::Store) && request.charges.iter().all(is_exact)
        || request
            .charges
            .iter()
            .all(history::Charge::is_refused_by_all);
    let longest = refusing
        .max_by_key(|(wait, _)| *wait)
        .filter(|_| *outcome == Outcome::Refused);
    Some(Answer {
        outcome: *outcome,
        has_error: error.is_some(),
        retry_after: longest.map(|(wait, _)| wait),
        by: longest.map(|(_, by)| by),
        is_of_all,
    })
}

/// Lets a request run, and settles its real cost.
async fn run_on(
    trial: &Trial,
    gateway: &Gateway,
    life: &mut tokio::sync::watch::Receiver<Life>,
    request: &mut Request,
    mut holds: Holds,
    time: u64,
    used: u64,
) {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(time)) => {}
        _ = life.wait_for(|life| *life != Life::Runs) => {}
    }
    // If the gateway was killed, later messages do not count.
    let ends = now();
    let killed = *life.borrow() == Life::Killed;
    request.ran_until = Some(killed_at(trial, gateway).unwrap_or(ends).min(ends));
    let reserves =
        |charge: &&mut history::Charge| trial.case.limits[charge.limit].reserves.is_some();
    if !killed {
        for charge in request.charges.iter_mut().filter(reserves) {
            charge.used = Some(used);
            request.settled = Some(ends);
        }
        holds.settle(|_, _| used);
    }
    drop(holds);
}

fn killed_at(trial: &Trial, gateway: &Gateway) -> Option<Micros> {
    let ends = trial.log.ends.lock().unwrap();
    let end = ends.iter().find(|end| end.gateway == gateway.number)?;
    (!end.in_order).then_some(end.at)
}

/// The entry of a request in the history.
fn noted(
    trial: &Trial,
    gateway: usize,
    asked: &[Asked],
    span: Span,
    decision: Option<&Decision>,
) -> Request {
    let said = match decision {
        None => Said::Aborted,
        Some(decision) => Said::Decided {
            outcome: decision.outcome,
            via: decision.via,
            error: decision
                .call
                .as_ref()
                .and_then(|call| call.error.as_ref())
                .map(ToString::to_string),
        },
    };
    let is_split =
        trial.case.in_cluster && asked.iter().any(|other| other.ask.key != asked[0].ask.key);
    let decided = decision.filter(|decision| decision.outcome != Outcome::Unavailable);
    let mut next = 0;
    let charges = asked.iter().map(|asked| {
        let nth = next;
        next += 1 + usize::from(asked.share.is_some());
        let verdict = decision.and_then(|decision| *decision.verdicts.get(nth)?);
        let shared = decided.and_then(|decision| *decision.verdicts.get(nth + 1)?);
        let source = decision.and_then(|decision| decision.sources.get(nth).copied());
        let here = source.is_none_or(|source| source.here);
        let mode = asked.limit.mode();
        let at = match source {
            None => span,
            // Over several slots, the charge is checked first and made later.
            Some(source) if !here && is_split => Span {
                begin: source.at,
                end: span.end.max(source.at),
            },
            Some(source) if !here && !trial.case.in_memory => Span::at(source.at),
            // The gateway decides by its estimate of Redis's clock, which may be ahead. The time follows from the reset, which is the end
            // of the window.
            Some(_) if mode == Mode::Synced && !trial.case.in_memory => {
                let window = trial.case.limits[asked.ask.limit].window;
                let reset = verdict.map_or(0, |verdict| verdict.reset);
                let end = (span.begin + reset + window / 2) / window * window;
                verdict.map_or(span, |_| Span::at(end - reset))
            }
            // A decision from a slice does not show its time.
            Some(_) if mode == Mode::Leased && !trial.case.in_memory => span,
            // The store reads the clock first. Others may be decided or settled before this decision is made.
            Some(source) => Span {
                begin: source.at,
                end: span.end.max(source.at),
            },
        };
        history::Charge {
            limit: asked.ask.limit,
            key: asked.ask.budget(),
            numbers: asked.numbers,
            cost: asked.ask.cost,
            verdict: verdict.filter(|_| decided.is_some()),
            at,
            here,
            used: None,
            changed: asked.changed,
            share: asked.ask.member.map(|member| (member, shared)),
        }
    });
    Request {
        gateway,
        asked: span,
        charges: charges.collect(),
        said,
        called: decision.is_some_and(|decision| decision.call.is_some()),
        ran_until: None,
        settled: None,
        given_up: span.end,
        within: None,
    }
}

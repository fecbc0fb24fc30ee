//! From which budget a request was admitted: the one that all gateways share, or what one of them gave away alone.

use tidegate_core::Micros;
use tidegate_store::{Mode, Via};

use super::super::history::{Charge, History, Request, Span};
use super::super::law::Numbers;

/// A budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    /// That of all gateways.
    Shared,
    /// What this gateway gives away by itself.
    Alone(usize),
    /// One of both: of a limit that a gateway keeps in part, an answer does not say which.
    Either(usize),
}

/// What surely was admitted from a budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighed {
    pub(super) at: Span,
    pub(super) gateway: usize,
    pub(super) numbers: Numbers,
    pub(super) cost: u64,
    pub(super) budget: Budget,
    // From then on it may count for no more than this.
    settled: Option<(Micros, u64)>,
}

impl Weighed {
    /// What it counts for, at least, at a time.
    pub(super) fn weight(&self, at: Micros) -> u64 {
        match self.settled {
            Some((time, used)) if time <= at => used.min(self.cost),
            _ => self.cost,
        }
    }
}

/// From which budget a charge was admitted; none: from none.
pub(super) fn budget(history: &History, request: &Request, charge: &Charge) -> Option<Budget> {
    if !request.is_admitted() || !charge.verdict.is_some_and(|verdict| verdict.allowed) {
        return None;
    }
    Some(asked_of(history, request, charge))
}

/// By which budget a charge was admitted or refused.
pub(super) fn asked_of(history: &History, request: &Request, charge: &Charge) -> Budget {
    let gateway = request.gateway;
    match (history.mode(charge), request.via()) {
        _ if history.in_memory => Budget::Shared,
        (Mode::Local, _) => Budget::Alone(gateway),
        (Mode::Exact, Some(Via::Fallback)) if charge.here => Budget::Alone(gateway),
        // It was looked at without Redis, beside a limit of the gateway that refuses.
        (Mode::Exact, Some(Via::Here)) if charge.here && charge.verdict.is_some() => {
            Budget::Alone(gateway)
        }
        (Mode::Leased | Mode::Synced, Some(Via::Fallback)) => Budget::Either(gateway),
        _ => Budget::Shared,
    }
}

/// All that was surely admitted from the budgets that `belongs` names.
pub(super) fn admitted(
    history: &History,
    limit: usize,
    key: u64,
    belongs: impl Fn(Budget) -> bool,
) -> Vec<Weighed> {
    let charges = history.of(limit, key);
    let weighed = charges.filter_map(|(request, charge)| {
        let budget = budget(history, request, charge).filter(|budget| belongs(*budget))?;
        let used = charge.used.unwrap_or(charge.cost);
        Some(Weighed {
            at: charge.at,
            gateway: request.gateway,
            numbers: charge.numbers,
            cost: charge.cost,
            budget,
            settled: request.settled.map(|at| (at, used)),
        })
    });
    let mut weighed: Vec<Weighed> = weighed.collect();
    weighed.sort_by_key(|weighed| (weighed.at.begin, weighed.at.end));
    weighed
}

/// The largest numbers by which this key was asked for: a reload changes them.
pub(super) fn most_generous(history: &History, limit: usize, key: u64) -> Option<Numbers> {
    let numbers = history.of(limit, key).map(|(_, charge)| charge.numbers);
    numbers.reduce(Numbers::most)
}

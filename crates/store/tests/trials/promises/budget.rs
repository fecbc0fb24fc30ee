//! Finds the budget that admitted a request: the budget that all gateways share, or the budget of one gateway alone.

use tidegate_core::Micros;
use tidegate_store::{Mode, Via};

use super::super::history::{Charge, History, Request, Span};
use super::super::law::Numbers;

/// A budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    /// The budget that all gateways share.
    Shared,
    /// The budget of this gateway alone.
    Alone(usize),
    /// One of both. An answer does not show which, if the gateway counts a part of the limit.
    Either(usize),
}

/// A charge that was surely admitted from a budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighed {
    pub(super) at: Span,
    pub(super) gateway: usize,
    pub(super) numbers: Numbers,
    pub(super) cost: u64,
    pub(super) budget: Budget,
    // A time, and the most units for which the charge counts after it.
    settled: Option<(Micros, u64)>,
}

impl Weighed {
    /// The least units for which it counts at a time.
    pub(super) fn weight(&self, at: Micros) -> u64 {
        match self.settled {
            Some((time, used)) if time <= at => used.min(self.cost),
            _ => self.cost,
        }
    }
}

/// The budget that admitted a charge. `None` if the charge was not admitted.
pub(super) fn budget(history: &History, request: &Request, charge: &Charge) -> Option<Budget> {
    if !request.is_admitted() || !charge.verdict.is_some_and(|verdict| verdict.allowed) {
        return None;
    }
    Some(asked_of(history, request, charge))
}

/// The budget that admitted or refused a charge.
pub(super) fn asked_of(history: &History, request: &Request, charge: &Charge) -> Budget {
    let gateway = request.gateway;
    match (history.mode(charge), request.via()) {
        _ if history.in_memory => Budget::Shared,
        (Mode::Local, _) => Budget::Alone(gateway),
        (Mode::Exact, Some(Via::Fallback)) if charge.here => Budget::Alone(gateway),
        // The gateway checked it without Redis, because one of its own limits refuses.
        (Mode::Exact, Some(Via::Here)) if charge.here && charge.verdict.is_some() => {
            Budget::Alone(gateway)
        }
        (Mode::Leased | Mode::Synced, Some(Via::Fallback)) => Budget::Either(gateway),
        _ => Budget::Shared,
    }
}

/// All charges that were surely admitted from budgets for which `belongs` is true.
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

/// The largest numbers in the requests for this key. A reload changes the numbers.
pub(super) fn most_generous(history: &History, limit: usize, key: u64) -> Option<Numbers> {
    let numbers = history.of(limit, key).map(|(_, charge)| charge.numbers);
    numbers.reduce(Numbers::most)
}

//! Finds the budgets that reach a threshold, such as 80 % of a month's tokens.
//!
//! An event follows from the verdict of a decision. Requests never wait for the delivery of an event. This process finds one event for each
//! budget, threshold and period at most. The gateways agree later which of them reports the event.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::{Micros, Verdict};
use tidegate_identity::{Client, ClientPlan};
use tidegate_store::{Decision, Key, Limit, Mode, Via};
use tokio::sync::mpsc;

use crate::charges::{RuleCharge, RuleCharges};
use crate::{Notify, Per};

/// The most events that wait for the task that delivers them.
const MAX_WAITING: usize = 10_000;
/// The most budgets whose events are remembered.
const MAX_BUDGETS: usize = 100_000;
/// The shortest time between two equal events of a budget without windows.
const LEAST_PERIOD: Micros = 60_000_000;
/// The shortest time between two searches for budgets whose period is over.
const SWEEP_EVERY: Micros = 10_000_000;

/// The event that a budget has reached a threshold.
#[derive(Clone, Debug)]
pub struct BudgetEvent {
    /// The limit, with the numbers of the client's plan.
    pub limit: Arc<Limit>,
    /// The parts that the limit is counted per.
    pub per: Arc<[Per]>,
    /// The key of the budget.
    pub key: Key,
    /// The client of the request that reached the threshold. `None` if the budget is shared by clients.
    pub client: Option<Client>,
    /// The client's plan.
    pub plan: Option<ClientPlan>,
    /// The threshold, in percent.
    pub at: u8,
    /// The used units, with the units that running requests hold.
    pub used: u64,
    /// The time of the decision by the store's clock, in us since the epoch.
    pub now: Micros,
    /// The time at which all units are free again, in us since the epoch.
    pub resets_at: Micros,
    /// The end of the window, in us since the epoch. `None` if the limit has no windows.
    pub window: Option<Micros>,
    /// The time at which the budget may have the same event again, in us since the epoch.
    pub until: Micros,
    /// The thresholds and the receiver.
    pub notify: Arc<Notify>,
}

/// The events of a gateway. Clones share the memory of events and the queue.
#[derive(Clone, Debug, Default)]
pub struct BudgetEvents(Option<Arc<Found>>);

#[derive(Debug)]
struct Found {
    sender: mpsc::Sender<BudgetEvent>,
    budgets: Mutex<Budgets>,
    dropped: Box<dyn Dropped>,
}

/// A counter of events that found no place.
pub trait Dropped: fmt::Debug + Send + Sync {
    /// Counts an event of this limit as dropped.
    fn dropped(&self, limit: &str);
}

/// A budget: the hash of its limit's ID, and its key.
type Budget = (u64, Key);

/// The budgets that have reached a threshold.
#[derive(Debug, Default)]
struct Budgets {
    reached: HashMap<Budget, Reached>,
    /// The time of the last search for budgets whose period is over.
    swept: Micros,
}

/// The thresholds that a budget has reached.
#[derive(Clone, Copy, Debug)]
struct Reached {
    /// The bits of the thresholds, by their index.
    at: u8,
    /// The time at which the period ends, in us since the epoch by the store's clock.
    until: Micros,
}

impl BudgetEvents {
    /// Makes the memory of events, and the queue from which they are delivered.
    pub fn new(dropped: impl Dropped + 'static) -> (Self, mpsc::Receiver<BudgetEvent>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let found = Found {
            sender,
            budgets: Mutex::default(),
            dropped: Box::new(dropped),
        };
        (Self(Some(Arc::new(found))), receiver)
    }

    /// Queues an event for each threshold that a budget of these charges has reached.
    pub(crate) fn look(
        &self,
        charges: &RuleCharges<'_>,
        decision: &Decision,
        client: &Client,
        plan: Option<&ClientPlan>,
    ) {
        // Without Redis, a verdict is about this gateway's share of the budget.
        let Some(found) = self.0.as_ref().filter(|_| decision.via != Via::Fallback) else {
            return;
        };
        for (charge, verdict) in charges.iter().zip(&decision.verdicts) {
            if let (Some(notify), Some(verdict)) = (&charge.rule.notify, verdict)
                && reaches(charge, verdict, notify.at[0])
            {
                found.add(charge, verdict, notify, (decision.now, client, plan));
            }
        }
    }

    /// Forgets that the budget of this event has reached the threshold, because the event was not delivered. The next request of the budget
    /// causes the event again.
    pub fn forget(&self, event: &BudgetEvent) {
        let Some(found) = &self.0 else {
            return;
        };
        found.forget(event);
    }
}

impl Found {
    #[cold]
    fn add(
        &self,
        charge: &RuleCharge<'_>,
        verdict: &Verdict,
        notify: &Arc<Notify>,
        (now, client, plan): (Micros, &Client, Option<&ClientPlan>),
    ) {
        let quota = charge.limit.quota();
        let resets_at = now.saturating_add(verdict.reset);
        let has_windows = !quota.is_gradual();
        let until = match has_windows {
            true => quota.counts_until(now),
            false => resets_at.max(now.saturating_add(LEAST_PERIOD)),
        };
        let reached = notify.at.iter().copied();
        let reached = reached.filter(|at| reaches(charge, verdict, *at));
        let bits = reached.fold(0, |bits, at| bits | bit(notify, at));
        let Some(new) = self.note((charge.limit.id_hash(), charge.key), bits, (now, until)) else {
            return self.dropped.dropped(charge.limit.name());
        };
        for at in notify
            .at
            .iter()
            .copied()
            .filter(|at| new & bit(notify, *at) != 0)
        {
            let is_own = charge.rule.is_callers();
            let event = BudgetEvent {
                limit: charge.limit.clone(),
                per: charge.rule.per.clone(),
                key: charge.key,
                client: is_own.then(|| client.clone()),
                plan: plan.filter(|_| is_own).cloned(),
                at,
                used: quota.capacity().saturating_sub(verdict.remaining),
                now,
                resets_at,
                window: has_windows.then_some(until),
                until,
                notify: notify.clone(),
            };
            if let Err(error) = self.sender.try_send(event) {
                let event = match &error {
                    mpsc::error::TrySendError::Full(event)
                    | mpsc::error::TrySendError::Closed(event) => event,
                };
                self.forget(event);
                self.dropped.dropped(event.limit.name());
            }
        }
    }

    /// Adds thresholds that a budget has reached. Returns the bits that are new in this period. `None` if there is no place for a further
    /// budget.
    fn note(&self, budget: Budget, bits: u8, (now, until): (Micros, Micros)) -> Option<u8> {
        let mut budgets = self.budgets.lock();
        if let Some(reached) = budgets.reached.get_mut(&budget) {
            if reached.until <= now {
                *reached = Reached { at: 0, until };
            }
            let new = bits & !reached.at;
            reached.at |= bits;
            return Some(new);
        }
        if budgets.reached.len() >= MAX_BUDGETS && budgets.swept.saturating_add(SWEEP_EVERY) <= now
        {
            budgets.swept = now;
            budgets.reached.retain(|_, reached| reached.until > now);
        }
        if budgets.reached.len() >= MAX_BUDGETS {
            return None;
        }
        budgets.reached.insert(budget, Reached { at: bits, until });
        Some(bits)
    }

    fn forget(&self, event: &BudgetEvent) {
        let budget = (event.limit.id_hash(), event.key);
        if let Some(reached) = self.budgets.lock().reached.get_mut(&budget) {
            reached.at &= !bit(&event.notify, event.at);
        }
    }
}

/// Whether a budget has reached a threshold. A refusal counts as 100 %, unless running requests may give back the units that they hold.
fn reaches(charge: &RuleCharge<'_>, verdict: &Verdict, at: u8) -> bool {
    if !verdict.allowed {
        return !verdict.settling;
    }
    let capacity = charge.limit.quota().capacity();
    let used = u128::from(capacity.saturating_sub(verdict.remaining));
    used * 100 >= u128::from(capacity) * u128::from(at)
}

/// Returns the bit of a threshold.
fn bit(notify: &Notify, at: u8) -> u8 {
    let index = notify.at.iter().position(|other| *other == at);
    index.map_or(0, |index| 1_u8.checked_shl(index as u32).unwrap_or(0))
}

impl BudgetEvent {
    /// Whether each gateway has a budget of its own for this key, so that it has events of its own.
    pub fn is_local(&self) -> bool {
        self.limit.mode() == Mode::Local
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl Dropped for Nobody {
        fn dropped(&self, _: &str) {}
    }

    fn budget(number: u64) -> Budget {
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&number.to_be_bytes());
        (1, Key { tag, rest: [0; 16] })
    }

    fn found() -> Arc<Found> {
        let (events, _) = BudgetEvents::new(Nobody);
        events.0.unwrap()
    }

    #[test]
    fn a_budget_has_each_threshold_once_in_a_period() {
        let found = found();
        assert_eq!(found.note(budget(1), 0b001, (10, 100)), Some(0b001));
        assert_eq!(found.note(budget(1), 0b011, (20, 100)), Some(0b010));
        assert_eq!(found.note(budget(1), 0b011, (99, 100)), Some(0));
        assert_eq!(found.note(budget(2), 0b001, (99, 100)), Some(0b001));
        // The next period.
        assert_eq!(found.note(budget(1), 0b001, (100, 200)), Some(0b001));
        assert_eq!(found.note(budget(1), 0b001, (199, 200)), Some(0));
    }

    #[test]
    fn places_for_budgets_are_bounded_and_freed_when_periods_end() {
        let found = found();
        for number in 0..MAX_BUDGETS as u64 {
            let until = if number == 0 { 50 } else { 3 * SWEEP_EVERY };
            assert_eq!(found.note(budget(number), 1, (10, until)), Some(1));
        }
        let new = budget(u64::MAX);
        assert_eq!(found.note(new, 1, (40, 100)), None);
        assert_eq!(found.note(budget(1), 1, (40, 100)), Some(0));
        let later = SWEEP_EVERY;
        assert_eq!(found.note(new, 1, (later, 3 * SWEEP_EVERY)), Some(1));
        assert_eq!(found.note(budget(0), 1, (later, 100)), None);
        // All periods but one are over.
        let last = 3 * SWEEP_EVERY;
        assert_eq!(found.note(budget(0), 1, (last, last + 1)), Some(1));
        assert_eq!(found.budgets.lock().reached.len(), 1);
    }
}

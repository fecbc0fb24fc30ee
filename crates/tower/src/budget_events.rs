//! Finds the budgets that reach a threshold, such as 80 % of a month's tokens.
//!
//! An event follows from the verdict of a decision. Requests never wait for the delivery of an event. This process finds one event for each
//! budget, threshold and period at most. The gateways agree later which of them reports the event.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tidegate_core::{Micros, Verdict};
use tidegate_identity::{Client, ClientPlan};
use tidegate_store::{Decision, Key, Limit, Mode, Via};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::charges::{RuleCharge, RuleCharges};
use crate::{Notify, Per};

/// The most events that wait for the task that delivers them.
const MAX_WAITING: usize = 10_000;
/// The largest number of reached thresholds that are remembered at once.
const MAX_REACHED: usize = 200_000;
/// The shortest time between two equal events of a budget without windows.
const LEAST_PERIOD: Micros = 60_000_000;
/// The shortest time between two searches for thresholds whose period is over.
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
    /// The used units. When the event is found, these include the units that running requests hold.
    pub used: u64,
    /// The usual cost of a request.
    usual: u64,
    /// Whether the limit has refused the request.
    is_refused: bool,
    /// The time of the decision by the store's clock, in us since the epoch.
    pub now: Micros,
    /// The time at which all units are free again, in us since the epoch.
    pub resets_at: Micros,
    /// The moment at which this process found the event.
    pub found: Instant,
    /// Whether the limit counts in windows of the clock. If so, the period of the event is the window.
    pub has_windows: bool,
    /// The end of the event's period, in us since the epoch. From then on, the budget may have the same event again.
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
    reached: Mutex<Reached>,
    dropped: Box<dyn Dropped>,
}

/// A counter of events that found no place.
pub trait Dropped: fmt::Debug + Send + Sync {
    /// Counts an event of this limit as dropped.
    fn dropped(&self, limit: &str);
}

/// A threshold of a budget: the hash of the limit's ID, the key of the budget, and the percent.
type Threshold = (u64, Key, u8);

/// The thresholds that budgets have reached.
#[derive(Debug, Default)]
struct Reached {
    /// The time at which the budget may have the event again, in us since the epoch by the store's clock.
    until: HashMap<Threshold, Micros>,
    /// The time of the last search for thresholds whose period is over.
    swept: Micros,
}

impl BudgetEvents {
    /// Makes the memory of events, and the queue from which they are delivered.
    pub fn new(dropped: impl Dropped + 'static) -> (Self, mpsc::Receiver<BudgetEvent>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let found = Found {
            sender,
            reached: Mutex::default(),
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
        // Other parts do not name the owner of the budget.
        let is_named = charge.rule.per.contains(&Per::Client);
        let reached = notify.at.iter().copied();
        let is_refused = !verdict.allowed && !verdict.settling;
        for at in reached.filter(|at| reaches(charge, verdict, *at)) {
            let threshold = (charge.limit.id_hash(), charge.key, at);
            match self.note(threshold, (now, until)) {
                Some(true) => {}
                Some(false) => continue,
                None => {
                    self.dropped.dropped(charge.limit.name());
                    continue;
                }
            }
            let event = BudgetEvent {
                limit: charge.limit.clone(),
                per: charge.rule.per.clone(),
                key: charge.key,
                client: is_named.then(|| client.clone()),
                plan: plan.filter(|_| is_named).cloned(),
                at,
                used: quota.capacity().saturating_sub(verdict.remaining),
                usual: charge.rule.cost.at_first().unwrap_or(1),
                is_refused,
                now,
                found: Instant::now(),
                resets_at,
                has_windows,
                until,
                notify: notify.clone(),
            };
            if let Err(error) = self.sender.try_send(event) {
                let (TrySendError::Full(event) | TrySendError::Closed(event)) = error;
                self.forget(&event);
                self.dropped.dropped(event.limit.name());
            }
        }
    }

    /// Records that a threshold was reached. Returns whether this is new in the period. `None` if there is no place for a further threshold.
    fn note(&self, threshold: Threshold, (now, until): (Micros, Micros)) -> Option<bool> {
        let mut reached = self.reached.lock();
        if let Some(noted) = reached.until.get_mut(&threshold) {
            let is_new = *noted <= now;
            if is_new {
                *noted = until;
            }
            return Some(is_new);
        }
        if reached.until.len() >= MAX_REACHED && reached.swept.saturating_add(SWEEP_EVERY) <= now {
            reached.swept = now;
            reached.until.retain(|_, until| *until > now);
        }
        if reached.until.len() >= MAX_REACHED {
            return None;
        }
        reached.until.insert(threshold, until);
        Some(true)
    }

    /// Forgets that this event's threshold was reached, unless the budget has reached it in a later period as well.
    fn forget(&self, event: &BudgetEvent) {
        let threshold = (event.limit.id_hash(), event.key, event.at);
        let mut reached = self.reached.lock();
        if reached.until.get(&threshold) == Some(&event.until) {
            reached.until.remove(&threshold);
        }
    }
}

/// Whether a budget has reached a threshold, if held units count as used. A budget with less than the usual cost of a request left is used
/// up, once a request was refused.
fn reaches(charge: &RuleCharge<'_>, verdict: &Verdict, at: u8) -> bool {
    let capacity = charge.limit.quota().capacity();
    let used = capacity.saturating_sub(verdict.remaining);
    if is_share(used, capacity, at) {
        return true;
    }
    let usual = charge.rule.cost.at_first().unwrap_or(1);
    !verdict.allowed && !verdict.settling && verdict.remaining < usual
}

/// Whether `used` units are at least this percentage of the capacity.
fn is_share(used: u64, capacity: u64, percent: u8) -> bool {
    u128::from(used) * 100 >= u128::from(capacity) * u128::from(percent)
}

impl BudgetEvent {
    /// Whether the budget has reached the threshold if this number of units is used.
    pub fn is_reached(&self, used: u64) -> bool {
        let capacity = self.limit.quota().capacity();
        is_share(used, capacity, self.at)
            || self.is_refused && capacity.saturating_sub(used) < self.usual
    }

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

    fn threshold(number: u64, at: u8) -> Threshold {
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&number.to_be_bytes());
        (1, Key { tag, rest: [0; 16] }, at)
    }

    fn found() -> Arc<Found> {
        let (events, _) = BudgetEvents::new(Nobody);
        events.0.unwrap()
    }

    #[test]
    fn a_budget_has_each_threshold_once_in_a_period() {
        let found = found();
        let (first, second) = (threshold(1, 80), threshold(1, 100));
        assert_eq!(found.note(first, (10, 100)), Some(true));
        assert_eq!(found.note(first, (20, 120)), Some(false));
        // Each threshold has a period of its own.
        assert_eq!(found.note(second, (50, 150)), Some(true));
        assert_eq!(found.note(threshold(2, 80), (99, 100)), Some(true));
        assert_eq!(found.note(first, (100, 200)), Some(true));
        assert_eq!(found.note(second, (100, 200)), Some(false));
        assert_eq!(found.note(second, (150, 250)), Some(true));
        assert_eq!(found.note(first, (199, 300)), Some(false));
    }

    #[test]
    fn places_are_bounded_and_freed_when_periods_end() {
        let found = found();
        for number in 0..MAX_REACHED as u64 {
            let until = if number == 0 { 50 } else { 3 * SWEEP_EVERY };
            assert_eq!(found.note(threshold(number, 80), (10, until)), Some(true));
        }
        let new = threshold(u64::MAX, 80);
        assert_eq!(found.note(new, (40, 100)), None);
        assert_eq!(found.note(threshold(1, 80), (40, 100)), Some(false));
        let later = SWEEP_EVERY;
        assert_eq!(found.note(new, (later, 3 * SWEEP_EVERY)), Some(true));
        assert_eq!(found.note(threshold(0, 80), (later, 100)), None);
        let last = 3 * SWEEP_EVERY;
        assert_eq!(found.note(threshold(0, 80), (last, last + 1)), Some(true));
        assert_eq!(found.reached.lock().until.len(), 1);
    }
}

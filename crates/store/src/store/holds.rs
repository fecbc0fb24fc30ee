//! Holds of running requests.
//!
//! Each hold lapses after a lease, so the holds of a dead gateway end. A running gateway renews the holds of its requests. The stores keep
//! the holds, and the registry lists the holds of this process.

mod renewals;
mod settlement_watch;
mod settlements;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tidegate_core::Quota;
use tokio::time::MissedTickBehavior;

use crate::charge::LimitKey;
use crate::registry::{Hold, Home, Registry, Settlement, State, Watchers};
use crate::{Decision, Key, Limit, Mode, Outcome, PerCharge, Source, Store, Via};
pub use settlement_watch::SettlementWatch;

/// The time between two calls of [`Store::renew`]: shorter than the shortest lease.
pub const RENEW_EVERY: Duration = Duration::from_millis(250);

/// The most calls to Redis that one round of renewals, or of ends, makes at the same time.
const AT_ONCE: usize = 256;

/// The longest time between two rounds that send unanswered ends again while the process exits.
const LAST_ROUNDS: Duration = Duration::from_millis(50);

/// The holds of one admitted request. When this value is dropped, each hold ends, and its reserved units are charged. A hold of
/// `concurrency` charges no units.
#[derive(Debug)]
pub struct Holds {
    store: Store,
    holds: PerCharge<HeldCharge>,
}

/// The hold of one charge: its number in the registry, its limit and its units.
#[derive(Debug)]
struct HeldCharge {
    id: u64,
    limit: Arc<Limit>,
    cost: u64,
}

impl Holds {
    /// Ends the holds that reserve a cost, but not the holds of `concurrency`. `used` receives a limit and the held units, and returns the
    /// real cost.
    pub fn settle(&mut self, mut used: impl FnMut(&Limit, u64) -> u64) {
        self.settle_known(|limit, reserved| Some(used(limit, reserved)));
    }

    /// Ends holds like [`settle`](Self::settle), but keeps a hold if `used` returns `None`.
    pub fn settle_known(&mut self, mut used: impl FnMut(&Limit, u64) -> Option<u64>) {
        for held in std::mem::take(&mut self.holds) {
            let reserves = held.limit.reserves();
            match reserves.and_then(|_| used(&held.limit, held.cost)) {
                Some(used) => self.store.end(held.id, Some(used)),
                None => self.holds.push(held),
            }
        }
    }

    /// Keeps the holds for `time` after the end of the request.
    pub fn keep(mut self, time: Duration) {
        for held in self.holds.drain(..) {
            if !self.store.registry().keep(held.id, time) {
                self.store.end(held.id, None);
            }
        }
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        for held in self.holds.drain(..) {
            self.store.end(held.id, None);
        }
    }
}

impl Store {
    /// Returns the holds that a request took in `decision`. `charged` has the limits, keys and costs, in the order of the verdicts. `None`
    /// if the request has no holds.
    pub fn holds<'a>(
        &self,
        charged: impl Iterator<Item = (&'a Arc<Limit>, Key, u64)>,
        decision: &Decision,
    ) -> Option<Holds> {
        if decision.outcome != Outcome::Admitted {
            return None;
        }
        let mut holds = PerCharge::new();
        let verdicts = decision.verdicts.iter().zip(&decision.sources);
        for ((limit, key, cost), (verdict, source)) in charged.zip(verdicts) {
            let verdict = verdict.filter(|verdict| verdict.allowed);
            let (Some(lease), Some(_)) = (limit.lease(), verdict) else {
                continue;
            };
            let took = decision
                .call
                .as_ref()
                .map_or(Duration::ZERO, |call| call.took);
            let mut hold = Hold {
                limit: limit.clone(),
                key,
                cost,
                home: self.home(limit, source, decision.via),
                id: source.hold,
                lapse: source.at + lease,
                renewed: Instant::now().checked_sub(took),
                connection: 0,
                may_be_there: true,
                copy: None,
                state: State::Held,
                kept_until: None,
            };
            let server = self.place(&mut hold);
            let id = self.registry().add(hold, |hold| {
                if let Some(server) = server {
                    server.confirmation.add(hold.lapses(), hold.connection);
                }
            });
            holds.push(HeldCharge {
                id,
                limit: limit.clone(),
                cost,
            });
        }
        let store = self.clone();
        (!holds.is_empty()).then_some(Holds { store, holds })
    }

    /// Watches for settlements under one key in this process, from this call on.
    pub fn settlements(&self, limit: &Limit, key: Key) -> SettlementWatch {
        SettlementWatch::watch(self, limit, key)
    }

    /// Whether other gateways may settle charges of this limit.
    pub fn is_shared(&self, limit: &Limit) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Redis(store) => limit.mode() != Mode::Local && store.has_others(),
        }
    }

    /// Renews holds that are due, ends holds whose `kept_until` has passed, and sends unanswered ends again. Call it every [`RENEW_EVERY`].
    pub async fn renew(&self) {
        for id in self.registry().over() {
            self.end(id, None);
        }
        tokio::join!(self.renew_due(), self.settle_again());
    }

    /// Calls [`Store::renew`] every [`RENEW_EVERY`], and at once if a decision waits for a renewal.
    pub async fn keep_renewed(&self) {
        let mut every = tokio::time::interval(RENEW_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = every.tick() => {}
                () = self.registry().wanted.notified() => {}
            }
            self.renew().await;
        }
    }

    /// Ends all holds before the process exits, and waits until Redis has answered all calls of this process. While Redis does not answer,
    /// this call does not return, so it needs a timeout.
    pub async fn let_go(&self) {
        for id in self.registry().ids() {
            self.end(id, None);
        }
        loop {
            let progress = self.registry().progress.notified();
            if self.registry().is_idle() {
                return;
            }
            if self.registry().unanswered.count() > 0 {
                let _ = tokio::time::timeout(LAST_ROUNDS, progress).await;
                self.settle_again().await;
            } else {
                progress.await;
            }
        }
    }

    /// Ends a hold with the cost of its request.
    fn end(&self, id: u64, used: Option<u64>) {
        let Some((hold, used)) = self.registry().end(id, used, self.memory().table()) else {
            return;
        };
        if let Home::Here(_) = hold.home {
            self.give_up_here(&hold, used);
            return;
        }
        self.end_copy(&hold);
        if !hold.may_be_there {
            self.settled(&hold.limit, hold.key);
            return;
        }
        let store = self.clone();
        self.go_on(async move { store.give_up(hold, used).await });
    }

    /// Runs a call to Redis in the background.
    pub(crate) fn go_on(&self, call: impl Future<Output = ()> + Send + 'static) {
        // If the runtime has ended, it cannot run the call, and the hold lapses.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        self.registry().on_the_way.fetch_add(1, Relaxed);
        let store = self.clone();
        runtime.spawn(async move {
            call.await;
            store.registry().on_the_way.fetch_sub(1, Relaxed);
            store.registry().progress.notify_waiters();
        });
    }

    async fn give_up(&self, hold: Hold, used: u64) {
        self.end_copy(&hold);
        match hold.home {
            Home::Redis => {
                let matters = hold.matters();
                self.settle(Settlement::new(hold, used, matters)).await;
            }
            Home::Here(_) => self.give_up_here(&hold, used),
        }
    }

    fn give_up_here(&self, hold: &Hold, used: u64) {
        if let Home::Here(quota) = &hold.home {
            let memory = self.memory().table();
            memory.end(&hold.charge(), quota, hold.id, used, crate::now());
        }
        self.settled(&hold.limit, hold.key);
    }

    /// Wakes the tasks that wait until units under a key are settled or become free.
    pub(crate) fn settled(&self, limit: &Limit, key: Key) {
        let key = LimitKey::of(limit, key);
        self.registry().watchers.notify(key);
        self.registry().progress.notify_waiters();
    }

    fn watchers(&self) -> &Watchers {
        &self.registry().watchers
    }

    /// Returns the store that keeps the hold of a charge with this source.
    pub(crate) fn home(&self, limit: &Limit, source: &Source, via: Via) -> Home {
        if !source.here {
            Home::Redis
        } else if via == Via::Fallback && limit.mode() != Mode::Local {
            Home::Here(self.share(limit))
        } else {
            Home::Here(*limit.quota())
        }
    }

    /// Returns this process's share of a limit during an outage.
    fn share(&self, limit: &Limit) -> Quota {
        match self {
            Self::Memory(_) => *limit.quota(),
            Self::Redis(store) => store.outage().share(limit),
        }
    }

    fn registry(&self) -> &Registry {
        match self {
            Self::Memory(store) => store.registry(),
            Self::Redis(store) => store.registry(),
        }
    }
}

#[cfg(test)]
mod tests;

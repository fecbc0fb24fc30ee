//! What requests hold while they are under way: places of `concurrency`, and reservations until they are settled.
//!
//! Each lapses after a lease, so that a gateway that dies holds nothing for longer than that; a gateway that lives renews
//! what its requests hold. How it is kept is the stores' business; this is the list of it.

mod registry;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_core::{Micros, Quota};
use tokio::task::JoinSet;

use crate::{Decision, Limit, Mode, Outcome, PerCharge, Source, Store, Subject, Via};

pub(crate) use registry::Registry;
use registry::{Hold, State};

/// How often [`Store::renew`] should be called: a part of the shortest lease.
pub const RENEW_EVERY: Duration = Duration::from_millis(250);

/// Calls of one round that wait for Redis at once.
const AT_ONCE: usize = 256;

/// Where a charge is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Home {
    Redis,
    /// In this process, by this quota.
    Here(Quota),
}

/// What one admitted request holds. When it is dropped, its places are free again, and its reservations stay charged.
#[derive(Debug)]
pub struct UnderWay {
    store: Store,
    holds: PerCharge<(u64, Arc<Limit>)>,
}

impl UnderWay {
    /// Settles the reservations: `used` says what this request has come to under a limit; none: what was reserved.
    pub fn settle(&mut self, used: impl Fn(&Limit) -> Option<u64>) {
        let reserved = |(_, limit): &(u64, Arc<Limit>)| limit.reserves().is_some();
        let holds = std::mem::take(&mut self.holds);
        let (reserved, places) = holds.into_iter().partition::<Vec<_>, _>(reserved);
        self.holds.extend(places);
        for (id, limit) in reserved {
            self.store.end(id, used(&limit));
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        for (id, _) in self.holds.drain(..) {
            self.store.end(id, None);
        }
    }
}

impl Store {
    /// What a request holds that was admitted by this decision on these limits, subjects and costs, in the order of the
    /// verdicts; none if it holds nothing.
    pub fn under_way<'a>(
        &self,
        charged: impl Iterator<Item = (&'a Arc<Limit>, Subject, u64)>,
        decision: &Decision,
    ) -> Option<UnderWay> {
        if decision.outcome != Outcome::Admitted {
            return None;
        }
        let mut holds = PerCharge::new();
        let said = decision.verdicts.iter().zip(&decision.sources);
        for ((limit, subject, cost), (verdict, source)) in charged.zip(said) {
            let verdict = verdict.filter(|verdict| verdict.allowed);
            let (Some(lease), Some(verdict)) = (limit.lease(), verdict) else {
                continue;
            };
            let hold = Hold {
                limit: limit.clone(),
                subject,
                cost,
                home: self.home(limit, source, decision.via),
                receipt: source.at + verdict.reset,
                lapse: source.at + lease,
                renewed: Instant::now(),
                state: State::Held,
            };
            holds.push((self.registry().add(hold), limit.clone()));
        }
        let store = self.clone();
        (!holds.is_empty()).then_some(UnderWay { store, holds })
    }

    /// Ready once something is settled or given back in this process, from the time of this call on.
    pub fn settled(&self) -> impl Future<Output = ()> {
        self.registry().settled.notified()
    }

    /// Renews what is held and due; to be called every [`RENEW_EVERY`].
    pub async fn renew(&self) {
        let mut calls = JoinSet::new();
        for (id, hold) in self.registry().due() {
            while calls.len() >= AT_ONCE {
                calls.join_next().await;
            }
            let store = self.clone();
            calls.spawn(async move {
                let renewed = store.hold_on(&hold).await;
                if let Some((hold, used)) = store.registry().renewed(id, renewed) {
                    store.give_up(hold, used).await;
                }
            });
        }
        while calls.join_next().await.is_some() {}
    }

    /// Gives back what requests still hold, for this process ends, and waits for all that is on its way to Redis.
    pub async fn let_go(&self) {
        for id in self.registry().ids() {
            self.end(id, None);
        }
        loop {
            let settled = self.settled();
            if self.registry().is_idle() {
                return;
            }
            settled.await;
        }
    }

    /// A request has ended that holds this, and has come to so much.
    fn end(&self, id: u64, used: Option<u64>) {
        let Some((hold, used)) = self.registry().end(id, used) else {
            return;
        };
        if let Home::Here(_) = hold.home {
            self.give_up_here(&hold, used);
            return;
        }
        let store = self.clone();
        self.go_on(async move { store.give_up(hold, used).await });
    }

    /// Says something to Redis that nobody waits for.
    pub(crate) fn go_on(&self, call: impl Future<Output = ()> + Send + 'static) {
        // Without a runtime, which is ending, there is nothing left to do it: what was charged lapses.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        self.registry().on_the_way.fetch_add(1, Ordering::Relaxed);
        let store = self.clone();
        runtime.spawn(async move {
            call.await;
            store.registry().on_the_way.fetch_sub(1, Ordering::Relaxed);
            store.registry().settled.notify_waiters();
        });
    }

    async fn give_up(&self, hold: Hold, used: u64) {
        match (hold.home, self) {
            (Home::Redis, Self::Redis(store)) => {
                store
                    .give_up(&hold.charge(), hold.receipt, hold.lapse, used)
                    .await;
                self.registry().settled.notify_waiters();
            }
            _ => self.give_up_here(&hold, used),
        }
    }

    fn give_up_here(&self, hold: &Hold, used: u64) {
        if let Home::Here(quota) = &hold.home {
            let (memory, charge) = (self.memory(), hold.charge());
            match hold.limit.reserves() {
                Some(_) => memory.settle(&charge, quota, hold.receipt, hold.lapse, used),
                None => memory.give_back(&charge, quota, hold.lapse),
            }
        }
        self.registry().settled.notify_waiters();
    }

    async fn hold_on(&self, hold: &Hold) -> Option<Micros> {
        match (hold.home, self) {
            (Home::Redis, Self::Redis(store)) => store.hold_on(&hold.charge(), hold.lapse).await,
            (Home::Here(quota), _) => self.memory().renew(&hold.charge(), &quota, hold.lapse),
            (Home::Redis, Self::Memory(_)) => None,
        }
    }

    /// Where a charge is kept that was decided so.
    pub(crate) fn home(&self, limit: &Limit, source: &Source, via: Via) -> Home {
        if !source.here {
            Home::Redis
        } else if via == Via::Fallback && limit.mode() != Mode::Local {
            Home::Here(self.share(limit))
        } else {
            Home::Here(*limit.quota())
        }
    }

    /// What this process gives away of a limit during an outage.
    fn share(&self, limit: &Limit) -> Quota {
        match self {
            Self::Memory(_) => *limit.quota(),
            Self::Redis(store) => store.share(limit),
        }
    }

    fn registry(&self) -> &Registry {
        match self {
            Self::Memory(store) => store.registry(),
            Self::Redis(store) => store.registry(),
        }
    }
}

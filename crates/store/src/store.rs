//! The store of a gateway: in this process, or in Redis.

mod holds;
mod reading;

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Charge, Decision, Limit, LocalView, MemoryStore, Outlook, RedisStore, StoreError, SyncedUse,
};
pub use holds::{Holds, RENEW_EVERY, SettlementWatch};

/// The store of limiter state, chosen at start.
#[derive(Clone, Debug)]
pub enum Store {
    /// In this process.
    Memory(Arc<MemoryStore>),
    /// In Redis, shared with other gateways.
    Redis(Arc<RedisStore>),
}

impl Store {
    /// Decides one request: charges every limit, or none of them. If another limit refuses, units that Redis has already charged to a
    /// leased limit are not returned.
    ///
    /// The decision is never an error: when Redis does not answer in time, each limit's [`OnFailure`](crate::OnFailure) decides.
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Decision {
        self.decide_within(charges, None).await
    }

    /// Decides one request like [`decide`](Self::decide), for a caller with its own deadline: waits for Redis for at most `within` if that
    /// is shorter than the timeout of the store. A shorter wait that ends without an answer is no failure of Redis
    /// ([`RedisStore::decide_within`]). The memory store decides at once.
    pub async fn decide_within(
        &self,
        charges: &[Charge<'_>],
        within: Option<Duration>,
    ) -> Decision {
        match self {
            Self::Memory(store) => store.decide(charges),
            Self::Redis(store) => store.decide_within(charges, within).await,
        }
    }

    /// Returns a refusal of these charges that needs no call, if there is one. Charges no unit. The refusal is as accurate as a refusal by
    /// [`decide`](Self::decide). Limits that are observed, or whose requests hold units, never cause such a refusal.
    pub fn known_refusal(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        match self {
            Self::Memory(store) => store.known_refusal(charges),
            Self::Redis(store) => store.known_refusal(charges),
        }
    }

    /// Returns the verdict that each charge would get now without the other charges. Charges no unit.
    pub async fn peek(&self, charges: &[Charge<'_>]) -> Result<Vec<Outlook>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.peek(charges)),
            Self::Redis(store) => store.peek(charges).await,
        }
    }

    /// Returns the state of these charges in this process, in case [`peek`](Self::peek) fails. Charges no unit.
    pub fn peek_here(&self, charges: &[Charge<'_>]) -> Vec<LocalView> {
        let views = charges.iter().map(|charge| match self {
            Self::Memory(store) => store.view(charge),
            Self::Redis(store) => store.peek_here(charge),
        });
        views.collect()
    }

    /// Resets the keys of these charges to a full budget. Within a second, all gateways admit the full quota. A limit of
    /// [`Mode::Local`](crate::Mode) is reset in this process alone. This gateway restores the holds of its running requests at once. Other
    /// gateways restore theirs at their next renewal.
    pub async fn reset(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.reset(charges),
            Self::Redis(store) if charges.iter().any(|charge| charge.limit.lease().is_some()) => {
                let resetting = store.registry().resetting();
                self.lose(charges);
                let reset = store.reset(charges).await;
                // A hold that was renewed before the reset took effect is lost as well.
                self.lose(charges);
                drop(resetting);
                self.renew_due().await;
                reset?;
            }
            Self::Redis(store) => store.reset(charges).await?,
        }
        for charge in charges {
            self.settled(charge.limit, charge.key);
        }
        Ok(())
    }

    /// Returns to Redis the slices of all limits that are not in `limits` ([`RedisStore::keep_leased`]). The memory store has no slices.
    pub async fn keep_leased<'a>(&self, limits: impl Iterator<Item = &'a Limit>) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Redis(store) => store.keep_leased(limits).await,
        }
    }

    /// Sends Redis the state that only this process has. This takes up to a second. Call it before the process exits.
    pub async fn close(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.close().await,
        }
    }

    /// Checks that the store can decide requests to which these limits apply. The memory store always can.
    pub async fn ready<'a>(
        &self,
        limits: impl Iterator<Item = &'a Limit>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Redis(store) => store.ready(limits).await,
        }
    }

    /// Returns the keys, the calls and the overshoot of limits of [`Mode::Synced`](crate::Mode). The memory store has none.
    pub fn synced_usage(&self) -> SyncedUse {
        match self {
            Self::Memory(_) => SyncedUse::default(),
            Self::Redis(store) => store.synced_usage(),
        }
    }

    /// Returns the memory store of this process. If the store is in Redis, the memory store has the local limits and the state that outages
    /// of Redis left.
    pub fn memory(&self) -> &MemoryStore {
        match self {
            Self::Memory(store) => store,
            Self::Redis(store) => store.fallback(),
        }
    }
}

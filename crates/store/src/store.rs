//! The store of a gateway: in this process, or in Redis.

mod holds;

use std::sync::Arc;

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
    /// Decides one request: charges every limit, or none of them. Units of a leased limit that Redis has charged stay charged.
    ///
    /// There is no error: when Redis does not answer in time, each limit's [`OnFailure`](crate::OnFailure) decides.
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Decision {
        match self {
            Self::Memory(store) => store.decide(charges),
            Self::Redis(store) => store.decide(charges).await,
        }
    }

    /// Returns the refusal of these charges that needs no call, if there is one. Charges no unit, and errs by no more than
    /// [`decide`](Self::decide) itself may. None by limits that count units which other requests may give back.
    pub fn known_refusal(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        match self {
            Self::Memory(store) => store.known_refusal(charges),
            Self::Redis(store) => store.known_refusal(charges),
        }
    }

    /// Returns the outlook of each charge alone, now. Charges no unit.
    pub async fn peek(&self, charges: &[Charge<'_>]) -> Result<Vec<Outlook>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.peek(charges)),
            Self::Redis(store) => store.peek(charges).await,
        }
    }

    /// Returns the state of these charges in this process, for when [`peek`](Self::peek) fails. Charges no unit.
    pub fn peek_here(&self, charges: &[Charge<'_>]) -> Vec<LocalView> {
        let look = |charge| match self {
            Self::Memory(store) => store.view(charge),
            Self::Redis(store) => store.peek_here(charge),
        };
        charges.iter().map(look).collect()
    }

    /// Resets the keys of these charges to a full budget. All gateways admit the full quota within a second, but a limit of [`Mode::Local`](crate::Mode)
    /// is reset in this process alone. Running requests take their holds again: here at once, in other gateways by their next renewal.
    pub async fn reset(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.reset(charges),
            Self::Redis(store) if charges.iter().any(|charge| charge.limit.lease().is_some()) => {
                let resetting = store.registry().resetting();
                self.lose(charges);
                let reset = store.reset(charges).await;
                // A hold may have been renewed before the reset took effect.
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

    /// Returns the slices of all limits but these ([`RedisStore::keep_leased`]). In memory no limit is leased.
    pub async fn keep_leased<'a>(&self, limits: impl Iterator<Item = &'a Limit>) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Redis(store) => store.keep_leased(limits).await,
        }
    }

    /// Sends Redis the state that only this process has, for a second at most. Call it at the end.
    pub async fn close(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.close().await,
        }
    }

    /// Whether the store decides requests with these limits; the memory store always does.
    pub async fn ready<'a>(
        &self,
        limits: impl Iterator<Item = &'a Limit>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Redis(store) => store.ready(limits).await,
        }
    }

    /// Returns the cost and the overshoot of limits of [`Mode::Synced`](crate::Mode); empty in memory.
    pub fn synced_usage(&self) -> SyncedUse {
        match self {
            Self::Memory(_) => SyncedUse::default(),
            Self::Redis(store) => store.synced_usage(),
        }
    }

    /// Returns the state that this process keeps: all of it, or the state that an outage of Redis left.
    pub fn memory(&self) -> &MemoryStore {
        match self {
            Self::Memory(store) => store,
            Self::Redis(store) => store.fallback(),
        }
    }
}

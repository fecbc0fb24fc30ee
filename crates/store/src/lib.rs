//! Remembers: the two stores of limiter state, and the one question that requests ask of them.
//!
//! [`Store::decide`] takes all charges of one request and answers with one [`Decision`]: all of them are charged, or
//! none. What a request holds or queues for after that is an [`UnderWay`] and a [`Queued`]. [`Store::peek`] and
//! [`Store::reset`] are for operators: what is left, and begin anew. The memory store runs the algorithms of
//! `tidegate-core`; the Redis store runs their other writing, the scripts of `lua/`, which are compiled in. This crate is
//! the only one that sees fred, and fred's types stay in [`redis`]. It knows no request, no client's name and no
//! configuration file.

mod charge;
mod decision;
mod memory;
mod queued;
pub mod redis;
mod under_way;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub use charge::{Charge, Limit, MAX_CHARGES, Mode, OnFailure, PerCharge, Subject};
pub use decision::{
    Decision, Outcome, Outlook, Source, Sources, StoreCall, StoreError, Verdicts, Via,
};
pub use memory::{MAX_KEYS, MemoryStore, MemoryUse};
pub use queued::Queued;
pub use redis::{Agreement, Overshoot, RedisStore, SyncedUse};
use tidegate_core::Micros;
pub use under_way::{RENEW_EVERY, Settlements, UnderWay};

/// Where limits keep their state: one of two, chosen at start.
#[derive(Clone, Debug)]
pub enum Store {
    /// In this process.
    Memory(Arc<MemoryStore>),
    /// In Redis, shared with other gateways.
    Redis(Arc<RedisStore>),
}

impl Store {
    /// Decides one request: charges every limit, or none of them.
    ///
    /// There is no error: when Redis does not answer in time, each limit's [`OnFailure`] decides.
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Decision {
        match self {
            Self::Memory(store) => store.decide(charges),
            Self::Redis(store) => store.decide(charges).await,
        }
    }

    /// The refusal that these charges would be given without a question to anybody, if there is one; charges nothing, and
    /// is never wrong by more than what [`decide`](Self::decide) itself may be. None of limits that count what others may give back.
    pub fn known_refusal(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        match self {
            Self::Memory(store) => store.known_refusal(charges),
            Self::Redis(store) => store.known_refusal(charges),
        }
    }

    /// What each of these charges would meet if it came alone, and now; charges nothing.
    pub async fn peek(&self, charges: &[Charge<'_>]) -> Result<Vec<Outlook>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.peek(charges)),
            Self::Redis(store) => store.peek(charges).await,
        }
    }

    /// Forgets what was used under the keys of these charges: each limit begins anew there. Every gateway gives the full
    /// quota within a second; but a limit of [`Mode::Local`] is reset in this process alone. Places of running requests are
    /// taken again: here at once, in other gateways by their next renewal.
    pub async fn reset(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.reset(charges),
            Self::Redis(store) if charges.iter().any(|charge| charge.limit.has_places()) => {
                let resetting = store.registry().resetting();
                self.lose_places(charges);
                let reset = store.reset(charges).await;
                // One of them may have been renewed before.
                self.lose_places(charges);
                drop(resetting);
                self.renew_due().await;
                reset?;
            }
            Self::Redis(store) => store.reset(charges).await?,
        }
        for charge in charges {
            self.settled(charge.limit, charge.subject);
        }
        Ok(())
    }

    /// Tells others what only this process knows, for a second at most; to be called at the end.
    pub async fn close(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.close().await,
        }
    }

    /// Whether the store answers; the memory store always does.
    pub async fn ready(&self) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Redis(store) => store.ready().await,
        }
    }

    /// What limits of [`Mode::Synced`] cost and let through; nothing in memory.
    pub fn synced_usage(&self) -> SyncedUse {
        match self {
            Self::Memory(_) => SyncedUse::default(),
            Self::Redis(store) => store.synced_usage(),
        }
    }

    /// The state that this process keeps: all of it, or what an outage of Redis left here.
    pub fn memory(&self) -> &MemoryStore {
        match self {
            Self::Memory(store) => store,
            Self::Redis(store) => store.fallback(),
        }
    }
}

/// The time by the system's clock, in us since the epoch.
fn now() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.map_or(0, |since| {
        Micros::try_from(since.as_micros()).unwrap_or(Micros::MAX)
    });
    #[cfg(test)]
    let now = now.saturating_add_signed(clock::AHEAD.get());
    now
}

/// A system's clock that is wrong, for tests on one thread.
#[cfg(test)]
mod clock {
    use std::cell::Cell;

    thread_local! {
        /// How far it is ahead, in us.
        pub(crate) static AHEAD: Cell<i64> = const { Cell::new(0) };
    }
}

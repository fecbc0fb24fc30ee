//! Remembers: the two stores of limiter state, and the one question that requests ask of them.
//!
//! [`Store::decide`] takes all charges of one request and answers with one [`Decision`]: all of them are charged, or
//! none. What a request holds after that is [`Holds`]. [`Store::peek`],
//! [`Store::peek_here`] and [`Store::reset`] are for operators: what is left, what of that this process knows, and begin anew. The memory store runs the algorithms of `tidegate-core`. The
//! Redis store runs their other writing by calls of `tidegate-redis`: the scripts of `lua/`, which are compiled in.

mod charge;
mod decision;
mod memory;
pub mod redis;
mod registry;
mod sharded;
mod store;
mod table;

use std::time::{SystemTime, UNIX_EPOCH};

pub use charge::{Charge, Key, Limit, MAX_CHARGES, OnFailure, Origin, PerCharge, Recall};
pub use decision::{
    Decision, LastDecision, LocalView, Outcome, Outlook, Source, Sources, StoreCall, Verdicts, Via,
};
pub use memory::{Crowded, CrowdedLimit, MAX_KEYS, MemoryStore, MemoryUse};
pub use redis::{Agreement, Overshoot, RedisStore, SyncedUse};
pub use store::{Holds, RENEW_EVERY, SettlementWatch, Store};
use tidegate_core::Micros;
pub use tidegate_core::Mode;
pub use tidegate_redis::CallError as StoreError;

/// The time by the system's clock, in us since the epoch.
fn now() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.map_or(0, tidegate_core::micros);
    #[cfg(test)]
    let now = now.saturating_add_signed(tests::AHEAD.get());
    now
}

#[cfg(test)]
mod tests;

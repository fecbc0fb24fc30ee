//! Two stores of limiter state: in memory, and in Redis.
//!
//! [`Store::decide`] takes all charges of one request and returns one [`Decision`]: all of them are charged, or none. If the request is
//! admitted, [`Holds`] has its holds. Operators use [`Store::peek`] (the units left), [`Store::peek_here`] (the state of this process) and
//! [`Store::reset`]. The memory store runs the algorithms of `tidegate-core`. The Redis store runs the same algorithms as scripts: the
//! scripts of `lua/` are compiled in, and `tidegate-redis` makes the calls.

mod charge;
mod counts;
mod decision;
mod memory;
pub mod redis;
mod registry;
mod sharded;
mod store;
mod table;

use std::time::{SystemTime, UNIX_EPOCH};

pub use charge::{Charge, Key, Limit, MAX_CHARGES, OnFailure, Origin, PerCharge, Recall};
pub use counts::{Counts, KeyPage};
pub use decision::{
    Decision, LastDecision, LocalView, Outcome, Outlook, Source, Sources, StoreCall, Verdicts, Via,
};
pub use memory::{Crowded, CrowdedLimit, MAX_KEYS, MemoryStore, MemoryUse};
pub use redis::{Agreement, Overshoot, RedisStore, SyncedUse};
pub use store::{Holds, RENEW_EVERY, SettlementWatch, Store};
use tidegate_core::Micros;
pub use tidegate_core::Mode;
pub use tidegate_redis::{BadCursor, CallError as StoreError, Cursor};

/// Returns the time by the system's clock, in us since the epoch.
fn now() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.map_or(0, tidegate_core::micros);
    #[cfg(test)]
    let now = now.saturating_add_signed(tests::AHEAD.get());
    now
}

#[cfg(test)]
mod tests;

//! Periodic tasks of a gateway, which run until their futures are dropped.

use std::time::Duration;

use tidegate_store::redis::HEARTBEAT;
use tidegate_store::{RedisStore, Store};

/// The interval between two sweeps of the memory store. Each sweep drops the expired keys of one part of the store, and all parts are swept
/// within about a minute.
const SWEEP: Duration = Duration::from_secs(1);

/// Announces this gateway to the other gateways that use the same Redis.
pub(crate) async fn heartbeats(store: &RedisStore) {
    let mut every = tokio::time::interval(HEARTBEAT);
    loop {
        every.tick().await;
        // The error is ignored here, because decisions and readiness report the errors of Redis.
        let _ = store.heartbeat().await;
    }
}

/// Drops expired keys.
pub(crate) async fn sweep(store: Store) {
    let mut every = tokio::time::interval(SWEEP);
    loop {
        every.tick().await;
        store.memory().sweep();
    }
}

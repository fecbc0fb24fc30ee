//! Tasks of a gateway beside its requests. The periodic tasks run until their futures are dropped.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::redis::HEARTBEAT;
use tidegate_store::{Limit, RedisStore, Store};

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

/// Reads the counts of synced limits before this gateway decides by them. Logs an error and goes on, because the limits work without it.
pub(crate) async fn load_synced(store: &Store, limits: &[Arc<Limit>]) {
    let Store::Redis(store) = store else {
        return;
    };
    if let Err(error) = store.load_synced(limits).await {
        tracing::warn!(
            %error,
            "the counts of synced limits could not be read first; the first request of each key is decided without them"
        );
    }
}

//! What a gateway does every now and then, for as long as the futures are polled.

use std::time::Duration;

use tidegate_store::redis::HEARTBEAT;
use tidegate_store::{RedisStore, Store};

/// How often a part of the memory store's expired keys is dropped; a full round takes about a minute.
const SWEEP: Duration = Duration::from_secs(1);

/// Tells the other gateways on this Redis that this one is there.
pub(crate) async fn heartbeats(store: &RedisStore) {
    let mut every = tokio::time::interval(HEARTBEAT);
    loop {
        every.tick().await;
        // What goes wrong is told by decisions and by readiness.
        let _ = store.heartbeat().await;
    }
}

/// Drops what has expired.
pub(crate) async fn sweep(store: Store) {
    let mut every = tokio::time::interval(SWEEP);
    loop {
        every.tick().await;
        store.memory().sweep();
    }
}

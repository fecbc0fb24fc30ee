//! Waiting for what is settled or given back under one key.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::charge::LimitKey;
use crate::{Key, Limit, Store};

/// The settlements under one key, for as long as this is kept.
#[derive(Debug)]
pub struct SettlementWatch {
    store: Store,
    key: LimitKey,
    notify: Arc<Notify>,
}

impl SettlementWatch {
    pub(super) fn watch(store: &Store, limit: &Limit, key: Key) -> Self {
        let watchers = store.watchers();
        let key = LimitKey::of(limit, key);
        let notify = watchers.enter(key);
        let store = store.clone();
        Self { store, key, notify }
    }

    /// Ready once something is settled or given back in this process, from the time of this call on.
    pub fn next(&self) -> impl Future<Output = ()> + use<> {
        self.notify.clone().notified_owned()
    }
}

impl Drop for SettlementWatch {
    fn drop(&mut self) {
        self.store.watchers().leave(self.key);
    }
}

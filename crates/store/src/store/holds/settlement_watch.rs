//! Waits until units under one key are settled or become free.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::charge::LimitKey;
use crate::{Key, Limit, Store};

/// A watch of the settlements under one key, until it is dropped.
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

    /// Waits until this process settles or frees units under this key. Only events after this call count.
    pub fn next(&self) -> impl Future<Output = ()> + use<> {
        self.notify.clone().notified_owned()
    }
}

impl Drop for SettlementWatch {
    fn drop(&mut self) {
        self.store.watchers().leave(self.key);
    }
}

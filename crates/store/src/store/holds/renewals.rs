//! Renewals of holds, and the time until which each server certainly has its holds of `concurrency`.

use std::sync::Arc;
use std::time::Instant;

use tidegate_redis::{Confirmed, Shard};
use tokio::task::JoinSet;

use super::AT_ONCE;
use crate::registry::{Hold, Home, Renewed};
use crate::{Charge, Mode, Store};

impl Store {
    /// Assigns a hold of `concurrency` to Redis, even if this process admitted its request because Redis did not answer. Returns the server
    /// that keeps the hold in Redis, if the hold belongs in Redis and the server is connected.
    pub(super) fn place(&self, hold: &mut Hold) -> Option<Arc<Shard>> {
        if !hold.limit.counts_running() {
            return None;
        }
        if let (Self::Redis(_), Home::Here(share)) = (self, hold.home)
            && hold.limit.mode() != Mode::Local
        {
            hold.home = Home::Redis;
            hold.copy = Some(Box::new(share));
            hold.renewed = None;
            hold.may_be_there = false;
        }
        let server = self.server_of(hold)?;
        if hold.renewed.is_some() {
            hold.connection = server.client.connection();
        }
        Some(server)
    }

    /// Returns the server that keeps a hold of `concurrency` in Redis, if the hold belongs in Redis and the server is connected.
    pub(super) fn server_of(&self, hold: &Hold) -> Option<Arc<Shard>> {
        match self {
            Self::Redis(store) if hold.is_in_redis() => store.exact().server_of(&hold.charge()),
            _ => None,
        }
    }

    /// Records the time until which each server certainly has all holds of `concurrency` of this process.
    pub(super) fn confirm(&self) {
        let Self::Redis(store) = self else {
            return;
        };
        self.registry().with_all(|holds, is_resetting| {
            let mut servers: Vec<(Arc<Shard>, u64, Confirmed)> = store
                .exact()
                .servers()
                .into_iter()
                .map(|server| {
                    let connection = server.client.connection();
                    (server, connection, Confirmed::default())
                })
                .collect();
            for hold in holds.values() {
                let Some(own) = self.server_of(hold) else {
                    continue;
                };
                let server = servers
                    .iter_mut()
                    .find(|(server, ..)| Arc::ptr_eq(server, &own));
                if let Some((_, connection, confirmed)) = server {
                    let is_known = hold.connection == *connection && !is_resetting;
                    confirmed.add(hold.lapses().filter(|_| is_known));
                }
            }
            for (server, connection, confirmed) in servers {
                server.confirmation.set(confirmed, connection);
            }
        });
    }

    /// Marks all holds under these keys as lost until they are renewed.
    pub(crate) fn lose(&self, charges: &[Charge<'_>]) {
        self.registry().lose(charges);
        self.confirm();
    }

    pub(super) fn end_copy(&self, hold: &Hold) {
        if let Some(quota) = &hold.copy {
            self.memory()
                .table()
                .end(&hold.charge(), quota, hold.id, 0, crate::now());
        }
    }

    /// Renews the holds that are due. A server that does not answer gets no more calls until the next round.
    pub(crate) async fn renew_due(&self) {
        let is_lost = |hold: &Hold| {
            let connection = self
                .server_of(hold)
                .map_or(0, |server| server.client.connection());
            connection != 0 && connection != hold.connection
        };
        let mut calls = JoinSet::new();
        let mut silent = Vec::<Arc<Shard>>::new();
        for (id, hold) in self.registry().due(is_lost) {
            while calls.len() >= AT_ONCE {
                let joined: Option<Result<Option<Arc<Shard>>, _>> = calls.join_next().await;
                silent.extend(joined.and_then(Result::ok).flatten());
            }
            let server = self.server_of(&hold);
            let is_silent = server
                .as_ref()
                .is_some_and(|server| silent.iter().any(|silent| Arc::ptr_eq(silent, server)));
            let store = self.clone();
            calls.spawn(async move {
                let renewed = match is_silent {
                    true => None,
                    false => store.hold_on(&hold, server.as_ref()).await,
                };
                let is_silent = renewed.is_none();
                let registry = store.registry();
                if let Some((hold, used)) = registry.renewed(id, renewed, store.memory().table()) {
                    store.give_up(hold, used).await;
                }
                server.filter(|_| is_silent)
            });
        }
        while calls.join_next().await.is_some() {}
        self.confirm();
        self.registry().progress.notify_waiters();
    }

    /// Renews a hold. `None` if the renewal failed.
    async fn hold_on(&self, hold: &Hold, server: Option<&Arc<Shard>>) -> Option<Renewed> {
        let sent = Instant::now();
        let connection = server.map_or(0, |server| server.client.connection());
        let charge = hold.charge();
        let is_done = match (hold.home, self) {
            (Home::Redis, Self::Redis(store)) => {
                store.exact().renew(&charge, hold.id).await.is_ok()
            }
            (Home::Redis, Self::Memory(_)) => false,
            (Home::Here(_), _) => {
                self.registry().renew_here(self.memory().table(), hold);
                true
            }
        };
        is_done.then_some(Renewed { sent, connection })
    }
}

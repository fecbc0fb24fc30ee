//! Gateways with synced limits, for the tests of those.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{FixedWindow, Quota, SlidingWindowCounter};
use tidegate_store::redis::RedisOptions;
use tidegate_store::{Charge, Limit, Mode, OnFailure, Outcome, RedisStore};
use tokio::task::JoinHandle;

use crate::support::{charge, every_algorithm, limit, options, quiet_window, wait_for};

/// A store whose counts are exchanged for as long as this lives.
pub(crate) struct Gateway {
    store: Arc<RedisStore>,
    keeping: JoinHandle<()>,
}

impl Gateway {
    pub(crate) async fn start(url: &str, sync_every: Duration) -> Self {
        Self::with(RedisOptions {
            sync_every,
            ..options(url, Duration::from_secs(5))
        })
        .await
    }

    pub(crate) async fn with(options: RedisOptions) -> Self {
        let store = Arc::new(RedisStore::connect(options).await.unwrap());
        let kept = store.clone();
        let keeping = tokio::spawn(async move { kept.keep_synced().await });
        Self { store, keeping }
    }

    /// As a gateway ends: nothing is exchanged any more but what is left.
    pub(crate) async fn close(mut self) {
        self.keeping.abort();
        let _ = (&mut self.keeping).await;
        self.store.close().await;
    }

    pub(crate) async fn admits(&self, charges: &[Charge<'_>]) -> bool {
        self.store.decide(charges).await.outcome == Outcome::Admitted
    }

    /// What Redis has left of a limit.
    pub(crate) async fn left_in_redis(&self, charge: Charge<'_>) -> Option<u64> {
        let outlooks = self.store.peek(&[charge]).await.ok()?;
        Some(outlooks[0].verdict.remaining)
    }

    /// What is left here, as the answer to a request that is refused elsewhere says; none if the limit stands open.
    pub(crate) async fn left_here(&self, charge: Charge<'_>) -> Option<u64> {
        let never = Limit::new(
            "never",
            every_algorithm(1, quiet_window())[2],
            OnFailure::Closed,
        );
        let never = never.in_mode(Mode::Local);
        let charges = [charge, self::charge(&never, 0, 1)];
        while self.admits(&charges[1..]).await {}
        let decision = self.store.decide(&charges).await;
        assert_eq!(decision.outcome, Outcome::Refused);
        Some(decision.verdicts[0]?.remaining)
    }
}

impl Deref for Gateway {
    type Target = RedisStore;

    fn deref(&self) -> &RedisStore {
        &self.store
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

/// Both kinds of quotas whose counts can be exchanged.
pub(crate) fn quotas(most: u64, window: u64) -> [Quota; 2] {
    [
        FixedWindow::new(most, window).unwrap().into(),
        SlidingWindowCounter::new(most, window).unwrap().into(),
    ]
}

pub(crate) fn synced(most: u64) -> [Limit; 2] {
    quotas(most, quiet_window()).map(|quota| limit("synced", quota).in_mode(Mode::Synced))
}

/// Waits until Redis has this much left.
pub(crate) async fn leaves(gateway: &Gateway, charge: Charge<'_>, left: u64) {
    wait_for(&format!("{left} left in Redis"), async || {
        (gateway.left_in_redis(charge).await == Some(left)).then_some(())
    })
    .await;
}

/// Waits until Redis knows all that was counted here.
pub(crate) async fn has_told(gateway: &Gateway) {
    wait_for("an exchange", async || {
        gateway.synced_usage().waiting.is_zero().then_some(())
    })
    .await;
}

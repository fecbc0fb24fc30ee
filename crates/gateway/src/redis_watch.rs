//! Watches the Redis that limits are kept in: its numbers become metrics, and one that may drop limits is told of.
//!
//! Nothing here decides: a Redis that does not say how it is, or must not, is as good as any other.

use std::time::Duration;

use tidegate_store::RedisStore;

use crate::metrics::GatewayMetrics;

/// How often Redis is asked.
const EVERY: Duration = Duration::from_secs(10);

/// Asks again and again, for as long as the future is polled.
pub(crate) async fn watch(store: &RedisStore, metrics: &GatewayMetrics) {
    let mut every = tokio::time::interval(EVERY);
    let mut warned_of = None;
    loop {
        every.tick().await;
        let info = match store.info().await {
            Ok(info) => info,
            Err(error) => {
                tracing::debug!(%error, "Redis does not say how it is");
                metrics.redis().show(None);
                continue;
            }
        };
        let policy = info.drops_limits().map(str::to_owned);
        if let Some(policy) = policy.as_ref().filter(|_| policy != warned_of) {
            tracing::warn!(
                %policy,
                "when Redis is full it drops limits, and clients who used up theirs begin anew; set `maxmemory-policy \
                 noeviction` there, and give it enough memory"
            );
        }
        warned_of = policy;
        metrics.redis().show(Some(info));
    }
}

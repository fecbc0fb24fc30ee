//! Watches the Redis servers that store the state of limits, and exports their figures as metrics. Logs a warning for a server that may
//! delete this state, or that is too old.
//!
//! Decisions do not depend on this watch. A Redis that does not answer `INFO` is used like any other Redis.

use std::collections::HashSet;
use std::time::Duration;

use tidegate_store::RedisStore;
use tidegate_store::redis::{LEAST_VERSION, NodeInfo};

use tidegate_telemetry::metrics::GatewayMetrics;

/// The interval between two calls to Redis.
const EVERY: Duration = Duration::from_secs(10);

/// Calls Redis at the interval [`EVERY`], until the future is dropped.
pub(crate) async fn watch(store: &RedisStore, metrics: &GatewayMetrics) {
    let mut every = tokio::time::interval(EVERY);
    let mut warned_of = HashSet::new();
    let mut old = HashSet::new();
    loop {
        every.tick().await;
        let nodes = match store.info().await {
            Ok(nodes) => nodes,
            Err(error) => {
                tracing::debug!(%error, "Redis did not answer INFO; its metrics are missing");
                metrics.redis().show(Vec::new());
                continue;
            }
        };
        let mut dropping = HashSet::new();
        for NodeInfo { node, info } in &nodes {
            let node = node.as_deref().unwrap_or("redis");
            if let Some(version) = info.too_old()
                && old.insert((node.to_owned(), version.clone()))
            {
                tracing::warn!(
                    %node,
                    %version,
                    "this server is too old to decide: the least version is {LEAST_VERSION}; each limit follows its on_failure"
                );
            }
            let Some(policy) = info.drops_limits() else {
                continue;
            };
            let setting = (node.to_owned(), policy.to_owned());
            if !warned_of.contains(&setting) {
                tracing::warn!(
                    %node,
                    %policy,
                    "a full Redis deletes the state of limits, and clients get a fresh quota: set \
                     `maxmemory-policy noeviction` there, and give it enough memory"
                );
            }
            dropping.insert(setting);
        }
        warned_of = dropping;
        metrics.redis().show(nodes);
    }
}

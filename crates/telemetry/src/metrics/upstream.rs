//! What is counted of upstreams and their servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tidegate_upstream::UpstreamMetrics;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct UpstreamLabels {
    upstream: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    upstream: Arc<str>,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    upstream: Arc<str>,
    outcome: &'static str,
}

/// What all upstreams have.
#[derive(Debug, Default)]
pub(super) struct UpstreamFamilies {
    servers: Family<StateLabels, Gauge>,
    ejections: Family<UpstreamLabels, Counter>,
    checks: Family<OutcomeLabels, Counter>,
    retries: Family<OutcomeLabels, Counter>,
    waiting: Family<UpstreamLabels, Gauge>,
    // Those with gauges.
    names: Mutex<BTreeSet<Arc<str>>>,
}

/// The states that servers are counted by.
const STATES: [&str; 4] = ["healthy", "failing", "ejected", "unhealthy"];

impl UpstreamFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "upstream_servers",
            "Servers by whether they take requests, fail all requests, were ejected, or failed their checks",
            self.servers.clone(),
        );
        registry.register(
            "upstream_ejections",
            "Servers left out for a while because they failed",
            self.ejections.clone(),
        );
        registry.register(
            "upstream_checks",
            "Health checks, by whether they passed or failed",
            self.checks.clone(),
        );
        registry.register(
            "upstream_retries",
            "Requests sent once more, and those that were not because the budget was used up",
            self.retries.clone(),
        );
        registry.register(
            "upstream_waiting",
            "Requests that wait for a connection, within max_connections",
            self.waiting.clone(),
        );
    }

    /// Removes the gauges of upstreams that are not in force: no task updates them any more. Their counters stay.
    pub(super) fn in_force(&self, is_in_force: impl Fn(&str) -> bool) {
        self.names.lock().retain(|name| {
            let stays = is_in_force(name);
            for state in STATES.into_iter().filter(|_| !stays) {
                let upstream = name.clone();
                self.servers.remove(&StateLabels { upstream, state });
            }
            if !stays {
                let upstream = name.clone();
                self.waiting.remove(&UpstreamLabels { upstream });
            }
            stays
        });
    }

    /// The handles of one upstream.
    pub(super) fn of(&self, upstream: &Arc<str>) -> UpstreamMetrics {
        self.names.lock().insert(upstream.clone());
        let servers = |state| {
            let upstream = upstream.clone();
            let labels = StateLabels { upstream, state };
            self.servers.get_or_create_owned(&labels)
        };
        let outcome = |family: &Family<OutcomeLabels, Counter>, outcome| {
            let upstream = upstream.clone();
            family.get_or_create_owned(&OutcomeLabels { upstream, outcome })
        };
        let [healthy, failing, ejected, unhealthy] = STATES.map(servers);
        let own = UpstreamLabels {
            upstream: upstream.clone(),
        };
        UpstreamMetrics {
            healthy,
            failing,
            ejected,
            unhealthy,
            ejections: self.ejections.get_or_create_owned(&own),
            waiting: self.waiting.get_or_create_owned(&own),
            checks: ["failed", "passed"].map(|word| outcome(&self.checks, word)),
            retries: outcome(&self.retries, "sent"),
            over_budget: outcome(&self.retries, "over_budget"),
        }
    }
}

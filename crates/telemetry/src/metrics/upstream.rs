//! Metrics of upstreams and their servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tidegate_upstream::UpstreamMetrics;

use super::registrar::{ByLabel, Registrar};

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

/// The metrics of all upstreams.
#[derive(Debug)]
pub(super) struct UpstreamFamilies {
    servers: Family<StateLabels, Gauge>,
    ejections: ByLabel<Arc<str>, Counter>,
    checks: Family<OutcomeLabels, Counter>,
    retries: Family<OutcomeLabels, Counter>,
    waiting: ByLabel<Arc<str>, Gauge>,
    // The names of the upstreams with gauges.
    names: Mutex<BTreeSet<Arc<str>>>,
}

/// The states of servers. They are the values of a label.
const STATES: [&str; 4] = ["healthy", "failing", "ejected", "unhealthy"];

impl UpstreamFamilies {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        Self {
            servers: registrar.add(
                "upstream_servers",
                "Servers by whether they take requests, fail all requests, were ejected, or failed their checks",
            ),
            ejections: registrar.add_family(
                "upstream_ejections",
                "upstream",
                "Servers left out for a while because they failed",
            ),
            checks: registrar.add(
                "upstream_checks",
                "Health checks, by whether they passed or failed",
            ),
            retries: registrar.add(
                "upstream_retries",
                "Requests sent once more, and those that were not because the budget was used up",
            ),
            waiting: registrar.add_family(
                "upstream_waiting",
                "upstream",
                "Requests that wait for a connection, within max_connections",
            ),
            names: Mutex::default(),
        }
    }

    /// Removes the gauges of upstreams that are not in force, because no task updates them. Counters stay.
    pub(super) fn in_force(&self, is_in_force: impl Fn(&str) -> bool) {
        self.names.lock().retain(|name| {
            let stays = is_in_force(name);
            if !stays {
                for state in STATES {
                    let upstream = name.clone();
                    self.servers.remove(&StateLabels { upstream, state });
                }
                self.waiting.remove(name.clone());
            }
            stays
        });
    }

    /// Returns the metrics of one upstream.
    pub(super) fn of(&self, upstream: &Arc<str>) -> UpstreamMetrics {
        self.names.lock().insert(upstream.clone());
        let outcome = |family: &Family<OutcomeLabels, Counter>, outcome| {
            let upstream = upstream.clone();
            family.get_or_create_owned(&OutcomeLabels { upstream, outcome })
        };
        let [healthy, failing, ejected, unhealthy] = STATES.map(|state| {
            let upstream = upstream.clone();
            let labels = StateLabels { upstream, state };
            self.servers.get_or_create_owned(&labels)
        });
        UpstreamMetrics {
            healthy,
            failing,
            ejected,
            unhealthy,
            ejections: self.ejections.get(upstream.clone()),
            waiting: self.waiting.get(upstream.clone()),
            checks: ["failed", "passed"].map(|word| outcome(&self.checks, word)),
            retries: outcome(&self.retries, "sent"),
            over_budget: outcome(&self.retries, "over_budget"),
        }
    }
}

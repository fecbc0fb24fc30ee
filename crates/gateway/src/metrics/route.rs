//! What is counted of one route. Its handles are found at start; a request only adds.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use tidegate_store::{Decision, Via};

use super::{DecisionLabels, ErrorLabels, GatewayMetrics, RequestLabels, RouteLabels};
use crate::outcome::RequestOutcome;

/// The handles of one route.
#[derive(Debug)]
pub(crate) struct RouteMetrics {
    requests: [Counter; RequestOutcome::ALL.len()],
    upstream: Histogram,
    tunnels: Gauge,
    limits: Vec<LimitCounters>,
    store: Histogram,
    store_errors: Family<ErrorLabels, Counter>,
    unknown_keys: Counter,
}

#[derive(Debug)]
struct LimitCounters {
    // By the store, by on_failure, by a refusal that was remembered.
    allowed: [Counter; 2],
    refused: [Counter; 3],
    undecided: Counter,
}

impl RouteMetrics {
    /// The handles of the route `name`, whose limits are called `limits`, in order.
    pub(crate) fn new<'a>(
        gateway: &GatewayMetrics,
        name: &Arc<str>,
        limits: impl Iterator<Item = &'a str>,
    ) -> Self {
        let counter = |limit: &Arc<str>, verdict, decided_by| {
            let labels = DecisionLabels {
                limit: limit.clone(),
                verdict,
                decided_by,
            };
            gateway.decisions.get_or_create_owned(&labels)
        };
        let limits = limits.map(|limit| {
            let limit = Arc::from(limit);
            let counters = |verdict| ["store", "on_failure"].map(|by| counter(&limit, verdict, by));
            let [by_store, by_policy] = counters("refused");
            LimitCounters {
                allowed: counters("allowed"),
                refused: [by_store, by_policy, counter(&limit, "refused", "memory")],
                undecided: counter(&limit, "undecided", "on_failure"),
            }
        });
        let route = || RouteLabels {
            route: name.clone(),
        };
        Self {
            requests: RequestOutcome::ALL.map(|outcome| {
                gateway.requests.get_or_create_owned(&RequestLabels {
                    route: name.clone(),
                    outcome: outcome.label(),
                })
            }),
            upstream: gateway.upstream.get_or_create_owned(&route()),
            tunnels: gateway.tunnels.get_or_create_owned(&route()),
            limits: limits.collect(),
            store: gateway.store.clone(),
            store_errors: gateway.store_errors.clone(),
            unknown_keys: gateway.unknown_keys.clone(),
        }
    }

    pub(crate) fn ended(&self, outcome: RequestOutcome) {
        self.requests[outcome as usize].inc();
    }

    pub(crate) fn forwarded(&self, took: Duration) {
        self.upstream.observe(took.as_secs_f64());
    }

    /// A tunnel that is open until what this returns is dropped.
    pub(crate) fn tunnel(&self) -> OpenTunnel {
        self.tunnels.inc();
        OpenTunnel(self.tunnels.clone())
    }

    /// An API key was sent that is not listed.
    pub(crate) fn unknown_key(&self) {
        self.unknown_keys.inc();
    }

    pub(crate) fn decided(&self, decision: &Decision) {
        let by = match decision.via {
            Via::Store => 0,
            Via::Fallback => 1,
            Via::Remembered => 2,
        };
        // A request whose credentials are refused is charged to the first of them only.
        for (limit, verdict) in self.limits.iter().zip(&decision.verdicts) {
            match verdict {
                Some(verdict) if verdict.allowed => limit.allowed[by.min(1)].inc(),
                Some(_) => limit.refused[by].inc(),
                // Beside a refusal that is remembered nobody asks the others.
                None if decision.via == Via::Remembered => continue,
                None => limit.undecided.inc(),
            };
        }
        if let Some(call) = &decision.call {
            self.store.observe(call.took.as_secs_f64());
            if let Some(error) = &call.error {
                let error = error.label();
                self.store_errors
                    .get_or_create(&ErrorLabels { error })
                    .inc();
            }
        }
    }
}

/// A tunnel, as long as it is open.
#[derive(Debug)]
pub(crate) struct OpenTunnel(Gauge);

impl Drop for OpenTunnel {
    fn drop(&mut self) {
        self.0.dec();
    }
}

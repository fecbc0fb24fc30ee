//! What bodies of answers told of the costs of requests.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tidegate_tower::BodyCost;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    route: Arc<str>,
    result: &'static str,
}

/// Answers whose bodies say what their requests cost.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyCostMetrics(Family<ResultLabels, Counter>);

impl BodyCostMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "body_costs",
            "Answers whose bodies are to say what their requests cost, by whether they did",
            self.0.clone(),
        );
    }

    /// Counts an answer on this route, if its body told anything, or was to tell it.
    pub(super) fn told(&self, route: &Arc<str>, told: BodyCost) {
        let result = match told {
            BodyCost::NotAsked | BodyCost::Pending => return,
            BodyCost::Unreadable => "unreadable",
            BodyCost::Missing => "missing",
            BodyCost::Left => "left",
            BodyCost::Read => "read",
            BodyCost::ReadOn => "read_on",
        };
        let route = route.clone();
        self.0.get_or_create(&ResultLabels { route, result }).inc();
    }
}

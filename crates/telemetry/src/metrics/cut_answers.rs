//! Answers of upstreams that ended before their end.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::outcome::Cut;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CutLabels {
    route: Arc<str>,
    by: &'static str,
}

/// The counters of answers that were cut off.
#[derive(Clone, Debug, Default)]
pub(super) struct CutAnswers(Family<CutLabels, Counter>);

impl CutAnswers {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "cut_answers",
            "Answers of upstreams that ended before their end, by the side that ended them",
            self.0.clone(),
        );
    }

    /// Counts an answer on this route.
    pub(super) fn add(&self, route: &Arc<str>, cut: Cut) {
        let (route, by) = (route.clone(), cut.label());
        self.0.get_or_create(&CutLabels { route, by }).inc();
    }
}

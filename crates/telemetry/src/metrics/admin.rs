//! Counters of the admin port.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    error: &'static str,
}

/// The counters of the admin port.
#[derive(Debug, Default)]
pub struct AdminMetrics {
    refused: Family<ErrorLabels, Counter>,
}

impl AdminMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "admin_requests_refused",
            "Requests that the admin port refused, by error",
            self.refused.clone(),
        );
        // There from the start, so that the first is seen as a rise.
        for error in ["admin_token_wrong", "admin_role_needed", "foreign_host"] {
            let _ = self.refused.get_or_create_owned(&ErrorLabels { error });
        }
    }

    /// Counts a request that was refused with this error.
    pub fn refused(&self, error: &'static str) {
        self.refused.get_or_create(&ErrorLabels { error }).inc();
    }
}

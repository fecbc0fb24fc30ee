//! What is counted of the file with denied networks.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::OutcomeLabels;

/// How often the file was read, and how many networks it has.
#[derive(Debug)]
pub struct DenyFileMetrics {
    reads: Family<OutcomeLabels, Counter>,
    networks: Gauge,
}

impl Default for DenyFileMetrics {
    fn default() -> Self {
        let reads = Family::default();
        // There from the start, so that the first is seen as a rise.
        for outcome in ["taken", "refused"] {
            let _ = reads.get_or_create_owned(&OutcomeLabels { outcome });
        }
        Self {
            reads,
            networks: Gauge::default(),
        }
    }
}

impl DenyFileMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "deny_file_reads",
            "Changed files of deny_file, by whether they were taken or refused",
            self.reads.clone(),
        );
        registry.register(
            "denied_networks",
            "Networks in the file of deny_file",
            self.networks.clone(),
        );
    }

    /// The file has changed, and was taken or refused.
    pub fn read(&self, outcome: &'static str) {
        self.reads.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// So many networks are denied by the file.
    pub fn denied(&self, networks: usize) {
        self.networks.set(networks.try_into().unwrap_or(i64::MAX));
    }
}

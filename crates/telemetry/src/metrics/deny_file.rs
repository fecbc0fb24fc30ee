//! Metrics of the file with denied networks (`deny_file`).

use prometheus_client::metrics::gauge::Gauge;

use super::registrar::{Registrar, Words, set};

/// The reads of the file, and the number of networks in it.
#[derive(Debug)]
pub struct DenyFileMetrics {
    reads: Words,
    networks: Gauge,
}

impl DenyFileMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        let reads = registrar.add_family(
            "deny_file_reads",
            "outcome",
            "Changed files of deny_file, by whether they were taken or refused",
        );
        Self {
            reads: reads.with(["taken", "refused"]),
            networks: registrar.add("denied_networks", "Networks in the file of deny_file"),
        }
    }

    /// Counts a read of the file after it has changed. `outcome` is `taken` or `refused`.
    pub fn read(&self, outcome: &'static str) {
        self.reads.inc(outcome);
    }

    /// Sets the number of networks in the file.
    pub fn denied(&self, networks: usize) {
        set(&self.networks, networks);
    }
}

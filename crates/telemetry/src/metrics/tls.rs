//! Metrics of TLS connections from clients.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;

use super::certificates::Certificates;
use super::registrar::{Registrar, Words};
use tidegate_net::tls::HandshakeFailure;

/// The failed handshakes, the reads of changed certificates, and the expiry dates of certificates in use.
#[derive(Debug)]
pub struct TlsMetrics {
    /// Failed handshakes, by reason.
    pub(super) failed_handshakes: [Counter; HandshakeFailure::ALL.len()],
    certificates: Words,
    pub(super) ends: Arc<Certificates>,
}

impl TlsMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        let failed: Words = registrar.add_family(
            "tls_handshakes_failed",
            "reason",
            "Clients and listeners that did not come to terms, by reason",
        );
        let certificates = registrar.add_family(
            "certificate_reads",
            "outcome",
            "Changed certificates of listeners, by whether they were taken or refused",
        );
        Self {
            failed_handshakes: HandshakeFailure::ALL.map(|failure| failed.get(failure.label())),
            certificates: certificates.with(["taken", "refused"]),
            ends: registrar.add_collector(),
        }
    }

    /// Counts a read of changed certificates of a listener. `outcome` is `taken` or `refused`.
    pub fn certificates_read(&self, outcome: &'static str) {
        self.certificates.inc(outcome);
    }
}

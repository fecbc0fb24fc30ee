//! What is counted of TLS towards clients.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::OutcomeLabels;
use super::certificates::Certificates;
use tidegate_net::tls::{HandshakeFailure, ShownCertificate};
use tidegate_server::ListenerName;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// Handshakes that failed, certificates that were reread, and when those end that are shown.
#[derive(Debug)]
pub struct TlsMetrics {
    handshakes_failed: Family<ReasonLabels, Counter>,
    certificates: Family<OutcomeLabels, Counter>,
    ends: Arc<Certificates>,
}

impl Default for TlsMetrics {
    fn default() -> Self {
        let metrics = Self {
            handshakes_failed: Family::default(),
            certificates: Family::default(),
            ends: Arc::default(),
        };
        // There from the start, so that the first failure is seen as a rise.
        for reason in HandshakeFailure::ALL.map(HandshakeFailure::label) {
            let labels = ReasonLabels { reason };
            let _ = metrics.handshakes_failed.get_or_create_owned(&labels);
        }
        for outcome in ["taken", "refused"] {
            let labels = OutcomeLabels { outcome };
            let _ = metrics.certificates.get_or_create_owned(&labels);
        }
        metrics
    }
}

impl TlsMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "tls_handshakes_failed",
            "Clients and listeners that did not come to terms, by reason",
            self.handshakes_failed.clone(),
        );
        registry.register(
            "certificate_reads",
            "Changed certificates of listeners, by whether they were taken or refused",
            self.certificates.clone(),
        );
        registry.register_collector(Box::new(self.ends.clone()));
    }

    /// Listeners show these certificates now.
    pub(super) fn show(&self, shown: impl Iterator<Item = (ListenerName, ShownCertificate)>) {
        self.ends.show(shown);
    }

    /// Counts handshakes that failed, by reason.
    pub(super) fn failed_handshakes(&self) -> [Counter; HandshakeFailure::ALL.len()] {
        HandshakeFailure::ALL.map(|failure| {
            let reason = failure.label();
            self.handshakes_failed
                .get_or_create_owned(&ReasonLabels { reason })
        })
    }

    /// Certificates of a listener have changed, and were taken or refused.
    pub fn certificates_read(&self, outcome: &'static str) {
        self.certificates
            .get_or_create(&OutcomeLabels { outcome })
            .inc();
    }
}

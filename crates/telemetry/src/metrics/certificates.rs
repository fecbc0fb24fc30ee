//! The expiry dates of the listeners' certificates, read at each scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::time::UNIX_EPOCH;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use tidegate_net::tls::ShownCertificate;
use tidegate_server::ListenerName;

/// The expiry dates of certificates, in seconds since the epoch, by listener and name. If a listener has several certificates with the same
/// name, their earliest expiry date is kept.
#[derive(Debug, Default)]
pub(super) struct Certificates(Mutex<BTreeMap<(String, String), u64>>);

impl Certificates {
    /// Replaces all certificates.
    pub(super) fn show(&self, shown: impl Iterator<Item = (ListenerName, ShownCertificate)>) {
        let mut ends = BTreeMap::new();
        for (listener, ShownCertificate { name, ends: end }) in shown {
            let since = end.and_then(|end| end.duration_since(UNIX_EPOCH).ok());
            let Some(end) = since.map(|since| since.as_secs()) else {
                continue;
            };
            let entry = ends.entry((listener.address.to_string(), name));
            let first = entry.or_insert(end);
            *first = end.min(*first);
        }
        *self.0.lock() = ends;
    }
}

impl Collector for Certificates {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let ends = self.0.lock().clone();
        if ends.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(
            "certificate_expiry_timestamp",
            "When a certificate that a listener shows ends, since the epoch",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        for ((listener, name), end) in ends {
            let labels = [("listener", listener), ("name", name)];
            ConstGauge::new(end).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

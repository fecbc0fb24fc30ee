//! Loads certificates that are renewed on disk, without a restart. The next client that connects receives the new certificate.

use std::sync::Arc;

use tidegate_net::file_stamp::EVERY;
use tidegate_net::tls::ServerTls;

use tidegate_telemetry::metrics::GatewayMetrics;

/// Watches the files of these listeners until the future is dropped.
pub(crate) async fn watch(listeners: Vec<Arc<ServerTls>>, metrics: Arc<GatewayMetrics>) {
    if listeners.is_empty() {
        return;
    }
    let mut every = tokio::time::interval(EVERY);
    loop {
        every.tick().await;
        for tls in &listeners {
            let renewed = tls.clone();
            // Reading files may be slow, so it must not block requests.
            let renewed = tokio::task::spawn_blocking(move || renewed.renew()).await;
            match renewed {
                Ok(None) => {}
                Ok(Some(Ok(()))) => {
                    metrics.tls().certificates_read("taken");
                    let files: Vec<_> = tls.files().paths().collect();
                    tracing::info!(?files, "certificates reloaded");
                }
                Ok(Some(Err(error))) => {
                    metrics.tls().certificates_read("refused");
                    tracing::warn!(%error, "certificates rejected; the previous certificates stay active");
                }
                Err(error) => {
                    tracing::warn!(%error, "certificate files cannot be checked for changes")
                }
            }
        }
    }
}

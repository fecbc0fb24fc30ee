//! The file with denied networks, reread when it changes, without a restart.
//!
//! A file that cannot be used leaves the networks that were known in force.

use std::sync::Arc;

use tidegate_config::DenyFile;
use tidegate_net::file_stamp::{EVERY, Stamp};
use tidegate_telemetry::metrics::GatewayMetrics;

/// Watches the file, if there is one, for as long as the future is polled.
pub(crate) async fn watch(file: Option<DenyFile>, metrics: Arc<GatewayMetrics>) {
    let Some(file) = file else {
        metrics.deny_file().denied(0);
        return;
    };
    metrics.deny_file().denied(file.networks.len());
    let mut every = tokio::time::interval(EVERY);
    // The file was read just now. What changed in between is not missed if nothing is taken for known.
    let mut known = None;
    loop {
        every.tick().await;
        let found = Stamp::of(&file.path);
        if known == Some(found) {
            continue;
        }
        let is_first = known.replace(found).is_none();
        let copy = file.clone();
        // Reading 100,000 networks takes a while, which no request should wait for.
        let read = tokio::task::spawn_blocking(move || reread(&copy)).await;
        let read = read.unwrap_or_else(|error| Err(error.to_string()));
        metrics.deny_file().denied(file.networks.len());
        // What was read at start is no news, but a file that is broken since is.
        if !is_first || read.is_err() {
            report(&file, read, &metrics);
        }
    }
}

/// Takes the networks of a file; says how many there are, or why the file is refused.
fn reread(file: &DenyFile) -> Result<usize, String> {
    let networks = tidegate_config::load_networks(&file.path);
    file.networks
        .replace(networks.map_err(|error| error.in_one_line())?);
    Ok(file.networks.len())
}

fn report(file: &DenyFile, read: Result<usize, String>, metrics: &GatewayMetrics) {
    let path = file.path.display();
    match read {
        Ok(networks) => {
            metrics.deny_file().read("taken");
            tracing::info!(file = %path, networks, "denied networks reloaded");
        }
        Err(error) => {
            metrics.deny_file().read("refused");
            tracing::warn!(file = %path, %error, "deny file rejected; the previous networks stay denied");
        }
    }
}

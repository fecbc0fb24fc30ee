//! Rereads files with API keys and the file with denied networks when they change, without a restart.
//!
//! If a file cannot be used, its previous content stays in force.

use std::path::Path;
use std::sync::Arc;

use tidegate_config::{DenyFile, KeyFile};
use tidegate_net::file_stamp::{EVERY, Stamp};
use tidegate_telemetry::metrics::GatewayMetrics;

/// Watches a file with API keys until the future is dropped.
pub(crate) async fn watch_keys(file: KeyFile, metrics: Arc<GatewayMetrics>) {
    let path = file.path.clone();
    let reread = move || -> Result<usize, String> {
        let more = tidegate_config::load_keys(&file.path, &file.listed, &file.plans)
            .map_err(|error| error.in_one_line())?;
        let count = more.len();
        file.keys.replace(file.listed.iter().cloned().chain(more));
        Ok(count)
    };
    let report = |read: Result<usize, String>, is_news: bool| match read {
        _ if !is_news => {}
        Ok(keys) => {
            metrics.key_file_read("taken");
            tracing::info!(file = %path.display(), keys, "API keys reloaded");
        }
        Err(error) => {
            metrics.key_file_read("refused");
            tracing::warn!(file = %path.display(), %error, "key file rejected; the previous keys stay active");
        }
    };
    watch(&path, reread, report).await;
}

/// Watches the file with denied networks, if there is one, until the future is dropped.
pub(crate) async fn watch_denied(file: Option<DenyFile>, metrics: Arc<GatewayMetrics>) {
    let metrics = metrics.deny_file();
    let Some(DenyFile { path, networks }) = file else {
        metrics.denied(0);
        return;
    };
    metrics.denied(networks.len());
    let (file, list) = (path.clone(), networks.clone());
    let reread = move || -> Result<usize, String> {
        let read = tidegate_config::load_networks(&file).map_err(|error| error.in_one_line())?;
        list.replace(read);
        Ok(list.len())
    };
    let report = |read: Result<usize, String>, is_news: bool| {
        metrics.denied(networks.len());
        match read {
            _ if !is_news => {}
            Ok(networks) => {
                metrics.read("taken");
                tracing::info!(file = %path.display(), networks, "denied networks reloaded");
            }
            Err(error) => {
                metrics.read("refused");
                tracing::warn!(file = %path.display(), %error, "deny file rejected; the previous networks stay denied");
            }
        }
    };
    watch(&path, reread, report).await;
}

/// Rereads a file when it changes. `reread` applies the content, and returns the number of entries or the reason why the file is refused.
/// `report` receives this result, and whether it is new.
async fn watch(
    path: &Path,
    reread: impl Fn() -> Result<usize, String> + Clone + Send + 'static,
    report: impl Fn(Result<usize, String>, bool),
) {
    let mut every = tokio::time::interval(EVERY);
    // The file was read at the start. The first check reads it again, so that a change between the two reads is not missed.
    let mut previous = None;
    loop {
        every.tick().await;
        let stamp = Stamp::of(path);
        if previous == Some(stamp) {
            continue;
        }
        let is_first = previous.replace(stamp).is_none();
        // Reading 100,000 entries takes long, so it must not block requests.
        let read = tokio::task::spawn_blocking(reread.clone()).await;
        let read = read.unwrap_or_else(|error| Err(error.to_string()));
        // The first check repeats the read at the start, so its result is new only if the file can no longer be used.
        let is_news = !is_first || read.is_err();
        report(read, is_news);
    }
}

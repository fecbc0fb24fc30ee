//! Files with API keys, reread when they change, without a restart.
//!
//! A file that cannot be used leaves the keys that were known in force.

use std::sync::Arc;

use tidegate_config::KeyFile;
use tidegate_net::file_stamp::{EVERY, Stamp};
use tidegate_telemetry::metrics::GatewayMetrics;

/// How a file was found last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    AtStart,
    Missing,
    As(Stamp),
}

/// Watches the files for as long as the future is polled.
pub(crate) async fn watch(files: Vec<KeyFile>, metrics: Arc<GatewayMetrics>) {
    if files.is_empty() {
        return;
    }
    let mut every = tokio::time::interval(EVERY);
    // They were read just now; but what changed in between is not missed if nothing is taken for known.
    let mut known: Vec<Seen> = vec![Seen::AtStart; files.len()];
    loop {
        every.tick().await;
        for (file, known) in files.iter().zip(&mut known) {
            let found = Stamp::of(&file.path).map_or(Seen::Missing, Seen::As);
            if found == *known {
                continue;
            }
            let before = std::mem::replace(known, found);
            let copy = file.clone();
            // Reading and checking 100,000 keys takes a while, which no request should wait for.
            let read = tokio::task::spawn_blocking(move || reread(&copy)).await;
            let read = read.unwrap_or_else(|error| Err(error.to_string()));
            // What was read at start is no news, but a file that is broken since is.
            if before != Seen::AtStart || read.is_err() {
                report(file, read, &metrics);
            }
        }
    }
}

/// Takes the keys of a file; says how many there are, or why there are none.
fn reread(file: &KeyFile) -> Result<usize, String> {
    let more = tidegate_config::load_keys(&file.path, &file.listed, &file.plans)
        .map_err(|error| error.in_one_line())?;
    let count = more.len();
    file.keys.replace(file.listed.iter().cloned().chain(more));
    Ok(count)
}

fn report(file: &KeyFile, read: Result<usize, String>, metrics: &GatewayMetrics) {
    let path = file.path.display();
    match read {
        Ok(keys) => {
            metrics.key_file_read("taken");
            tracing::info!(file = %path, keys, "API keys reloaded");
        }
        Err(error) => {
            metrics.key_file_read("refused");
            tracing::warn!(file = %path, %error, "key file rejected; the previous keys stay active");
        }
    }
}

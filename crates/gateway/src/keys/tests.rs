use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tidegate_config::{DenyFile, KeyFile};
use tidegate_identity::api_keys::ApiKeys;
use tidegate_identity::{ClientPlans, NetworkFile};
use tidegate_server::Overload;
use tidegate_store::Store;
use tidegate_telemetry::access_log::AccessLog;
use tidegate_telemetry::metrics::{Format, GatewayMetrics};
use tidegate_tower::WaitQueues;
use tokio::time::{sleep, timeout};

use super::*;

/// A file may become invalid between the read at the start and the first check by its task.
#[tokio::test]
async fn a_file_that_broke_since_the_start_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("denied.txt");
    fs::write(&path, "10.0.0.0/8\n").unwrap();
    let networks = tidegate_config::load_networks(&path).unwrap();
    let networks = NetworkFile::new("denied.txt", networks);
    fs::write(&path, "oops\n").unwrap();
    let metrics = Arc::new(GatewayMetrics::new(WaitQueues::default()));
    let file = DenyFile {
        path,
        networks: networks.clone(),
    };
    let keys = KeyFile {
        path: folder.path().join("keys.yaml"),
        keys: ApiKeys::new([]),
        listed: Vec::new(),
        plans: ClientPlans::default(),
    };
    tokio::spawn(files::watch_denied(Some(file), metrics.clone()));
    tokio::spawn(files::watch_keys(keys, metrics.clone()));
    let both = async {
        let (store, overload) = (Store::Memory(Default::default()), Overload::default());
        loop {
            let (log, none) = (AccessLog::off(), std::iter::empty());
            let text = metrics.text(&store, none, &overload, &log, Format::Text);
            let is_refused = |file| {
                text.contains(&format!(
                    "tidegate_{file}_file_reads_total{{outcome=\"refused\"}} 1"
                ))
            };
            if is_refused("deny") && is_refused("key") {
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(30), both).await.unwrap();
    assert_eq!(networks.len(), 1, "the networks of the start stay");
}

//! The names of all metrics.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::{fs, iter};

use tidegate_server::Overload;
use tidegate_store::{MemoryStore, Store};
use tidegate_telemetry::access_log::AccessLog;
use tidegate_telemetry::metrics::{Format, GatewayMetrics};
use tidegate_tower::WaitQueues;

/// Calls whose first argument is a metric's name, without prefix, unit and `_total`.
const NAMING: [&str; 5] = [
    ".register_with_unit(",
    ".add(",
    ".add_with_unit(",
    ".add_family(",
    ".encode_descriptor(",
];

/// Returns the names of all registered metrics. Reads them from the source, because the program does not show a metric without samples.
pub(super) fn registered() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../telemetry/src");
    let mut texts = vec![fs::read_to_string(source.join("metrics.rs")).unwrap()];
    let files = fs::read_dir(source.join("metrics")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    // Skips folders, because they contain only tests.
    for file in files.filter(|file| file.is_file()) {
        texts.push(fs::read_to_string(file).unwrap());
    }
    let mut names = BTreeSet::new();
    for text in &texts {
        for call in NAMING {
            for behind in text.split(call).skip(1) {
                let quoted = behind.trim_start().strip_prefix('"');
                let name = quoted.and_then(|quoted| quoted.split_once('"'));
                names.extend(name.map(|(name, _)| name.to_owned()));
            }
        }
    }
    names
}

/// Returns the full names of the metrics that a gateway shows before its first request.
pub(super) fn shown() -> BTreeSet<String> {
    let metrics = GatewayMetrics::new(WaitQueues::default());
    let store = Store::Memory(Arc::new(MemoryStore::default()));
    let overload = Overload::default();
    let text = metrics.text(
        &store,
        iter::empty(),
        &overload,
        &AccessLog::off(),
        Format::Text,
    );
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = kinds.map(|line| line.split_once(' ').unwrap().0.to_owned());
    names.collect()
}

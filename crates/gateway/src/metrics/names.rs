//! The names of all metrics, for the test of the documents.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use prometheus_client::encoding::text::encode;
use tidegate_tower::WaitQueues;

use super::GatewayMetrics;

/// Calls whose first argument is the name of a metric, without prefix, unit and `_total`.
const NAMING: [&str; 4] = [
    ".register(",
    ".register_with_unit(",
    ".add(",
    ".encode_descriptor(",
];

/// The names as they are registered. A metric without a sample is not shown, so the source is read.
pub(crate) fn registered() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut texts = vec![fs::read_to_string(source.join("metrics.rs")).unwrap()];
    let files = fs::read_dir(source.join("metrics")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    for file in files.filter(|file| !file.ends_with("names.rs")) {
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

/// The whole names of those that a gateway shows before its first request.
pub(crate) fn shown() -> BTreeSet<String> {
    let metrics = GatewayMetrics::new(WaitQueues::default());
    let mut text = String::new();
    encode(&mut text, &metrics.registry).unwrap();
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = kinds.map(|line| match line.split_once(' ').unwrap() {
        (name, "counter") => format!("{name}_total"),
        (name, _) => name.to_owned(),
    });
    names.collect()
}

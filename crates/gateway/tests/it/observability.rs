//! Every metric that examples/observability asks for is one that a gateway has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tidegate_testkit::{Authority, Client, RedisServer, Upstream};

use crate::kit::{exact, get, page, until};
use crate::support::TestGateway;

/// What Redis calls the script `return 1`.
const RETURN_1: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";

/// The metrics that a text names, each with the labels by which it chooses among their samples.
fn named(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let in_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (at, _) in text.match_indices("tidegate_") {
        let (name, rest) = split(&text[at..], in_a_name);
        let labels = found.entry(name.to_owned()).or_default();
        let Some((chosen, _)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
            continue;
        };
        // In the dashboard, which is JSON, quotes are escaped; no value has a comma.
        for choice in chosen.split(',') {
            let (label, _) = split(choice.trim(), in_a_name);
            labels.insert(label.to_owned());
        }
    }
    found
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// The metrics of a page, with the labels that one of their samples has.
fn shown(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.map(|line| {
        let sample = line.rsplit_once(' ').unwrap().0;
        let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        let labels = labels.map(|(label, _)| label.to_owned());
        (name.to_owned(), labels.collect())
    });
    samples.collect()
}

#[tokio::test]
async fn every_metric_of_the_dashboard_and_of_the_alerts_is_there() {
    let redis = RedisServer::start().await;
    // It has run a script before the gateway asks for its numbers, which is once in ten seconds.
    redis.command(&["SCRIPT", "LOAD", "return 1"]).await;
    redis.command(&["EVALSHA", RETURN_1, "0"]).await;
    let folder = tempfile::tempdir().unwrap();
    let papers = Authority::new().issue(&["localhost"]);
    let (cert, key) = papers.write(folder.path(), "own");
    let tls = format!("{{ cert: {}, key: {} }}", cert.display(), key.display());
    let listen = format!("[127.0.0.1:0, {{ address: 127.0.0.1:0, tls: {tls} }}]");
    let upstream = Upstream::ok();
    let yaml = format!(
        "{}clients: [{{ jwt: {{ jwks_url: \"{url}/keys\", algorithms: [ES256] }} }}, {{ ip: {{}} }}]\n\
         limits:\n  it: {{ fixed_window: {{ limit: 1, window: 31d }} }}\n  \
         all: {{ fixed_window: {{ limit: 9, window: 31d }}, per: [] }}\n\
         routes: [{{ path: /**, upstream: \"{url}\", limits: [it, all] }}]\n",
        exact(&redis),
        url = upstream.url()
    );
    let gateway = TestGateway::start_listening(&listen, &yaml).await;
    let client = Client::new(gateway.address);
    for status in [200, 429] {
        assert_eq!(get(&client, "/", &[]).await, status);
    }
    let sampled = ["tidegate_redis_memory_bytes", "tidegate_limit_used_ratio"];
    until("all is sampled", async || {
        let (_, text) = page(gateway.admin, "/metrics").await;
        sampled.iter().all(|name| text.contains(name))
    })
    .await;
    let shown = shown(&page(gateway.admin, "/metrics").await.1);
    gateway.stop().await;

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/observability");
    for (file, at_least) in [("alerts.yml", 10), ("dashboard.json", 15)] {
        let named = named(&std::fs::read_to_string(folder.join(file)).unwrap());
        assert!(named.len() >= at_least, "{file} names {named:?}");
        for (metric, labels) in named {
            let there = shown.get(&metric);
            let there = there.unwrap_or_else(|| panic!("{file}: there is no {metric}"));
            for label in labels {
                // The scrape adds the instance.
                let known = label == "instance" || there.contains(&label);
                assert!(known, "{file}: {metric} has no label {label:?}");
            }
        }
    }
}

//! The promise of the doors: one decision, whoever asks for it.
//!
//! A table of random requests goes to four copies of the same limits: through the proxy, by `/v1/ask`, by `/v1/check`, and by Envoy's
//! service. All four must decide alike, in every mode.

use envoy_types::pb::google::protobuf::UInt64Value;
use http::Method;
use serde_json::{Value, json};
use tidegate_testkit::RedisServer;

use crate::kit::*;

/// The requests of a table.
const ROWS: usize = 1_000;
/// The keys of descriptors, each with a limit.
const KEYS: [&str; 4] = ["tenant", "user", "device", "plan"];

/// A generator of numbers (xorshift), so that a seed repeats a table.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A request: the keys that it has, with a value each, and its cost.
#[derive(Debug)]
struct Row {
    keys: Vec<(&'static str, String)>,
    cost: u64,
}

fn row(random: &mut Random) -> Row {
    let mask = 1 + random.below(15);
    let mut keys = Vec::new();
    for (nth, key) in KEYS.iter().enumerate() {
        if mask & 1 << nth != 0 {
            keys.push((*key, format!("v{}", random.below(5))));
        }
    }
    Row {
        keys,
        cost: 1 + random.below(3),
    }
}

/// An algorithm whose window does not end while the test runs.
fn algorithm(random: &mut Random, mode: &str) -> String {
    let limit = 20 + random.below(100);
    let window = format!("{{ limit: {limit}, window: 31d }}");
    match random.below(if mode == "synced" { 2 } else { 4 }) {
        0 => format!("fixed_window: {window}"),
        1 => format!("sliding_window_counter: {window}"),
        2 => format!("sliding_window_log: {window}"),
        _ => format!("token_bucket: {{ capacity: {limit}, refill: 1/d }}"),
    }
}

/// The gateway: each limit once for each door, and a route for each set of keys.
async fn start(store: &str, mode: &str, random: &mut Random) -> Doors {
    let mut limits = String::new();
    let mut matches = String::new();
    for key in KEYS {
        let algorithm = algorithm(random, mode);
        let cost = "cost: { header: X-Cost, max: 9 }";
        for door in ["proxy", "ask", "check"] {
            limits +=
                &format!("  {door}-{key}: {{ {algorithm}, per: [\"header:X-{key}\"], {cost} }}\n");
        }
        limits += &format!("  envoy-{key}: {{ {algorithm}, per: [\"descriptor:{key}\"] }}\n");
        matches += &format!("{{ match: {{ {key}: \"*\" }}, limits: [envoy-{key}] }}, ");
    }
    let mut routes = String::new();
    for mask in 1..16 {
        for door in ["proxy", "ask"] {
            let names = KEYS
                .iter()
                .enumerate()
                .filter(|(nth, _)| mask & 1 << nth != 0);
            let names: Vec<_> = names.map(|(_, key)| format!("{door}-{key}")).collect();
            let names = names.join(", ");
            routes +=
                &format!("  - {{ path: /{door}/{mask}, upstream: UPSTREAM, limits: [{names}] }}\n");
        }
    }
    let domains = format!("rate_limit_service: {{ domains: {{ edge: [{matches}] }} }}");
    let yaml = format!("{store}trusted_proxies: [127.0.0.1]\nlimits:\n{limits}routes:\n{routes}");
    Doors::start(&domains, &yaml).await
}

/// Whether each door admits a request, and what a check and Envoy's service say is left.
async fn decide(doors: &Doors, row: &Row) -> ([bool; 4], Vec<u64>, Vec<u64>) {
    let mask = KEYS
        .iter()
        .enumerate()
        .filter(|(_, key)| row.keys.iter().any(|(own, _)| own == *key));
    let mask: usize = mask.map(|(nth, _)| 1 << nth).sum();
    let names: Vec<String> = row.keys.iter().map(|(key, _)| format!("x-{key}")).collect();
    let cost = row.cost.to_string();
    let mut headers: Vec<(&str, &str)> = vec![("x-cost", &cost)];
    headers.extend(
        names
            .iter()
            .zip(&row.keys)
            .map(|(name, (_, value))| (&**name, &**value)),
    );
    let proxied = send(
        &doors.client,
        Method::GET,
        &format!("/proxy/{mask}"),
        &headers,
    )
    .await;
    let target = format!("/ask/{mask}");
    headers.push(("x-forwarded-uri", &target));
    let asked = doors.ask(&headers).await;
    let limits: Vec<String> = row
        .keys
        .iter()
        .map(|(key, _)| format!("check-{key}"))
        .collect();
    let per: serde_json::Map<String, Value> = row
        .keys
        .iter()
        .map(|(key, value)| (format!("header:X-{key}"), json!(value)))
        .collect();
    let checked = doors
        .check(json!({ "limits": limits, "per": per, "cost": row.cost }))
        .await;
    let descriptors = row.keys.iter().map(|(key, value)| {
        let mut descriptor = descriptor(&[(key, value)]);
        descriptor.hits_addend = Some(UInt64Value { value: row.cost });
        descriptor
    });
    let reply = doors
        .rate_limit(rate_limit_call("edge", descriptors.collect()))
        .await;
    let admitted = [
        proxied.status == 200,
        asked.status == 200,
        checked["admitted"] == true,
        !is_over(&reply),
    ];
    let states = checked["limits"].as_array().unwrap().iter();
    let by_check = states.map(|state| state["remaining"].as_u64().unwrap());
    let by_envoy = reply
        .statuses
        .iter()
        .map(|status| u64::from(status.limit_remaining));
    (admitted, by_check.collect(), by_envoy.collect())
}

async fn table(store: &str, mode: &str, seed: u64) {
    eprintln!("{mode}, seed {seed}");
    let mut random = Random(seed);
    let doors = start(store, mode, &mut random).await;
    let mut refused = 0;
    for nth in 0..ROWS {
        let row = row(&mut random);
        let (admitted, by_check, by_envoy) = decide(&doors, &row).await;
        let is_alike = admitted.iter().all(|it| *it == admitted[0]);
        assert!(
            is_alike,
            "{mode}, seed {seed}, row {nth}: {admitted:?} of {row:?}"
        );
        // A remembered refusal has the numbers of the refusing limit alone.
        if mode == "exact" && admitted[0] {
            assert_eq!(by_check, by_envoy, "seed {seed}, row {nth}: {row:?}");
        }
        refused += usize::from(!admitted[0]);
    }
    assert!(
        (ROWS / 10..ROWS).contains(&refused),
        "{refused} refused: the table tests nothing"
    );
    doors.stop().await;
}

#[tokio::test]
async fn four_doors_decide_a_random_table_alike_in_memory() {
    table("store: memory\n", "exact", 0x7a5_1e5).await;
}

#[tokio::test]
async fn four_doors_decide_a_random_table_alike_on_redis() {
    let redis = RedisServer::start().await;
    for (nth, mode) in ["exact", "leased", "synced", "local"]
        .into_iter()
        .enumerate()
    {
        table(&store(&redis, mode), mode, 0x7a5_1e6 + nth as u64).await;
    }
}

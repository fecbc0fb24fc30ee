use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_testkit::{Client, RedisServer};
use tokio::task::JoinSet;

use crate::callers::{TRUST, all_keys_are_ours_and_end, at, left, limit_keys, listed};
use crate::kit::{Bench, exact, get, get_each, on_both_stores, sample};

const MANY: usize = 10_000;

type Headers = Vec<(&'static str, String)>;

/// Sends many requests from 127.0.0.2 over a few connections, each with another value; counts those that are admitted.
async fn flood(bench: &Bench, count: usize, headers: fn(usize) -> Headers) -> usize {
    let next = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    for _ in 0..4 {
        let client: Client = at(bench, 2);
        let next = next.clone();
        connections.spawn(async move {
            let mut admitted = 0;
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return admitted;
                }
                let headers = headers(index);
                let headers: Vec<_> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
                admitted += usize::from(get(&client, "/", &headers).await == 200);
            }
        });
    }
    connections.join_all().await.iter().sum()
}

/// A gateway that knows one key, believes one proxy, and admits one request more than this test's many of one client.
async fn roomy(store: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
{TRUST}
clients: [{{ api_key: {{ keys: [{}] }} }}, {{ user_id: {{}} }}]
log: {{ access: false }}
limits:
  own: {{ fixed_window: {{ limit: {}, window: 31d }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [own] }}
",
        listed("alpha"),
        MANY + 2
    ))
    .await
}

/// A key, a user and an address at once: one that was believed would be a budget of its own.
fn invention(index: usize) -> Headers {
    let address = format!("198.51.{}.{}", index / 256, index % 256);
    vec![
        ("x-api-key", format!("invented-{index}")),
        ("x-user-id", format!("rider-{index}")),
        ("forwarded", format!("for={address}")),
        ("x-forwarded-for", address),
    ]
}

/// What the stranger invents is charged to the address of the stranger, to the last request.
async fn invented(store: &str) {
    let bench = roomy(store).await;
    assert_eq!(flood(&bench, MANY, invention).await, MANY);
    assert_eq!(left(&at(&bench, 2), "/", &[]).await, 1);
    let headers = invention(MANY);
    let headers: Vec<_> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    assert_eq!(left(&at(&bench, 2), "/", &headers).await, 0);
    assert_eq!(get(&at(&bench, 2), "/", &headers).await, 429);
    if store.contains("memory") {
        assert_eq!(sample(bench.gateway.admin, "tidegate_memory_keys").await, 1);
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_ten_thousand_invented_keys_users_and_addresses_are_one_address() {
    invented("store: memory").await;
    let redis = RedisServer::start().await;
    invented(&exact(&redis)).await;
    assert_eq!(limit_keys(&redis).await.len(), 1);
    all_keys_are_ours_and_end(&redis).await;
}

/// Where every key is a client, an address has a limit beside.
async fn accepting(store: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
clients: [{{ api_key: {{ unknown: accept }} }}]
log: {{ access: false }}
limits:
  guard: {{ fixed_window: {{ limit: 100, window: 31d }}, per: [ip] }}
  own: {{ fixed_window: {{ limit: 3, window: 31d }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [guard, own] }}
"
    ))
    .await
}

/// A client spends its budget; then somebody else invents keys.
async fn spend_and_flood(bench: &Bench) {
    let (owner, key) = (at(bench, 3), [("x-api-key", "owner")]);
    get_each(&owner, 3, "/", &key, 200).await;
    assert_eq!(get(&owner, "/", &key).await, 429);
    let key = |i| vec![("x-api-key", format!("invented-{i}"))];
    assert_eq!(flood(bench, 3_000, key).await, 100, "the guard's limit");
    assert_eq!(get(&owner, "/", &[("x-api-key", "owner")]).await, 429);
}

/// The owner and the owner's address, 100 invented keys and the address they came from.
const HELD: usize = 2 + 101;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b6_a_flood_of_keys_leaves_no_more_than_its_address_may_ask_for() {
    let bench = accepting("store: memory").await;
    spend_and_flood(&bench).await;
    let admin = bench.gateway.admin;
    assert_eq!(sample(admin, "tidegate_memory_keys").await, HELD as u64);
    assert_eq!(sample(admin, "tidegate_memory_evicted_keys_total").await, 0);
    bench.stop().await;
    let redis = RedisServer::start().await;
    let bench = accepting(&exact(&redis)).await;
    spend_and_flood(&bench).await;
    assert_eq!(limit_keys(&redis).await.len(), HELD);
    all_keys_are_ours_and_end(&redis).await;
    bench.stop().await;
}

async fn huge(store: &str) {
    let bench = accepting(store).await;
    let client = at(&bench, 2);
    let long = "k".repeat(8_000);
    let other = format!("{}l", &long[1..]);
    assert_eq!(left(&client, "/", &[("x-api-key", &long)]).await, 2);
    assert_eq!(left(&client, "/", &[("x-api-key", &other)]).await, 2);
    assert_eq!(left(&client, "/", &[("x-api-key", &long)]).await, 1);
    bench.stop().await;
}

#[tokio::test]
async fn b6_a_long_key_counts_to_its_last_byte() {
    on_both_stores(huge).await;
}

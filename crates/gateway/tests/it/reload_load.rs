//! Reloads under load: no request fails, no connection ends, and no bucket begins anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Request;
use tidegate_testkit::{Client, Upstream, body};
use tokio::task::JoinSet;

use crate::kit::{LONG, on_both_stores};
use crate::support::TestGateway;

const CLIENTS: usize = 16;

/// The same limits, and something else that differs with every reload.
fn yaml(store: &str, upstream: &Upstream, budget: u64, nth: usize) -> String {
    let url = upstream.url();
    format!(
        "
{store}
limits:
  budget: {{ fixed_window: {{ limit: {budget}, window: 31d }}, per: [] }}
  bucket: {{ token_bucket: {{ capacity: {budget}, refill: 1/1d }}, per: [ip] }}
routes:
  - {{ path: /nobody/{nth}, upstream: \"{url}\" }}
  - {{ path: /**, upstream: \"{url}\", limits: [budget, bucket] }}
timeouts: {{ connect: 10s }}
"
    )
}

/// Clients that go on until all reloads are done and the budget is used up.
async fn under_load(store: &str, reloads: usize, budget: u64) {
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&yaml(store, &upstream, budget, 0)).await;
    let done = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for i in 0..CLIENTS {
        let client = match i % 4 {
            0 => Client::h2(gateway.address),
            _ => Client::new(gateway.address),
        };
        let done = done.clone();
        clients.spawn(async move {
            let (mut admitted, mut refused) = (0, 0);
            while refused == 0 || !done.load(Ordering::Relaxed) {
                let request = Request::get("/").body(body::empty()).unwrap();
                let answer = client.try_request(request).await;
                match answer
                    .unwrap_or_else(|error| panic!("a request failed: {error}"))
                    .status
                    .as_u16()
                {
                    200 => admitted += 1,
                    429 => refused += 1,
                    other => panic!("answered {other}"),
                }
            }
            assert_eq!(client.connections(), 1, "a connection was dropped");
            admitted
        });
    }
    for nth in 1..=reloads {
        gateway.reload(&yaml(store, &upstream, budget, nth)).await;
        // So that there are requests between any two.
        let asked = upstream.count();
        if (asked as u64) < budget {
            upstream.wait_for(asked + 1, LONG).await;
        }
    }
    done.store(true, Ordering::Relaxed);
    let admitted: u64 = clients.join_all().await.iter().sum();
    assert_eq!(admitted, budget, "a bucket began anew");
    assert_eq!(upstream.count() as u64, budget);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_under_load_are_not_noticed() {
    on_both_stores(async |store| under_load(store, 20, 500).await).await;
}

/// The whole run: `cargo test -p tidegate --test it a_hundred -- --ignored`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute"]
async fn a_hundred_reloads_under_load_are_not_noticed() {
    on_both_stores(async |store| under_load(store, 100, 20_000).await).await;
}

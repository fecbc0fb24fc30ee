//! A client that is blocked while it has a connection or a place in a queue. Of tunnels: the tests of the edge.

use tidegate_testkit::RawClient;

use super::*;
use crate::kit::{answer_to, waiting};

/// The connection stays open, and its next request is refused.
#[tokio::test]
async fn a_kept_connection_gets_403_from_the_next_request_on() {
    on_both_stores(async |store| {
        let bench = Bench::start(&limited(store)).await;
        let mut client = RawClient::connect(bench.gateway.address).await;
        let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        for (wanted, status) in [(None, 200), (Some(block()), 403), (Some(exempt()), 200)] {
            if let Some(wanted) = wanted {
                set(bench.gateway.admin, "127.0.0.0%2F8", wanted).await;
            }
            let answer = answer_to(&mut client, request).await;
            assert_eq!(answer.status(), status);
        }
        bench.stop().await;
    })
    .await;
}

/// What waits was admitted, and is served in its turn.
#[tokio::test]
async fn a_request_that_waits_is_served_in_its_turn() {
    on_both_stores(async |store| {
        let bench = Bench::of_limit(store, "leaky_bucket: { queue: 9, drain: 2/s }").await;
        let (gateway, admin) = (bench.gateway.address, bench.gateway.admin);
        assert_eq!(bench.client.get("/first").await.status, 200);
        let second = crate::kit::ask(gateway, "/second");
        waiting(admin, 1).await;
        set(admin, "127.0.0.1", block()).await;
        assert_eq!(bench.client.get("/third").await.status, 403);
        assert_eq!(second.await.unwrap().status, 200);
        bench.stop().await;
    })
    .await;
}

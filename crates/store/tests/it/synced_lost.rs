//! Synced limits and a Redis that has lost its data: which counts it gets again, and which are gone.

use std::time::Duration;

use tidegate_testkit::RedisServer;

use crate::support::{charge, ready, wait_for};
use crate::synced_kit::{Gateway, has_told, leaves, synced};

const OFTEN: Duration = Duration::from_millis(10);

/// Two gateways that know what each has counted of 100: 60 and 10.
async fn two(server: &RedisServer, client: u64) -> (Gateway, Gateway) {
    let one = Gateway::start(&server.url(), OFTEN).await;
    let other = Gateway::start(&server.url(), OFTEN).await;
    for limit in synced(100) {
        assert!(one.admits(&[charge(&limit, client, 60)]).await);
        assert!(other.admits(&[charge(&limit, client, 10)]).await);
        leaves(&other, charge(&limit, client, 1), 30).await;
    }
    for gateway in [&one, &other] {
        has_told(gateway).await;
        gateway.heartbeat().await.unwrap();
    }
    (one, other)
}

async fn has_lost_all(server: &RedisServer, gateway: &Gateway) {
    server.restart().await;
    wait_for("a connection", async || ready(gateway).await.ok()).await;
}

/// Nobody else can tell what a gateway counted that has ended: Redis has lost it, as it loses what exact limits counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_counted_that_has_ended_is_lost_with_redis_and_no_more() {
    let server = RedisServer::start().await;
    let (one, other) = two(&server, 1).await;
    one.close().await;
    has_lost_all(&server, &other).await;
    other.heartbeat().await.unwrap();
    for limit in synced(100) {
        leaves(&other, charge(&limit, 1, 1), 90).await;
        let mut admitted = 70;
        while other.admits(&[charge(&limit, 1, 1)]).await {
            admitted += 1;
        }
        // The limit, and what was lost.
        wait_for("the others' counts", async || {
            (other.left_here(charge(&limit, 1, 1)).await == Some(0)).then_some(())
        })
        .await;
        assert!(admitted <= 100 + 60, "{admitted}");
    }
}

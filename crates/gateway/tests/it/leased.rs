//! Gateways that share a leased limit. What a gateway that ends has not spent is there for the others at once. What a gateway that
//! is killed may have spent is there for nobody.

use std::time::Duration;

use tidegate_testkit::{Client, RedisServer, Reply, Upstream};

use crate::kit::exact;
use crate::support::GatewayProcess;

const LIMIT: usize = 600;
const LONG: Duration = Duration::from_secs(30);

async fn gateway(redis: &RedisServer, upstream: &Upstream) -> GatewayProcess {
    let yaml = format!(
        "{}secret: the same for all
limits:
  shared: {{ token_bucket: {{ capacity: {LIMIT}, refill: 1/d }}, mode: leased }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [shared] }}
",
        exact(redis),
        upstream.url()
    );
    GatewayProcess::start(&yaml).await
}

/// How many of so many requests are admitted; each is answered as the limit says.
async fn admitted(gateway: &GatewayProcess, requests: usize) -> usize {
    let client = Client::new(gateway.address);
    let mut admitted = 0;
    for _ in 0..requests {
        let answer = client.get("/").await;
        assert!([200, 429].contains(&answer.status.as_u16()), "{answer:?}");
        admitted += usize::from(answer.status == 200);
    }
    admitted
}

async fn holders(redis: &RedisServer) -> usize {
    let keys = redis.command(&["KEYS", "*:slices"]).await;
    let Some(key) = keys.as_array().first() else {
        return 0;
    };
    let fields = redis.command(&["HVALS", key.as_str()]).await;
    // "session call settled out lapse": what is returned stays known until it would lapse, with nothing out.
    let is_out = |slice: &&Reply| slice.as_str().split(' ').nth(3) != Some("0");
    fields.as_array().iter().filter(is_out).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_ends_returns_what_it_has() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let (mut one, other) = (
        gateway(&redis, &upstream).await,
        gateway(&redis, &upstream).await,
    );
    assert_eq!(admitted(&one, 50).await, 50);
    assert_eq!(holders(&redis).await, 1);
    one.process.signal("TERM");
    assert!(one.process.wait(LONG).await.success());
    assert_eq!(holders(&redis).await, 0);
    assert_eq!(admitted(&other, LIMIT).await, LIMIT - 50);
    assert_eq!(upstream.count(), LIMIT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_killed_makes_room_for_nobody() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(gateway(&redis, &upstream).await);
    }
    for round in 0..40 {
        if round == 10 {
            all[3].process.kill().await;
            all[3] = gateway(&redis, &upstream).await;
        }
        for gateway in &all {
            admitted(gateway, 6).await;
        }
    }
    let count = upstream.count();
    assert!((LIMIT / 2..=LIMIT).contains(&count), "{count}");
    eprintln!("{count} of {LIMIT} admitted");
}

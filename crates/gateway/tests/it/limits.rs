//! Limits in force: what is admitted, what is refused, and what clients are told.

use tidegate_testkit::{Client, RedisServer, Upstream};

use crate::support::{GatewayProcess, TestGateway};

#[tokio::test]
async fn the_first_three_pass_and_the_fourth_is_told_when_to_come_back() {
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&format!(
        "
limits:
  few: {{ fixed_window: {{ limit: 3, window: 1d }} }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [few] }}
",
        upstream.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    for left in [2, 1, 0] {
        let answer = client.get("/anything").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(&*left.to_string()));
    }
    let answer = client.get("/anything").await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let retry_after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&retry_after));
    assert_eq!(upstream.count(), 3);
    gateway.stop().await;
}

/// Two gateways on one Redis, as real processes: together they admit the limit, to the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_share_one_limit_exactly() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = format!(
        "
store: {{ redis: {{ url: \"{}\", timeout: 5s, on_failure: closed }} }}
secret: the same for both
clients: [{{ user_id: {{ header: X-User-Id }} }}]
trusted_proxies: [127.0.0.0/8]
limits:
  hundred: {{ token_bucket: {{ capacity: 100, refill: 1/d }} }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [hundred] }}
",
        redis.url(),
        upstream.url()
    );
    let gateways = [
        GatewayProcess::start(&yaml).await,
        GatewayProcess::start(&yaml).await,
    ];
    for round in 0..20 {
        let mut connections = tokio::task::JoinSet::new();
        for connection in 0..64 {
            let client = Client::new(gateways[connection % 2].address);
            connections.spawn(async move {
                let mut admitted = 0;
                for _ in 0..4 {
                    let request = http::Request::get("/")
                        .header("x-user-id", format!("rider-{round}"))
                        .body(tidegate_testkit::body::empty())
                        .unwrap();
                    let answer = client.request(request).await;
                    admitted += u32::from(answer.status == 200);
                }
                admitted
            });
        }
        let admitted: u32 = connections.join_all().await.iter().sum();
        assert_eq!(admitted, 100, "in round {round}");
    }
}

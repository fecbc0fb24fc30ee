//! `action: delay`: who is over the limit waits in line, is charged for nothing meanwhile, and goes when it fits.

use std::time::{Duration, Instant};

use tidegate_testkit::{RedisServer, Upstream};

use crate::kit::{Bench, ask, exact, left, number, on_both_stores, sample, until, waiting};
use crate::support::TestGateway;

#[tokio::test]
async fn who_is_over_the_limit_goes_later_in_order() {
    const GAP: Duration = Duration::from_millis(50);
    on_both_stores(async |store| {
        for quota in [
            "token_bucket: { capacity: 1, refill: 20/s }",
            "sliding_window_log: { limit: 1, window: 50ms }",
        ] {
            let limit = format!("{quota}, action: {{ delay: {{ max: 1m }} }}");
            let bench = Bench::of_limit(store, &limit).await;
            let began = Instant::now();
            let mut asking = Vec::new();
            for nth in 0..6 {
                asking.push(ask(bench.gateway.address, format!("/{nth}")));
                until("it waits, or has arrived", async || {
                    let waiting = sample(bench.gateway.admin, "tidegate_waiting_requests").await;
                    waiting + bench.upstream.count() as u64 > nth
                })
                .await;
            }
            for request in asking {
                assert_eq!(request.await.unwrap().status, 200, "{quota}");
            }
            let arrived = bench.upstream.requests();
            let order: Vec<_> = arrived.iter().map(|it| it.target.clone()).collect();
            assert_eq!(order, ["/0", "/1", "/2", "/3", "/4", "/5"], "{quota}");
            // A busy machine is late; nobody is ever early.
            for (nth, arrival) in (0..).zip(&arrived) {
                let at = arrival.at - began;
                assert!(at >= GAP * nth, "{quota}: {nth} arrived after {at:?}");
            }
            waiting(bench.gateway.admin, 0).await;
            bench.stop().await;
        }
    })
    .await;
}

/// One fits every half hour, and nobody waits for more than 45 minutes.
const SLOW: &str =
    "slow: { token_bucket: { capacity: 1, refill: 2/h }, action: { delay: { max: 45m } } }";

#[tokio::test]
async fn who_would_wait_for_too_long_is_told_at_once() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
limits: {{ {SLOW} }}
routes: [{{ path: /**, upstream: UPSTREAM, limits: [slow] }}]
"
        ))
        .await;
        let (gateway, admin) = (bench.gateway.address, bench.gateway.admin);
        assert_eq!(bench.client.get("/").await.status, 200);
        let second = ask(gateway, "/second");
        waiting(admin, 1).await;
        // Half an hour for the second, and another for the third: the store need not be asked.
        let third = bench.client.get("/third").await;
        assert_eq!(third.status, 429);
        let wait = number(&third, "retry-after").unwrap();
        assert!((3_500..=3_600).contains(&wait), "{wait}");
        assert_eq!(number(&third, "x-ratelimit-remaining"), Some(0));
        // Whoever leaves makes room for another.
        second.abort();
        waiting(admin, 0).await;
        let fourth = ask(gateway, "/fourth");
        waiting(admin, 1).await;
        fourth.abort();
        waiting(admin, 0).await;
        assert_eq!(bench.upstream.count(), 1);
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn who_waits_is_charged_nowhere() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
limits:
  wide: {{ fixed_window: {{ limit: 100, window: 31d }} }}
  {SLOW}
routes: [{{ path: /**, upstream: UPSTREAM, limits: [wide, slow] }}]
"
        ))
        .await;
        let (gateway, admin) = (bench.gateway.address, bench.gateway.admin);
        assert_eq!(bench.client.get("/").await.status, 200);
        let second = ask(gateway, "/second");
        waiting(admin, 1).await;
        assert_eq!(left(admin).await, 99);
        second.abort();
        waiting(admin, 0).await;
        assert_eq!(left(admin).await, 99);
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn when_the_head_leaves_the_next_takes_its_place() {
    on_both_stores(async |store| {
        let limit = "token_bucket: { capacity: 1, refill: 5/s }, action: { delay: { max: 1m } }";
        let bench = Bench::of_limit(store, limit).await;
        let (gateway, admin) = (bench.gateway.address, bench.gateway.admin);
        assert_eq!(bench.client.get("/").await.status, 200);
        let (head, next) = (ask(gateway, "/head"), ask(gateway, "/next"));
        head.abort();
        assert_eq!(next.await.unwrap().status, 200);
        waiting(admin, 0).await;
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_limit_that_never_fits_in_time_rejects() {
    on_both_stores(async |store| {
        let limit = "fixed_window: { limit: 1, window: 31d }, action: { delay: { max: 2s } }";
        let bench = Bench::of_limit(store, limit).await;
        for status in [200, 429, 429] {
            assert_eq!(bench.client.get("/").await.status, status);
        }
        let limited = "tidegate_requests_total{route=\"/**\",outcome=\"limited\",status=\"4xx\"}";
        assert_eq!(sample(bench.gateway.admin, limited).await, 2);
        bench.stop().await;
    })
    .await;
}

/// Each client has a line of its own, and one that waits holds up nobody else.
#[tokio::test]
async fn lines_are_apart() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
limits: {{ {SLOW} }}
trusted_proxies: [127.0.0.1]
clients: [{{ user_id: {{}} }}]
routes: [{{ path: /**, upstream: UPSTREAM, limits: [slow] }}]
"
        ))
        .await;
        let get = async |user| crate::kit::get(&bench.client, "/", &[("x-user-id", user)]).await;
        assert_eq!(get("a").await, 200);
        let address = bench.gateway.address;
        let waits = tokio::spawn(async move {
            let client = tidegate_testkit::Client::fresh(address);
            crate::kit::get(&client, "/", &[("x-user-id", "a")]).await
        });
        waiting(bench.gateway.admin, 1).await;
        assert_eq!(get("b").await, 200);
        assert_eq!(get("a").await, 429);
        waits.abort();
        waiting(bench.gateway.admin, 0).await;
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn two_gateways_let_through_no_more_than_the_rate() {
    const GAP: Duration = Duration::from_millis(50);
    let (redis, upstream) = (RedisServer::start().await, Upstream::ok());
    let yaml = format!(
        "
{}
secret: the same
limits:
  api: {{ token_bucket: {{ capacity: 1, refill: 20/s }}, per: [], action: {{ delay: {{ max: 1m }} }} }}
routes: [{{ path: /**, upstream: \"{}\", limits: [api] }}]
",
        exact(&redis),
        upstream.url()
    );
    let gateways = [
        TestGateway::start(&yaml).await,
        TestGateway::start(&yaml).await,
    ];
    let began = Instant::now();
    let asking: Vec<_> = (0..16)
        .map(|nth| ask(gateways[nth % 2].address, "/"))
        .collect();
    for request in asking {
        assert_eq!(request.await.unwrap().status, 200);
    }
    for (nth, arrival) in (0..).zip(upstream.requests()) {
        let at = arrival.at - began;
        assert!(at >= GAP * nth, "{nth} arrived after {at:?}");
    }
    for gateway in gateways {
        waiting(gateway.admin, 0).await;
        gateway.stop().await;
    }
}

//! Clients that leave after their request was forwarded: what it holds is settled by its answer all the same.

use std::net::SocketAddr;
use std::sync::Arc;

use http::Method;
use tidegate_testkit::{Client, RawClient, Upstream};
use tokio::sync::watch;

use crate::kit::{
    LONG, as_asked, ask, held_with, left, limit_named, on_both_stores, one_limit, page, sample,
    sample_becomes, send, until,
};
use crate::support::TestGateway;

const LOGIN: &str = "sliding_window_log: { limit: 5, window: 1h }, count: { status: [401, 403] }";
const COST: &str =
    "fixed_window: { limit: 100, window: 31d }, cost: { response_header: X-Cost, reserve: 10 }";
const ONE: &str = "concurrency: { limit: 1, lease: 1h }";

async fn start(store: &str, limit: &str, upstream: &Upstream) -> TestGateway {
    TestGateway::start(&one_limit(store, limit, upstream)).await
}

/// An upstream that answers as it was asked when it is released.
fn held() -> (Upstream, watch::Sender<bool>) {
    held_with(as_asked)
}

/// How many requests have ended with this outcome, or with any.
async fn ended(admin: SocketAddr, outcome: &str) -> u64 {
    let (_, metrics) = page(admin, "/metrics").await;
    let requests = metrics.lines().filter(|line| {
        line.starts_with("tidegate_requests_total{") && line.contains(&format!("\"{outcome}"))
    });
    let counts = requests.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    counts.sum()
}

/// Begins a request, and leaves once the upstream has it. Returns when the gateway has noticed this `nth` leaving.
async fn leaves(gateway: &TestGateway, upstream: &Upstream, target: &str, nth: u64) {
    let client = begin(gateway.address, target).await;
    upstream.wait_for(nth as usize, LONG).await;
    drop(client);
    has_left(gateway, nth).await;
}

async fn has_left(gateway: &TestGateway, nth: u64) {
    until("it has left", async || {
        ended(gateway.admin, "abandoned").await == nth
    })
    .await;
}

async fn all_settled(gateway: &TestGateway) {
    sample_becomes(gateway.admin, "tidegate_abandoned_exchanges", 0).await;
}

/// Sends a request for `target` over a connection of its own.
async fn begin(gateway: SocketAddr, target: &str) -> RawClient {
    let mut client = RawClient::connect(gateway).await;
    let head = format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n");
    client.send(head).await.unwrap();
    client
}

#[tokio::test]
async fn guesses_count_though_nobody_waits_for_their_answers() {
    on_both_stores(async |store| {
        let (upstream, release) = held();
        let gateway = start(store, LOGIN, &upstream).await;
        for nth in 1..=5 {
            leaves(&gateway, &upstream, "/401", nth).await;
        }
        assert_eq!(left(gateway.admin).await, 0, "all are reserved");
        assert_eq!(ask(gateway.address, "/401").await.unwrap().status, 429);
        release.send(true).unwrap();
        all_settled(&gateway).await;
        assert_eq!(left(gateway.admin).await, 0, "all are used");
        assert_eq!(ask(gateway.address, "/200").await.unwrap().status, 429);
        assert_eq!(upstream.count(), 5);
        gateway.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_answer_tells_what_a_request_has_cost_whose_client_has_left() {
    on_both_stores(async |store| {
        for (nth, (limit, target, reserved, stays)) in [
            (LOGIN, "/200", 4, 5),
            (LOGIN, "/403", 4, 4),
            (LOGIN, "/404", 4, 5),
            (COST, "/200?3", 90, 97),
            (COST, "/200?0", 90, 100),
            (COST, "/200?30", 90, 70),
            (COST, "/200", 90, 90),
        ]
        .into_iter()
        .enumerate()
        {
            let (upstream, release) = held();
            let gateway =
                TestGateway::start(&limit_named(store, &format!("it-{nth}"), limit, &upstream))
                    .await;
            leaves(&gateway, &upstream, target, 1).await;
            assert_eq!(left(gateway.admin).await, reserved, "{target}");
            release.send(true).unwrap();
            all_settled(&gateway).await;
            until(&format!("{target} leaves {stays}"), async || {
                left(gateway.admin).await == stays
            })
            .await;
            gateway.stop().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_leaves_the_request_charged() {
    on_both_stores(async |store| {
        let (upstream, _release) = held();
        let store = format!("{store}timeouts: {{ upstream: 200ms }}\n");
        let gateway = start(&store, LOGIN, &upstream).await;
        leaves(&gateway, &upstream, "/200", 1).await;
        all_settled(&gateway).await;
        assert_eq!(left(gateway.admin).await, 4);
        gateway.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_place_is_held_while_the_upstream_works_for_a_client_that_has_left() {
    on_both_stores(async |store| {
        let (upstream, release) = held();
        let gateway = start(store, ONE, &upstream).await;
        leaves(&gateway, &upstream, "/200", 1).await;
        for _ in 0..40 {
            assert_eq!(ask(gateway.address, "/200").await.unwrap().status, 429);
        }
        assert_eq!(upstream.count(), 1, "one at a time");
        release.send(true).unwrap();
        until("it is free", async || {
            ask(gateway.address, "/200").await.unwrap().status == 200
        })
        .await;
        gateway.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_place_is_free_when_the_upstream_has_not_answered_in_time() {
    on_both_stores(async |store| {
        let (upstream, _release) = held();
        let store = format!("{store}timeouts: {{ upstream: 200ms }}\n");
        let gateway = start(&store, ONE, &upstream).await;
        drop(begin(gateway.address, "/200").await);
        has_left(&gateway, 1).await;
        until("it is free", async || left(gateway.admin).await == 1).await;
        gateway.stop().await;
    })
    .await;
}

/// In HTTP/2 a client takes one request back, and its connection goes on.
#[tokio::test]
async fn a_stream_that_is_reset_is_settled_by_its_answer() {
    on_both_stores(async |store| {
        for (limit, stays) in [(LOGIN, 4), (ONE, 0)] {
            let (upstream, release) = held();
            let gateway = start(store, limit, &upstream).await;
            let client = Arc::new(Client::h2(gateway.address));
            let asking = client.clone();
            let request =
                tokio::spawn(async move { send(&asking, Method::GET, "/401", &[]).await });
            upstream.wait_for(1, LONG).await;
            request.abort();
            has_left(&gateway, 1).await;
            assert_eq!(left(gateway.admin).await, stays);
            release.send(true).unwrap();
            all_settled(&gateway).await;
            let after = if limit == ONE { 1 } else { stays };
            until("it is settled", async || left(gateway.admin).await == after).await;
            drop(client);
            gateway.stop().await;
        }
    })
    .await;
}

/// A request that waits for a place at its upstream has not been forwarded.
#[tokio::test]
async fn what_was_not_forwarded_is_given_back() {
    on_both_stores(async |store| {
        let (upstream, release) = held();
        let url = upstream.url();
        let gateway = TestGateway::start(&format!(
            "{store}secret: the same\nlimits: {{ it: {{ {LOGIN} }} }}\n\
             upstreams: {{ api: {{ servers: [\"{url}\"], max_connections: 1, max_waiting: 9 }} }}\n\
             timeouts: {{ connect: 1m }}\n\
             routes: [{{ path: /**, upstream: api, limits: [it] }}]\n"
        ))
        .await;
        let first = ask(gateway.address, "/401");
        upstream.wait_for(1, LONG).await;
        let second = begin(gateway.address, "/401").await;
        until("it is reserved", async || left(gateway.admin).await == 3).await;
        drop(second);
        until("it is given back", async || left(gateway.admin).await == 4).await;
        assert_eq!(
            sample(gateway.admin, "tidegate_abandoned_exchanges").await,
            0
        );
        release.send(true).unwrap();
        assert_eq!(first.await.unwrap().status, 401);
        assert_eq!(upstream.count(), 1);
        gateway.stop().await;
    })
    .await;
}

/// The upstream has a part of it, and may have done something: it stays charged. Nothing more of it is waited for.
#[tokio::test]
async fn an_upload_that_breaks_off_stays_charged_and_holds_no_place() {
    on_both_stores(async |store| {
        for (limit, stays) in [(LOGIN, 4), (ONE, 1)] {
            for (name, framing) in [
                ("length", "content-length: 9\r\n\r\nhal"),
                ("chunks", "transfer-encoding: chunked\r\n\r\n3\r\nhal\r\n"),
            ] {
                let (upstream, _release) = held();
                let gateway = TestGateway::start(&limit_named(store, name, limit, &upstream)).await;
                let mut client = RawClient::connect(gateway.address).await;
                let head = format!("POST /200 HTTP/1.1\r\nhost: a\r\n{framing}");
                client.send(head).await.unwrap();
                upstream.wait_for(1, LONG).await;
                drop(client);
                until("it has ended", async || ended(gateway.admin, "").await == 1).await;
                all_settled(&gateway).await;
                until("it is over", async || left(gateway.admin).await == stays).await;
                gateway.stop().await;
            }
        }
    })
    .await;
}

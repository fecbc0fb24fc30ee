//! `concurrency`: places that requests hold while they are under way, and that nothing keeps for longer than a lease.

use std::time::{Duration, Instant};

use http::Method;
use tidegate_testkit::{Client, RawClient, RedisServer, Upstream, body};

use crate::kit::{
    LONG, ask, epoch, exact, held, left, number, on_both_stores, one_limit, send, send_get, until,
};
use crate::support::{GatewayProcess, TestGateway};

async fn keys(redis: &RedisServer) -> Vec<String> {
    let keys = crate::callers::keys(redis).await.into_iter();
    keys.filter(|key| key.contains(":it:concurrency")).collect()
}

/// When each place under a key lapses.
async fn scores(redis: &RedisServer, key: &str) -> Vec<u64> {
    let members = ["ZRANGEBYSCORE", key, "0", "+inf", "WITHSCORES"];
    let found = redis.command(&members).await;
    let found = found.as_array().iter().skip(1).step_by(2);
    found.map(|score| score.as_str().parse().unwrap()).collect()
}

/// Whether a request finds a place.
async fn fits(gateway: &TestGateway) -> bool {
    Client::fresh(gateway.address).get("/").await.status == 200
}

#[tokio::test]
async fn so_many_are_under_way_and_the_next_is_told_to_come_back() {
    on_both_stores(async |store| {
        let (upstream, release) = held();
        let limit = "concurrency: { limit: 3 }";
        let gateway = TestGateway::start(&one_limit(store, limit, &upstream)).await;
        let client = Client::new(gateway.address);
        let asking: Vec<_> = (0..3).map(|_| ask(gateway.address, "/")).collect();
        upstream.wait_for(3, LONG).await;
        assert_eq!(left(gateway.admin).await, 0);
        let refused = client.get("/").await;
        assert_eq!(refused.status, 429);
        let told = ["x-ratelimit-limit", "x-ratelimit-remaining", "retry-after"];
        let told = told.map(|name| number(&refused, name));
        assert_eq!(told, [Some(3), Some(0), Some(1)]);
        assert_eq!(refused.header("x-ratelimit-reset"), None);
        release.send(true).unwrap();
        for answer in asking {
            let answer = answer.await.unwrap();
            assert_eq!(answer.status, 200);
            // What was admitted holds nothing that it could be told of.
            assert_eq!(answer.header("x-ratelimit-limit"), None);
        }
        // A refusal is never remembered: the places are free as soon as the requests have ended.
        until("the places are free", async || fits(&gateway).await).await;
        gateway.stop().await;
    })
    .await;
}

/// A place lasts as long as the body of the answer, however slowly that comes, and is renewed meanwhile.
#[tokio::test]
async fn a_place_is_held_until_the_last_byte_or_until_its_client_has_left() {
    on_both_stores(async |store| {
        let upstream = Upstream::echo();
        let limit = "concurrency: { limit: 1, lease: 1s }";
        let gateway = TestGateway::start(&one_limit(store, limit, &upstream)).await;
        let client = Client::new(gateway.address);
        let (sender, body) = body::channel();
        let request = http::Request::post("/").body(body).unwrap();
        let answer = client.open(request).await;
        assert_eq!(answer.status(), 200);
        let head = Instant::now();
        // Longer than the lease.
        while head.elapsed() < Duration::from_millis(1_500) {
            assert!(!fits(&gateway).await, "free after {:?}", head.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drop(sender);
        let body = http_body_util::BodyExt::collect(answer.into_body()).await;
        assert!(body.unwrap().to_bytes().is_empty());
        until("it has ended", async || fits(&gateway).await).await;

        // Once more, and its client leaves in the middle of it.
        let (_sender, body) = body::channel();
        let leaving = Client::fresh(gateway.address);
        let request = http::Request::post("/").body(body).unwrap();
        let answer = leaving.open(request).await;
        assert!(!fits(&gateway).await);
        drop(answer);
        drop(leaving);
        until("its client has left", async || fits(&gateway).await).await;
        gateway.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_an_upstream_never_answers_holds_nothing() {
    on_both_stores(async |store| {
        let upstream = Upstream::ok();
        let limit = "concurrency: { limit: 1, lease: 1h }";
        let gateway = TestGateway::start(&one_limit(store, limit, &upstream)).await;
        upstream.stop().await;
        let client = Client::new(gateway.address);
        for _ in 0..3 {
            until("an answer of ours", async || {
                client.get("/").await.status == 502
            })
            .await;
        }
        upstream.restart();
        until("it is free", async || fits(&gateway).await).await;
        gateway.stop().await;
    })
    .await;
}

/// Clients that leave at every moment of their requests, `count` in all.
async fn cancelled(store: &str, count: usize) {
    let (upstream, release) = held();
    let limit = "concurrency: { limit: 10000, lease: 1h }";
    let gateway = TestGateway::start(&one_limit(store, limit, &upstream)).await;
    let at_once = 25;
    for round in 0..count / at_once {
        let mut clients = Vec::new();
        for _ in 0..at_once {
            let mut client = RawClient::connect(gateway.address).await;
            send_get(&mut client, "/").await;
            clients.push(client);
        }
        // In some rounds all have reached the upstream, in others nobody knows how far they have come.
        if round % 4 == 0 {
            let before = upstream.count();
            until("one has come through", async || upstream.count() > before).await;
        }
        drop(clients);
    }
    // The upstream works on for those who have left.
    release.send(true).unwrap();
    until("all places are free", async || {
        left(gateway.admin).await == 10_000
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn cancelled_requests_leave_no_place_taken() {
    on_both_stores(async |store| cancelled(store, 500).await).await;
}

/// `cargo test -p tidegate --test it -- --ignored ten_thousand_cancelled`
#[tokio::test]
#[ignore = "takes a minute"]
async fn ten_thousand_cancelled_requests_leave_no_place_taken() {
    on_both_stores(async |store| cancelled(store, 10_000).await).await;
}

#[tokio::test]
async fn the_places_of_a_gateway_that_is_killed_are_free_within_the_lease_and_not_before() {
    let redis = RedisServer::start().await;
    let (upstream, _release) = held();
    let limit = "concurrency: { limit: 10, lease: 2s }, per: []";
    let yaml = one_limit(&exact(&redis), limit, &upstream);
    let mut dies = GatewayProcess::start(&yaml).await;
    let lives = GatewayProcess::start(&yaml).await;
    let mut dying = Vec::new();
    for _ in 0..10 {
        let mut client = RawClient::connect(dies.address).await;
        send_get(&mut client, "/").await;
        dying.push(client);
    }
    upstream.wait_for(10, LONG).await;
    let key = keys(&redis).await.remove(0);
    dies.process.kill().await;
    let died = epoch();
    // Redis tells when each place lapses.
    let lapses = scores(&redis, &key).await;
    assert_eq!(lapses.len(), 10);
    assert!(
        lapses.iter().all(|lapse| *lapse <= epoch() + 2_000_000),
        "{lapses:?}"
    );
    let mut refused_at = died;
    let admitted_at = loop {
        let asked = epoch();
        let mut request = ask(lives.address, "/");
        tokio::select! {
            answer = &mut request => {
                assert_eq!(answer.unwrap().status, 429);
                refused_at = asked;
            }
            () = until("it is admitted", async || upstream.count() > 10) => break asked,
        }
    };
    // The first place of the dead that lapses, and not before.
    let first = *lapses.iter().filter(|lapse| **lapse > died).min().unwrap();
    eprintln!(
        "killed: refused until {} ms, admitted from {} ms; the first place lapsed at {} ms",
        (refused_at - died) / 1_000,
        (admitted_at - died) / 1_000,
        (first.saturating_sub(died)) / 1_000
    );
    assert!(refused_at < first, "refused though a place had lapsed");
    assert!(epoch() >= first, "admitted before a place had lapsed");
    // And all of them in the end, within a lease of the kill: one is taken again.
    let end = died + 2_000_000;
    while epoch() <= end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let alive = |lapses: Vec<u64>| lapses.into_iter().filter(|lapse| *lapse > epoch()).count();
    assert_eq!(alive(scores(&redis, &key).await), 1);
}

#[tokio::test]
async fn a_gateway_that_stops_gives_its_places_back() {
    let redis = RedisServer::start().await;
    let (upstream, release) = held();
    let limit = "concurrency: { limit: 1, lease: 1h }, per: []";
    let yaml = one_limit(&exact(&redis), limit, &upstream);
    let mut stops = GatewayProcess::start(&yaml).await;
    let lives = TestGateway::start(&yaml).await;
    let asking = ask(stops.address, "/");
    upstream.wait_for(1, LONG).await;
    assert!(!fits(&lives).await);
    stops.process.signal("TERM");
    release.send(true).unwrap();
    assert_eq!(asking.await.unwrap().status, 200);
    assert_eq!(stops.process.wait(LONG).await.code(), Some(0));
    // Not a moment later: whoever stops waits until that is done.
    assert!(fits(&lives).await);
    lives.stop().await;
}

#[tokio::test]
async fn each_client_has_places_of_its_own_and_a_cost_takes_several() {
    on_both_stores(async |store| {
        let (upstream, release) = held();
        let limit = "concurrency: { limit: 3 }, cost: 2, per: [\"header:X-User\"]";
        let gateway = TestGateway::start(&one_limit(store, limit, &upstream)).await;
        let client = std::sync::Arc::new(Client::h2(gateway.address));
        let get = |user: &'static str| {
            let client = client.clone();
            tokio::spawn(async move { send(&client, Method::GET, "/", &[("x-user", user)]).await })
        };
        let first = [get("a"), get("b")];
        upstream.wait_for(2, LONG).await;
        // One place is left, and a request takes two.
        assert_eq!(get("a").await.unwrap().status, 429);
        release.send(true).unwrap();
        for request in first {
            assert_eq!(request.await.unwrap().status, 200);
        }
        until("both are back", async || {
            get("a").await.unwrap().status == 200
        })
        .await;
        gateway.stop().await;
    })
    .await;
}

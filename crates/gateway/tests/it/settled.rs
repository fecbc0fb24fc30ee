//! What is charged by answers: `count`, and costs that answers tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Response};
use tidegate_testkit::{Client, RedisServer, Upstream, body};
use tokio::task::JoinSet;

use crate::callers::listed;
use crate::kit::{
    Bench, LONG, as_asked, ask, exact, held, left, limit_named, on_both_stores, one_limit, page,
    sample, send_body, shown, told, until, waiting,
};
use crate::support::{GatewayProcess, TestGateway};

const LOGIN: &str = "sliding_window_log: { limit: 5, window: 1h }, count: { status: [401, 403] }";

/// A thousand good logins, twenty at a time, and then fifty bad ones at once.
async fn logins(gateways: &[std::net::SocketAddr], upstream: &Upstream, good: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for which in 0..20 {
        let client = Client::new(gateways[which % gateways.len()]);
        let next = next.clone();
        clients.spawn(async move {
            while next.fetch_add(1, Ordering::Relaxed) < good {
                let answer = client.get("/200").await;
                assert_eq!(answer.status, 200, "{answer:?}");
            }
        });
    }
    clients.join_all().await;
    assert_eq!(upstream.count(), good);
    let bad: Vec<_> = (0..50)
        .map(|nth| ask(gateways[nth % gateways.len()], "/401"))
        .collect();
    let mut refused = 0;
    for request in bad {
        let status = request.await.unwrap().status.as_u16();
        assert!([401, 429].contains(&status), "{status}");
        refused += usize::from(status == 429);
    }
    assert_eq!((upstream.count() - good, refused), (5, 45));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn good_logins_pass_however_many_and_of_bad_ones_so_many() {
    on_both_stores(async |store| {
        let upstream = Upstream::start(async |request| as_asked(&request));
        let gateway = TestGateway::start(&one_limit(store, LOGIN, &upstream)).await;
        logins(&[gateway.address], &upstream, 1_000).await;
        waiting(gateway.admin, 0).await;
        gateway.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_let_the_same_logins_pass() {
    let (redis, upstream) = (
        RedisServer::start().await,
        Upstream::start(async |request| as_asked(&request)),
    );
    let yaml = one_limit(&exact(&redis), LOGIN, &upstream);
    let gateways = [
        GatewayProcess::start(&yaml).await,
        GatewayProcess::start(&yaml).await,
    ];
    let addresses: Vec<_> = gateways.iter().map(|gateway| gateway.address).collect();
    logins(&addresses, &upstream, 200).await;
}

#[tokio::test]
async fn whoever_only_reservations_stand_in_the_way_of_waits_in_order_and_not_for_ever() {
    on_both_stores(async |store| {
        let (upstream, release) = held();
        let limit = "fixed_window: { limit: 1, window: 31d }, count: { status: [4xx] }";
        let gateway = TestGateway::start(&one_limit(store, limit, &upstream)).await;
        let (address, admin) = (gateway.address, gateway.admin);
        let first = ask(address, "/first");
        upstream.wait_for(1, LONG).await;
        // Nothing settles within a second.
        let late = ask(address, "/late");
        waiting(admin, 1).await;
        assert_eq!(late.await.unwrap().status, 429);
        waiting(admin, 0).await;

        let mut behind = Vec::new();
        for nth in 0..3 {
            behind.push(ask(address, format!("/{nth}")));
            waiting(admin, nth + 1).await;
        }
        // One that leaves holds nobody up.
        behind.remove(1).abort();
        waiting(admin, 2).await;
        release.send(true).unwrap();
        assert_eq!(first.await.unwrap().status, 200);
        for request in behind {
            assert_eq!(request.await.unwrap().status, 200);
        }
        let arrived = upstream.requests();
        let order: Vec<_> = arrived.iter().map(|it| it.target.clone()).collect();
        assert_eq!(order, ["/first", "/0", "/2"]);
        waiting(admin, 0).await;
        gateway.stop().await;
    })
    .await;
}

/// What an answer says is left is what operators are shown: what is left after it was settled, by its status or by its cost.
#[tokio::test]
async fn an_answer_settles_its_request_and_tells_what_is_left() {
    let login = LOGIN.replace("403", "403, 502");
    let cost = "fixed_window: { limit: 100, window: 31d }, \
                cost: { response_header: X-Cost, reserve: 10 }";
    on_both_stores(async |store| {
        let statuses = "/200 5, /401 4, /404 4, /403 3, /500 3, /502 2, /401 1, /401 0";
        // More than was reserved; nothing that is a cost: what was reserved; more than there is: all of it.
        let costs = "/200?0 100, /200?3 97, /200?10 87, /200?30 57, /200 47, /200?many 37, /200?-5 27, \
                     /200?18446744073709551616 0";
        for (limit, most, cases) in [(&*login, 5, statuses), (cost, 100, costs)] {
            let upstream = Upstream::start(async |request| as_asked(&request));
            let gateway = TestGateway::start(&one_limit(store, limit, &upstream)).await;
            let client = Client::new(gateway.address).knows("x-cost");
            for case in cases.split(", ") {
                let (target, stays) = case.split_once(' ').unwrap();
                let (status, stays) = (target[1..4].parse().unwrap(), stays.parse().unwrap());
                let answer = client.get(target).await;
                assert_eq!(told(&answer), shown(status, most, stays), "{target}");
                until(case, async || left(gateway.admin).await == stays).await;
            }
            // All is used, and nothing is under way: there is nothing to wait for.
            assert_eq!(told(&client.get("/200").await), shown(429, most, 0));
            gateway.stop().await;
        }
    })
    .await;
}

/// What nobody but this gateway answers counts by the status that the client gets.
#[tokio::test]
async fn answers_of_the_gateway_itself_count_by_their_status() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
limits:
  scans: {{ fixed_window: {{ limit: 2, window: 31d }}, per: [ip], count: {{ status: [404] }} }}
always: [scans]
routes: [{{ path: /here, upstream: UPSTREAM }}]
"
        ))
        .await;
        for (path, status, stays) in [
            ("/here", 200, 2),
            ("/one", 404, 1),
            ("/here", 200, 1),
            ("/two", 404, 0),
        ] {
            assert_eq!(bench.client.get(path).await.status, status);
            until("it is settled", async || {
                left(bench.gateway.admin).await == stays
            })
            .await;
        }
        for path in ["/three", "/here"] {
            assert_eq!(bench.client.get(path).await.status, 429);
        }
        let refused =
            "tidegate_decisions_total{limit=\"scans\",verdict=\"refused\",decided_by=\"store\"}";
        assert_eq!(sample(bench.gateway.admin, refused).await, 2);
        bench.stop().await;
    })
    .await;
}

const BY_HEADER: &str = "cost: { response_header: X-Cost, reserve: 60 }";
const BY_BODY: &str = "cost: { response_json: usage.total_tokens, reserve: 60 }";

/// Nothing of these requests is sent: the whole budget is there when one comes that is.
#[tokio::test]
async fn an_answer_of_the_gateway_itself_gives_the_reservation_back() {
    on_both_stores(async |store| {
        for (name, cost) in [("header", BY_HEADER), ("body", BY_BODY)] {
            let bench = Bench::start(&format!(
                "
{store}
secret: the same
clients: [{{ api_key: {{ keys: [{}] }} }}, {{ ip: {{}} }}]
limits: {{ {name}: {{ fixed_window: {{ limit: 100, window: 31d }}, per: [ip], {cost} }} }}
always: [{name}]
routes:
  - {{ name: api, path: /api, upstream: UPSTREAM, max_body: 1, cors: {{ origins: [https://app.example.com] }} }}
  - {{ path: /tls, upstream: UPSTREAM, redirect: https }}
  - {{ path: /keys, upstream: UPSTREAM, require: api_key }}
",
                listed("acme")
            ))
            .await;
            let preflight = [
                ("origin", "https://app.example.com"),
                ("access-control-request-method", "GET"),
            ];
            let client = Client::new(bench.gateway.address);
            let known = [
                "vary",
                "location",
                "www-authenticate",
                "access-control-allow-origin",
                "access-control-allow-methods",
            ];
            let client = known.into_iter().fold(client, Client::knows);
            let admin = bench.gateway.admin;
            for (method, path, headers, status) in [
                (Method::OPTIONS, "/api", &preflight[..], 204),
                (Method::POST, "/api", &[], 413),
                (Method::GET, "/tls", &[], 308),
                (Method::GET, "/keys", &[], 401),
                (Method::GET, "/nowhere", &[], 404),
            ] {
                for _ in 0..2 {
                    let body = match status {
                        413 => body::full("long"),
                        _ => body::empty(),
                    };
                    let answer = send_body(&client, method.clone(), path, headers, body).await;
                    assert_eq!(told(&answer).0, status, "{cost} {path}");
                    until("it is settled", async || left(admin).await == 100).await;
                }
            }
            let (_, metrics) = page(admin, "/metrics").await;
            let counted = metrics.lines().find(|line| {
                line.starts_with("tidegate_body_costs_total{") && !line.ends_with(" 0")
            });
            assert_eq!(counted, None, "no body was read");
            assert_eq!(client.get("/api").await.status, 200);
            until("it costs what was reserved", async || left(admin).await == 40).await;
            assert_eq!(bench.upstream.count(), 1);
            bench.stop().await;
        }
    })
    .await;
}

/// What the client does not get, or gets otherwise, still tells the cost.
#[tokio::test]
async fn edits_of_answers_do_not_hide_the_cost() {
    on_both_stores(async |store| {
        for (name, cost, edits, shown) in [
            ("removed", BY_HEADER, "remove: [X-Cost, X-Kept]", None),
            ("set", BY_HEADER, "set: { X-Cost: \"1\" }", Some("1")),
            (
                "body",
                BY_BODY,
                "remove: [Content-Type], set: { X-Cost: \"2\" }",
                Some("2"),
            ),
        ] {
            let upstream = Upstream::start(|_| async {
                let answer = Response::builder().header("content-type", "application/json");
                let answer = answer.header("x-cost", "7");
                let usage = r#"{"usage":{"total_tokens":7}}"#;
                answer.body(body::full(usage)).unwrap()
            });
            let limit = format!("fixed_window: {{ limit: 100, window: 31d }}, {cost}");
            let yaml = limit_named(store, name, &limit, &upstream);
            let edits = format!("], response_headers: {{ {edits} }} }}]\n");
            let gateway = TestGateway::start(&yaml.replace("] }]\n", &edits)).await;
            let client = Client::new(gateway.address).knows("x-cost");
            let answer = client.get("/").await;
            assert_eq!(answer.header("x-cost"), shown, "{cost} {edits}");
            assert!(told(&answer).2.is_some(), "{answer:?}");
            until("it is settled", async || left(gateway.admin).await == 93).await;
            gateway.stop().await;
        }
    })
    .await;
}

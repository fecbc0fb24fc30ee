//! Heads that the HTTP parser refuses: they are answered with a problem, counted, logged and charged to the peer's address.
//! Heads of HTTP/2 stand in `edge/http2_refused`.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::{Value, json};
use tidegate_testkit::{Client, End, RawClient, Upstream};

use crate::kit::{Bench, LONG, get, on_both_stores, sample, until};
use crate::support::GatewayProcess;

const GOOD: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const BAD: &str = "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n";

/// Three requests of an address, whatever they ask for.
fn configuration(store: &str, limit: &str) -> String {
    format!(
        "
{store}
limits: {{ guard: {{ fixed_window: {{ limit: 3, window: 31d }}, {limit} }} }}
always: [guard]
routes: [{{ path: /**, upstream: UPSTREAM }}]
"
    )
}

/// What comes back on a connection of its own, to its end.
async fn sent(from: Ipv4Addr, to: SocketAddr, request: &str) -> (String, End) {
    let mut client = RawClient::connect_from(from, to).await;
    // A connection that is closed at once takes nothing.
    _ = client.send(request).await;
    let (answer, end) = client.read_to_close(LONG).await;
    (String::from_utf8(answer).unwrap(), end)
}

fn unparsed(reason: &str) -> String {
    format!("tidegate_unparsed_requests_total{{reason=\"{reason}\"}}")
}

fn outcomes(outcome: &str) -> String {
    let status = if outcome == "dropped" { "none" } else { "4xx" };
    let labels = format!("route=\"none\",outcome=\"{outcome}\",status=\"{status}\"");
    format!("tidegate_requests_total{{{labels}}}")
}

#[tokio::test]
async fn each_is_answered_with_a_problem_and_counted() {
    let bench = Bench::start("routes: [{ path: /**, upstream: UPSTREAM }]").await;
    let long = "x".repeat(300 << 10);
    let of = |line: &str, more: &str| format!("{line}\r\nHost: a\r\n{more}\r\n");
    let two_lengths = "Content-Length: 1\r\nContent-Length: 2\r\n";
    let (large, many) = (format!("X: {long}\r\n"), "X: y\r\n".repeat(200));
    let cases = [
        (BAD.to_owned(), 400, "bad_head"),
        (of("GE(T / HTTP/1.1", ""), 400, "bad_head"),
        (of("GET /\u{1} HTTP/1.1", ""), 400, "bad_head"),
        (of("GET /?q#a HTTP/1.1", ""), 400, "bad_head"),
        (of("GET / HTTP/3.7", ""), 400, "bad_head"),
        (of("POST / HTTP/1.1", two_lengths) + "x", 400, "bad_head"),
        (of("GET / HTTP/1.1", &large), 431, "headers_too_large"),
        (of("GET / HTTP/1.1", &many), 431, "headers_too_large"),
        (
            of(&format!("GET /{long} HTTP/1.1"), ""),
            414,
            "target_too_long",
        ),
    ];
    for (head, status, error) in &cases {
        let shown = &head[..head.len().min(60)];
        let mut client = RawClient::connect(bench.gateway.address).await;
        _ = client.send(head).await;
        let answer = client
            .response(LONG)
            .await
            .unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert_eq!(answer.status(), *status, "{shown}");
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{shown}: {answer:?}"
        );
        assert_eq!(answer.header("connection"), Some("close"), "{shown}");
        let problem: Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(problem["error"], *error, "{shown}");
        client.finish().await;
        assert_eq!(
            client.read_to_close(LONG).await,
            (vec![], End::Closed),
            "{shown}"
        );
    }
    let admin = bench.gateway.admin;
    assert_eq!(sample(admin, &outcomes("rejected")).await, 9);
    for (reason, count) in [
        ("malformed", 6),
        ("head_too_large", 2),
        ("target_too_long", 1),
    ] {
        assert_eq!(sample(admin, &unparsed(reason)).await, count, "{reason}");
    }
    assert_eq!(bench.upstream.count(), 0);
    bench.stop().await;
}

/// Answers to requests before it are whole, also when all come at once.
#[tokio::test]
async fn what_came_before_on_the_connection_is_answered() {
    let bench = Bench::start("routes: [{ path: /**, upstream: UPSTREAM }]").await;
    let both = format!("{GOOD}{GOOD}{BAD}");
    let (answers, end) = sent(Ipv4Addr::LOCALHOST, bench.gateway.address, &both).await;
    let statuses: Vec<_> = answers
        .match_indices("HTTP/1.1 ")
        .map(|(at, _)| &answers[at + 9..at + 12])
        .collect();
    assert_eq!(
        (&statuses[..], end),
        (&["200", "200", "400"][..], End::Closed),
        "{answers}"
    );
    assert!(answers.contains("\"bad_head\""), "{answers}");
    assert_eq!(sample(bench.gateway.admin, &unparsed("malformed")).await, 1);
    bench.stop().await;
}

#[tokio::test]
async fn each_is_charged_to_the_address_and_then_no_head_is_read() {
    on_both_stores(async |store| {
        let bench = Bench::start(&configuration(store, "per: [ip]")).await;
        let (to, admin) = (bench.gateway.address, bench.gateway.admin);
        let (bad, other) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
        for _ in 0..3 {
            let (answer, _) = sent(bad, to, BAD).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        }
        let (answer, _) = sent(bad, to, BAD).await;
        assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
        assert!(answer.contains("\r\nretry-after: "), "{answer}");
        // For a moment nothing is read from that address; a busy machine may need another try.
        let refused = "tidegate_connections_refused_total{reason=\"always\"}";
        until("a connection is closed at once", async || {
            sent(bad, to, BAD).await;
            let (answer, _) = sent(bad, to, GOOD).await;
            answer.is_empty() && sample(admin, refused).await > 0
        })
        .await;
        let (answer, _) = sent(other, to, "GET / HTTP/1.0\r\nHost: a\r\n\r\n").await;
        assert!(answer.contains(" 200 "), "{answer}");
        assert_eq!(bench.upstream.count(), 1);
        // Whoever stops is answered again, by the limit.
        until("it is told that it is limited", async || {
            let (answer, _) = sent(bad, to, "GET / HTTP/1.0\r\nHost: a\r\n\r\n").await;
            answer.contains(" 429 ")
        })
        .await;
        assert!(sample(admin, &outcomes("limited")).await >= 1);
        bench.stop().await;
    })
    .await;
}

/// A trusted proxy's connections carry the requests of many.
#[tokio::test]
async fn a_trusted_proxy_is_heard_all_the_same() {
    let yaml = format!(
        "trusted_proxies: [127.0.0.1]\n{}",
        configuration("", "per: [ip]")
    );
    let bench = Bench::start(&yaml).await;
    for _ in 0..6 {
        sent(Ipv4Addr::LOCALHOST, bench.gateway.address, BAD).await;
    }
    let client = Client::fresh(bench.gateway.address);
    assert_eq!(
        get(&client, "/", &[("x-forwarded-for", "192.0.2.1")]).await,
        200
    );
    bench.stop().await;
}

/// A budget that all share is not the address's own.
#[tokio::test]
async fn a_shared_limit_closes_nobody() {
    let bench = Bench::start(&configuration("", "per: []")).await;
    for _ in 0..6 {
        sent(Ipv4Addr::LOCALHOST, bench.gateway.address, BAD).await;
    }
    assert_eq!(bench.client.get("/").await.status, 429);
    bench.stop().await;
}

#[tokio::test]
async fn a_limit_that_drops_gives_no_answer() {
    let bench = Bench::start(&configuration("", "per: [ip], action: drop")).await;
    for _ in 0..3 {
        sent(Ipv4Addr::LOCALHOST, bench.gateway.address, BAD).await;
    }
    let (answer, _) = sent(Ipv4Addr::LOCALHOST, bench.gateway.address, BAD).await;
    assert_eq!(answer, "");
    assert_eq!(sample(bench.gateway.admin, &outcomes("dropped")).await, 1);
    bench.stop().await;
}

#[tokio::test]
async fn each_has_its_line_in_the_log() {
    let upstream = Upstream::ok();
    let yaml = configuration("", "per: [ip]").replace("UPSTREAM", &upstream.url());
    let gateway = GatewayProcess::start(&yaml).await;
    sent(Ipv4Addr::LOCALHOST, gateway.address, BAD).await;
    let line = gateway
        .process
        .wait_for_line("\"target\":\"access\"", LONG)
        .await;
    let line: Value = serde_json::from_str(&line).unwrap();
    let told = ["method", "path", "status", "outcome", "client"].map(|name| line[name].clone());
    let expected = [
        json!("-"),
        json!("-"),
        json!(400),
        json!("rejected"),
        json!("ip:127.0.0.1"),
    ];
    assert_eq!(told, expected);
}

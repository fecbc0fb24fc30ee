//! Units that a request reserves by the numbers in its own body or header.

mod bodies;
mod models;

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tidegate_testkit::body::{BoxBody, channel, empty, full};
use tidegate_testkit::{Answer, Client, RedisServer, Upstream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::kit::{LONG, exact, number, on_both_stores, one_limit};
use crate::support::{GatewayProcess, TestGateway};

const LIMIT: &str = "fixed_window: { limit: 5000000, window: 31d }, \
    cost: { response_json: used, reserve: { request_json: max_tokens, default: 2000, max: 100000 } }";
const JSON: &str = "application/json";

/// An upstream that answers with the body of the request, and with no cost.
fn echo() -> Upstream {
    Upstream::start(|request| async {
        let body = request.into_body().collect().await;
        let body = body.map_or_else(|_| Bytes::new(), |body| body.to_bytes());
        Response::new(full(body))
    })
}

fn post(content_type: &str, body: impl Into<Bytes>) -> Request<BoxBody> {
    Request::post("/")
        .header("content-type", content_type)
        .body(full(body))
        .unwrap()
}

/// What this answer's request has reserved, after `left` units were left.
fn reserved(left: &mut u64, answer: &Answer) -> u64 {
    assert_eq!(answer.status, StatusCode::OK);
    let now = number(answer, "x-ratelimit-remaining").unwrap();
    std::mem::replace(left, now) - now
}

fn padded(bytes: usize) -> String {
    let pad = " ".repeat(bytes);
    format!("{{\"x\":\"{pad}\",\"max_tokens\":500}}")
}

#[tokio::test]
async fn a_request_reserves_what_its_body_asks_for() {
    let nested = format!(
        "{{\"x\":{}{},\"max_tokens\":500}}",
        "[".repeat(20_000),
        "]".repeat(20_000)
    );
    let cases = [
        (JSON, r#"{"max_tokens":500}"#.to_owned(), 500),
        (
            "application/vnd.api+json",
            r#"{"max_tokens":500}"#.into(),
            500,
        ),
        (JSON, r#"{"max_tokens":12.2}"#.into(), 13),
        (JSON, r#"{"max_tokens":0}"#.into(), 1),
        (JSON, r#"{"max_tokens":1e30}"#.into(), 100_000),
        (
            JSON,
            format!("{{\"max_tokens\":1{}}}", "0".repeat(30)),
            100_000,
        ),
        (JSON, r#"{"max_tokens":100001}"#.into(), 100_000),
        (
            JSON,
            r#"{"messages":[{"max_tokens":1}],"max_tokens":500}"#.into(),
            500,
        ),
        (
            JSON,
            r#"{"text":"\"max_tokens\":1","max_tokens":500}"#.into(),
            500,
        ),
        (JSON, nested, 500),
        (JSON, padded(60_000), 500),
        // The first number counts, for the request goes on with it.
        (JSON, r#"{"max_tokens":500,"max_tokens":7}"#.into(), 500),
        // No number: the default.
        (JSON, "{}".into(), 2_000),
        (JSON, String::new(), 2_000),
        (JSON, "oops".into(), 100_000),
        (JSON, r#"{"max_tokens":"500"}"#.into(), 2_000),
        (JSON, r#"{"max_tokens":-500}"#.into(), 2_000),
        (JSON, r#"{"max_tokens":null}"#.into(), 2_000),
        (JSON, r#"{"max_tokens":{"a":500}}"#.into(), 2_000),
        // What the gateway cannot read may ask for the most.
        (JSON, r#"[{"max_tokens":500}]"#.into(), 100_000),
        (JSON, "\u{feff}{\"max_tokens\":500}".into(), 100_000),
        (JSON, padded(1 << 20), 100_000),
        ("text/plain", r#"{"max_tokens":500}"#.into(), 100_000),
        ("", r#"{"max_tokens":500}"#.into(), 100_000),
    ];
    on_both_stores(async |store| {
        let upstream = echo();
        let gateway = TestGateway::start(&one_limit(store, LIMIT, &upstream)).await;
        let mut left = 5_000_000;
        for client in [Client::new(gateway.address), Client::h2(gateway.address)] {
            for (content_type, body, expected) in &cases {
                let start = &body[..body.len().min(60)];
                let answer = client.request(post(content_type, body.clone())).await;
                let units = reserved(&mut left, &answer);
                assert_eq!(units, *expected, "{content_type} {start}");
                assert_eq!(answer.body, body.as_bytes(), "{content_type} {start}");
            }
            let zipped = Request::post("/").header("content-type", JSON);
            let zipped = zipped.header("content-encoding", "gzip");
            let answer = client.request(zipped.body(full("zipped")).unwrap()).await;
            assert_eq!(reserved(&mut left, &answer), 100_000);
            for method in [Method::GET, Method::DELETE] {
                let none = Request::builder()
                    .method(method)
                    .header("content-type", JSON);
                let answer = client.request(none.body(empty()).unwrap()).await;
                assert_eq!(reserved(&mut left, &answer), 2_000);
            }
        }
        gateway.stop().await;
    })
    .await;
}

#[tokio::test]
async fn weights_headers_and_bytes_add_up() {
    let by = |reserve: &str| LIMIT.replace("request_json: max_tokens, default: 2000", reserve);
    let weighed = "request_json: { prompt: 0.5, out.max: 4 }, default: 2000";
    let json = r#"{"prompt":3,"out":{"max":100}}"#;
    for (reserve, header, body, expected) in [
        (weighed, None, json, 402),
        (weighed, None, r#"{"prompt":3}"#, 2),
        (weighed, None, r#"{"other":3}"#, 2_000),
        ("request_header: x-max, default: 7", Some("30"), json, 30),
        ("request_header: x-max, default: 7", Some("many"), json, 7),
        ("request_header: x-max, default: 7", None, json, 7),
        ("request_bytes: 0.3, default: 1", None, json, 10),
        (
            "request_json: prompt, request_header: x-max, request_bytes: 0.3, default: 9",
            Some("30"),
            json,
            42,
        ),
    ] {
        let upstream = echo();
        let yaml = one_limit("store: memory\n", &by(reserve), &upstream);
        let gateway = TestGateway::start(&yaml).await;
        let client = Client::new(gateway.address);
        let mut request = post(JSON, body);
        if let Some(header) = header {
            let headers = request.headers_mut();
            headers.insert("x-max", header.parse().unwrap());
        }
        let answer = client.request(request).await;
        assert_eq!(
            reserved(&mut 5_000_000, &answer),
            expected,
            "{reserve} {body}"
        );
        gateway.stop().await;
    }
}

/// A body of unknown length whose bytes count reserves the most units.
#[tokio::test]
async fn bytes_of_an_unknown_length_cost_the_most() {
    let limit = LIMIT.replace(
        "request_json: max_tokens, default: 2000",
        "request_bytes: 1, default: 5",
    );
    for (length, expected) in [(1_000, 100_000), (80_000, 100_000)] {
        let upstream = echo();
        let gateway = TestGateway::start(&one_limit("store: memory\n", &limit, &upstream)).await;
        let (mut sender, body) = channel();
        let request = Request::post("/").body(body).unwrap();
        let sending = tokio::spawn(async move {
            for part in vec![b'x'; length].chunks(999) {
                sender
                    .send_data(Bytes::copy_from_slice(part))
                    .await
                    .unwrap();
            }
        });
        let answer = Client::new(gateway.address).request(request).await;
        sending.await.unwrap();
        assert_eq!(reserved(&mut 5_000_000, &answer), expected);
        assert_eq!(answer.body.len(), length);
        gateway.stop().await;
    }
}

/// The request goes on as soon as its number was read, with the bytes up to there, and while the client still sends.
#[tokio::test]
async fn a_request_goes_on_when_its_number_was_read() {
    let (seen, mut sees) = mpsc::unbounded_channel();
    let upstream = Upstream::start(move |request| {
        let seen = seen.clone();
        async move {
            let mut body = request.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                if let Ok(data) = frame.into_data() {
                    seen.send(data).unwrap();
                }
            }
            Response::new(empty())
        }
    });
    let gateway = TestGateway::start(&one_limit("store: memory\n", LIMIT, &upstream)).await;
    for client in [Client::new(gateway.address), Client::h2(gateway.address)] {
        let (mut sender, body) = channel();
        let request = Request::post("/").header("content-type", JSON).body(body);
        let answering = client.request(request.unwrap());
        let sending = async {
            // Byte by byte; the number ends with the comma.
            for byte in br#"{"max_tokens":500,"# {
                sender
                    .send_data(Bytes::copy_from_slice(&[*byte]))
                    .await
                    .unwrap();
            }
            let mut got = Vec::new();
            while got.len() < 18 {
                got.extend(sees.recv().await.unwrap());
            }
            assert_eq!(got, br#"{"max_tokens":500,"#);
            sender.send_data(r#""x":1}"#.into()).await.unwrap();
            drop(sender);
            let mut rest = Vec::new();
            while rest.len() < 6 {
                rest.extend(sees.recv().await.unwrap());
            }
            assert_eq!(rest, br#""x":1}"#);
        };
        let (answer, ()) = tokio::join!(answering, sending);
        assert_eq!(answer.status, StatusCode::OK);
        let sent = number(&answer, "x-ratelimit-remaining").unwrap();
        assert_eq!(sent % 500, 0);
    }
    gateway.stop().await;
}

/// A hundred calls at once, over two gateways, on a budget for ten: ten go to the upstream. A gateway that is killed gives nothing back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_calls_at_once_never_hold_more_than_the_budget() {
    let redis = RedisServer::start().await;
    let (answer, answers) = watch::channel(false);
    let upstream = Upstream::start(move |_| {
        let mut answers = answers.clone();
        async move {
            answers.wait_for(|is_due| *is_due).await.unwrap();
            let json = Response::builder().header("content-type", JSON);
            json.body(full(r#"{"used":60}"#)).unwrap()
        }
    });
    let limit = LIMIT
        .replace("limit: 5000000", "limit: 1000")
        .replace("max: 100000", "max: 1000");
    let limit = limit.replace("default: 2000", "default: 1000");
    let yaml = one_limit(&exact(&redis), &limit, &upstream);
    let (lives, mut dies) =
        tokio::join!(GatewayProcess::start(&yaml), GatewayProcess::start(&yaml));
    let call = |gateway: SocketAddr| async move {
        let request = post(JSON, r#"{"max_tokens":100}"#);
        Client::fresh(gateway).try_request(request).await.ok()
    };
    let mut calls = JoinSet::new();
    for at in 0..100 {
        calls.spawn(call([lives.address, dies.address][at % 2]));
        if at == 9 {
            upstream.wait_for(10, LONG).await;
        }
    }
    // Ninety are refused when they have waited for holds to end for a second, and until then no other one has reached the upstream.
    for _ in 0..90 {
        let refused = calls.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(upstream.count(), 10);
    dies.process.kill().await;
    answer.send(true).unwrap();
    let served = calls.join_all().await;
    let served = served.iter().flatten().filter(|it| it.status == 200);
    assert_eq!(served.count(), 5);
    // Five are charged what they used. The five of the killed gateway hold what they reserved, and are charged it when they lapse.
    let left = 1_000 - 5 * 60 - 5 * 100;
    let mut admitted = 0;
    while call(lives.address).await.unwrap().status == StatusCode::OK {
        admitted += 1;
    }
    assert_eq!(admitted, (left - 100) / 60 + 1);
}

/// A request that may cost more than the limit ever admits is never admitted, also if its body hides the number.
#[tokio::test]
async fn a_request_that_may_cost_more_than_the_limit_is_refused() {
    let limit = LIMIT.replace("limit: 5000000", "limit: 3000");
    on_both_stores(async |store| {
        let upstream = echo();
        let gateway = TestGateway::start(&one_limit(store, &limit, &upstream)).await;
        let client = Client::new(gateway.address);
        for (content_type, units) in [(JSON, 3_001), ("text/plain", 1)] {
            let body = format!("{{\"max_tokens\":{units}}}");
            let answer = client.request(post(content_type, body)).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST);
            assert!(answer.text().contains("cost_exceeds_limit"));
        }
        let answer = client.request(post(JSON, r#"{"max_tokens":3000}"#)).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(upstream.count(), 1);
        gateway.stop().await;
    })
    .await;
}

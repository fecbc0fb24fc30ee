//! Costs that the bodies of answers tell, while they pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use miniz_oxide::deflate::compress_to_vec;
use tidegate_testkit::body::{BoxBody, Sender, channel, empty, full};
use tidegate_testkit::{Client, RawClient, Speaks, Upstream};
use tokio::sync::mpsc;

use crate::access_log_file::{lines, log, objects};
use crate::kit::{LONG, left, number, on_both_stores, page, sample, send, until};
use crate::status::browser;
use crate::support::{GatewayProcess, TestGateway};

const LIMIT: &str = "fixed_window: { limit: 1000, window: 31d }, \
                     cost: { response_json: usage.total_tokens, reserve: 10 }";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const USAGE: &str = r#"{"usage":{"total_tokens":42}}"#;
const CHUNK: &str = "data: {\"choices\":[{\"text\":\"\\\"usage\\\": 7\"}],\"usage\":null}\n\n";
const LAST: &str = "data: {\"usage\":{\"total_tokens\":42}}\n\ndata: [DONE]\n\n";

fn gzip(text: &str) -> Vec<u8> {
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    [&head[..], &compress_to_vec(text.as_bytes(), 6), &[0; 8]].concat()
}

fn configuration(store: &str, limit: &str, url: &str) -> String {
    format!(
        "{store}secret: the same\nlimits: {{ it: {{ {limit} }} }}\n\
         routes: [{{ name: api, path: /**, upstream: \"{url}\", limits: [it] }}]\n"
    )
}

async fn start(store: &str, upstream: &Upstream) -> TestGateway {
    TestGateway::start(&configuration(store, LIMIT, &upstream.url())).await
}

async fn leaves(gateway: &TestGateway, stays: u64, what: &str) {
    until(&format!("{what} leaves {stays}"), async || {
        left(gateway.admin).await == stays
    })
    .await;
}

/// An answer that a server gives at once.
#[derive(Clone)]
struct Whole {
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: Bytes,
}

impl Whole {
    fn new(content_type: &'static str, body: impl Into<Bytes>) -> (String, Self) {
        let headers: &[_] = match content_type {
            JSON => &[("content-type", JSON)],
            EVENTS => &[("content-type", EVENTS)],
            _ => &[("content-type", "text/plain")],
        };
        let body = body.into();
        let name = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let status = 200;
        (
            format!("{content_type}, {name}"),
            Self {
                status,
                headers,
                body,
            },
        )
    }

    fn encoded(encoding: &'static str, body: impl Into<Bytes>) -> (String, Self) {
        let headers: &[_] = match encoding {
            "gzip" => &[("content-type", JSON), ("content-encoding", "gzip")],
            "br" => &[("content-type", JSON), ("content-encoding", "br")],
            _ => &[("content-type", JSON), ("content-encoding", "x-mine")],
        };
        let (status, body) = (200, body.into());
        (
            encoding.to_owned(),
            Self {
                status,
                headers,
                body,
            },
        )
    }

    fn with_status((name, whole): (String, Self), status: u16) -> (String, Self) {
        (format!("{status}, {name}"), Self { status, ..whole })
    }
}

/// An upstream whose answers are these, by the number that the path is.
fn answering(answers: Vec<Whole>) -> Upstream {
    Upstream::start(move |request| {
        let at: usize = request.uri().path()[1..].parse().unwrap();
        let Whole {
            status,
            headers,
            body,
        } = answers[at].clone();
        async move {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(*name, *value);
            }
            response.body(full(body)).unwrap()
        }
    })
}

fn nested(levels: usize) -> String {
    let (open, close) = ("[".repeat(levels), "]".repeat(levels));
    format!("{{\"x\":{open}{close},\"usage\":{{\"total_tokens\":42}}}}")
}

#[tokio::test]
async fn the_body_tells_what_its_request_has_cost() {
    let json = |body: &str| Whole::new(JSON, body.to_owned());
    let cases = [
        (json(USAGE), 42),
        (json(r#"{"usage":{"total_tokens":0}}"#), 0),
        (json(r#"{"usage":{"total_tokens":12.2}}"#), 13),
        (
            json(r#"{"usage":{"total_tokens":1,"total_tokens":42}}"#),
            42,
        ),
        // An appended number does not hide a larger one.
        (
            json(r#"{"usage":{"total_tokens":42,"total_tokens":0}}"#),
            42,
        ),
        (
            json(&format!("{USAGE}{{\"usage\":{{\"total_tokens\":0}}}}")),
            42,
        ),
        (json(&nested(100_000)), 42),
        // Nothing that is a cost: what was reserved.
        (json(r#"{"usage":{"total_tokens":-1}}"#), 10),
        (json(r#"{"usage":{"total_tokens":"42"}}"#), 10),
        (json(r#"{"usage":{"total_tokens":null}}"#), 10),
        (json(r#"{"usage":null}"#), 10),
        (json(r#"[{"usage":{"total_tokens":42}}]"#), 10),
        (json(&nested(100_000).replace(']', "")), 10),
        (json(r#"{"usage":{"total_tokens":4"#), 10),
        (json("oops"), 10),
        (json(""), 10),
        // What follows takes nothing back.
        (json(r#"{"usage":{"total_tokens":42},"x"#), 42),
        (Whole::new(EVENTS, format!("{CHUNK}{CHUNK}{LAST}")), 42),
        (Whole::new(EVENTS, format!("{LAST}{CHUNK}")), 42),
        (
            Whole::new(EVENTS, format!("{LAST}{}", LAST.replace("42", "0"))),
            42,
        ),
        (Whole::new(EVENTS, CHUNK), 10),
        (Whole::new(EVENTS, USAGE), 10),
        (Whole::new("text/plain", USAGE), 10),
        (Whole::encoded("gzip", gzip(USAGE)), 42),
        (Whole::encoded("gzip", USAGE), 10),
        (Whole::encoded("br", USAGE), 10),
        (Whole::encoded("x-mine", USAGE), 10),
        (Whole::with_status(json(USAGE), 429), 42),
        (Whole::with_status(json("{}"), 500), 10),
        (Whole::with_status(json(USAGE), 206), 10),
        (Whole::with_status(json(""), 204), 10),
        (Whole::with_status(json(""), 304), 10),
        // More than there is: all of it.
        (
            json(r#"{"usage":{"total_tokens":1234567890123456789012345678901234567890}}"#),
            1_000,
        ),
    ];
    on_both_stores(async |store| {
        let answers = cases.iter().map(|((_, answer), _)| answer.clone());
        let upstream = answering(answers.collect());
        let gateway = start(store, &upstream).await;
        let client = Client::new(gateway.address).knows("content-encoding");
        let mut stays: u64 = 1_000;
        for (at, ((name, answer), cost)) in cases.iter().enumerate() {
            let told = client.get(&format!("/{at}")).await;
            assert_eq!(told.status, answer.status, "{name}");
            assert_eq!(told.body, answer.body, "{name}: nothing is changed");
            let reserved = stays.saturating_sub(10);
            assert_eq!(
                number(&told, "x-ratelimit-remaining"),
                Some(reserved),
                "{name}"
            );
            stays = stays.saturating_sub(*cost);
            leaves(&gateway, stays, name).await;
        }
        assert_eq!(client.get("/0").await.status, 429);
        gateway.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_answer_without_a_body_costs_what_was_reserved() {
    on_both_stores(async |store| {
        let upstream = answering(vec![Whole::new(JSON, USAGE).1]);
        let gateway = start(store, &upstream).await;
        let client = Client::new(gateway.address);
        let answer = send(&client, Method::HEAD, "/0", &[]).await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 0));
        leaves(&gateway, 990, "HEAD").await;
        gateway.stop().await;
    })
    .await;
}

/// An upstream whose answers are written by the test, each as it is asked for.
struct Written {
    upstream: Upstream,
    bodies: mpsc::UnboundedReceiver<Sender>,
}

impl Written {
    fn speaking(speaks: Speaks) -> Self {
        let (made, bodies) = mpsc::unbounded_channel();
        let upstream = Upstream::speaking(speaks, move |_| {
            let (sender, body) = channel();
            made.send(sender).unwrap();
            async move {
                let events = Response::builder().header(header::CONTENT_TYPE, EVENTS);
                events.header("trailer", "x-end").body(body).unwrap()
            }
        });
        Self { upstream, bodies }
    }

    async fn body(&mut self) -> Sender {
        self.bodies.recv().await.unwrap()
    }
}

fn get() -> Request<BoxBody> {
    let request = Request::get("/").header("te", "trailers");
    request.body(empty()).unwrap()
}

/// Each part is with the client before the next one is sent, and nothing is settled before the end.
#[tokio::test]
async fn nothing_is_held_back_in_any_protocol() {
    on_both_stores(async |store| {
        let (mut stays, mut nth) = (1_000, 0);
        for speaks in [Speaks::Http1, Speaks::Http2] {
            let mut written = Written::speaking(speaks);
            let gateway = start(store, &written.upstream).await;
            if store.contains("memory") {
                stays = 1_000;
            }
            for client in [Client::new(gateway.address), Client::h2(gateway.address)] {
                nth += 1;
                let answer = client.open(get()).await;
                let (mut sender, mut body) = (written.body().await, answer.into_body());
                for part in [CHUNK, &LAST[..20], &LAST[20..]] {
                    sender.send_data(part.into()).await.unwrap();
                    let mut came = Vec::new();
                    while came.len() < part.len() {
                        came.extend(body.frame().await.unwrap().unwrap().into_data().unwrap());
                    }
                    assert_eq!(came, part.as_bytes());
                    assert_eq!(left(gateway.admin).await, stays - 10, "as reserved");
                }
                let trailers =
                    HeaderMap::from_iter([("x-end".parse().unwrap(), "1".parse().unwrap())]);
                sender.send_trailers(trailers).await.unwrap();
                drop(sender);
                let end = body.frame().await.unwrap().unwrap();
                assert!(end.is_trailers(), "{end:?}");
                assert!(body.frame().await.is_none());
                stays -= 42;
                leaves(&gateway, stays, &format!("{nth}")).await;
            }
            gateway.stop().await;
        }
    })
    .await;
}

/// Reads an answer up to the end of this part, which the upstream sends.
async fn takes(part: &str, sender: &mut Sender, body: &mut Incoming) {
    sender.send_data(part.to_owned().into()).await.unwrap();
    let mut came = 0;
    while came < part.len() {
        let frame = body.frame().await.unwrap().unwrap();
        came += frame.into_data().unwrap().len();
    }
}

/// What was read so far, if the path was; else what was reserved.
#[tokio::test]
async fn a_body_that_breaks_off_costs_what_it_told_so_far() {
    on_both_stores(async |store| {
        let mut written = Written::speaking(Speaks::Http1);
        let gateway = start(store, &written.upstream).await;
        let mut stays = 1_000;
        for (part, cost) in [(CHUNK, 10), (&LAST[..30], 10), (LAST, 42)] {
            let client = Client::h2(gateway.address);
            let answer = client.open(get()).await;
            let (mut sender, mut body) = (written.body().await, answer.into_body());
            takes(part, &mut sender, &mut body).await;
            assert_eq!(left(gateway.admin).await, stays - 10, "as reserved");
            sender.abort("it broke".into());
            assert!(body.frame().await.unwrap().is_err());
            stays -= cost;
            leaves(&gateway, stays, part).await;
        }
        gateway.stop().await;
    })
    .await;
}

/// Waits until the gateway reads this number of answers without their clients.
async fn reads_alone(gateway: &TestGateway, answers: u64) {
    until("answers are read without their clients", async || {
        sample(gateway.admin, "tidegate_abandoned_exchanges").await == answers
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_pays_what_the_rest_of_the_answer_tells() {
    on_both_stores(async |store| {
        let mut stays = 1_000;
        for speaks in [Speaks::Http1, Speaks::Http2] {
            let mut written = Written::speaking(speaks);
            let gateway = start(store, &written.upstream).await;
            if store.contains("memory") {
                stays = 1_000;
            }
            for protocol in [Client::h2 as fn(_) -> _, Client::new] {
                let client: Client = protocol(gateway.address);
                let answer = client.open(get()).await;
                let (mut sender, mut body) = (written.body().await, answer.into_body());
                takes(CHUNK, &mut sender, &mut body).await;
                drop((body, client));
                reads_alone(&gateway, 1).await;
                assert_eq!(left(gateway.admin).await, stays - 10, "as reserved");
                sender.send_data(CHUNK.into()).await.unwrap();
                sender.send_data(LAST.into()).await.unwrap();
                drop(sender);
                stays -= 42;
                leaves(&gateway, stays, "the rest").await;
                reads_alone(&gateway, 0).await;
            }
            assert_eq!(sample(gateway.admin, &told("read_on")).await, 2);
            gateway.stop().await;
        }
    })
    .await;
}

/// An upstream that falls silent, and one that sends without end, are read for 5 s and 1 MiB.
#[tokio::test]
async fn what_is_read_for_a_client_that_has_left_is_bounded() {
    for (missing, cost) in [("reserve", 10), ("all", 1_000)] {
        let mut written = Written::speaking(Speaks::Http1);
        let limit = LIMIT.replace("reserve: 10", &format!("reserve: 10, missing: {missing}"));
        let yaml = configuration("store: memory\n", &limit, &written.upstream.url());
        let gateway = TestGateway::start(&yaml).await;
        for (nth, is_silent) in [true, false].into_iter().enumerate() {
            let client = Client::new(gateway.address);
            let answer = client.open(get()).await;
            let (mut sender, mut body) = (written.body().await, answer.into_body());
            takes(CHUNK, &mut sender, &mut body).await;
            drop((body, client));
            reads_alone(&gateway, 1).await;
            if !is_silent {
                // The number comes behind the bound. The gateway closes the connection before.
                let filler = CHUNK.repeat(1_000);
                for part in std::iter::repeat_n(&*filler, 50).chain([LAST]) {
                    if sender.send_data(part.to_owned().into()).await.is_err() {
                        break;
                    }
                }
            }
            reads_alone(&gateway, 0).await;
            let left_unread = nth as u64 + 1;
            assert_eq!(sample(gateway.admin, &told("left")).await, left_unread);
            let stays = 1_000_u64.saturating_sub(cost * left_unread);
            leaves(&gateway, stays, missing).await;
            if missing == "all" {
                // All is used, and no other request is admitted.
                break;
            }
        }
        gateway.stop().await;
    }
}

/// A gateway that stops does not wait for such answers: the line of the request is written, with what was reserved.
#[tokio::test]
async fn a_gateway_that_stops_reads_no_further() {
    let mut written = Written::speaking(Speaks::Http1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let settings = log(&file, "format: json, fields: [cost]");
    let yaml = configuration("store: memory\n", LIMIT, &written.upstream.url());
    let gateway = TestGateway::start(&format!("log: {{ {settings} }}\n{yaml}")).await;
    let client = Client::new(gateway.address);
    let answer = client.open(get()).await;
    let (mut sender, mut body) = (written.body().await, answer.into_body());
    takes(CHUNK, &mut sender, &mut body).await;
    drop((body, client));
    reads_alone(&gateway, 1).await;
    gateway.stop().await;
    let lines = objects(&lines(&file));
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["cost"], 10);
}

#[tokio::test]
async fn an_answer_that_does_not_tell_its_cost_may_cost_all() {
    let json = |body: &str| Whole::new(JSON, body.to_owned());
    let bomb = gzip(&format!("{}{USAGE}", " ".repeat(32 << 20)));
    for (whole, method, cost) in [
        (json(USAGE), Method::GET, 42),
        (json("{}"), Method::GET, 1_000),
        (
            json(r#"{"usage":{"total_tokens":null}}"#),
            Method::GET,
            1_000,
        ),
        (Whole::new("text/plain", USAGE), Method::GET, 1_000),
        (Whole::encoded("br", USAGE), Method::GET, 1_000),
        (Whole::encoded("gzip", bomb), Method::GET, 1_000),
        (Whole::with_status(json(USAGE), 206), Method::GET, 1_000),
        // Nothing that is a success with a body.
        (Whole::with_status(json("{}"), 500), Method::GET, 10),
        (Whole::with_status(json(""), 204), Method::GET, 10),
        (Whole::with_status(json(""), 304), Method::GET, 10),
        (json(USAGE), Method::HEAD, 10),
        (Whole::new("text/plain", USAGE), Method::HEAD, 10),
    ] {
        let (name, answer) = whole;
        let upstream = answering(vec![answer]);
        let limit = LIMIT.replace("reserve: 10", "reserve: 10, missing: all");
        let yaml = configuration("store: memory\n", &limit, &upstream.url());
        let gateway = TestGateway::start(&yaml).await;
        let client = Client::new(gateway.address).knows("content-encoding");
        send(&client, method.clone(), "/0", &[]).await;
        leaves(&gateway, 1_000 - cost, &format!("{method} {name}")).await;
        gateway.stop().await;
    }
}

/// The exchange goes on, and the answer's body is read, as if the client were there.
#[tokio::test]
async fn a_client_that_leaves_before_the_answer_begins_pays_what_its_body_tells() {
    on_both_stores(async |store| {
        let release = Arc::new(tokio::sync::Semaphore::new(0));
        let held = release.clone();
        let upstream = Upstream::start(move |_| {
            let held = held.clone();
            async move {
                held.acquire().await.unwrap().forget();
                let json = Response::builder().header(header::CONTENT_TYPE, JSON);
                json.body(full(USAGE)).unwrap()
            }
        });
        let gateway = start(store, &upstream).await;
        let mut client = RawClient::connect(gateway.address).await;
        client
            .send("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        upstream.wait_for(1, LONG).await;
        drop(client);
        until("the exchange goes on alone", async || {
            sample(gateway.admin, "tidegate_abandoned_exchanges").await == 1
        })
        .await;
        release.add_permits(1);
        until("no exchange is left", async || {
            sample(gateway.admin, "tidegate_abandoned_exchanges").await == 0
        })
        .await;
        leaves(&gateway, 958, "leaving").await;
        assert_eq!(sample(gateway.admin, &told("read_on")).await, 1);
        gateway.stop().await;
    })
    .await;
}

/// By the end of the answer the reservation is paid off. What the answer tells beyond it is charged all the same.
#[tokio::test]
async fn an_answer_that_takes_longer_than_its_reservation_counts_is_charged() {
    let limit = LIMIT.replace(
        "fixed_window: { limit: 1000, window: 31d }",
        "token_bucket: { capacity: 1000, refill: 20/s }",
    );
    on_both_stores(async |store| {
        let mut written = Written::speaking(Speaks::Http1);
        let yaml = configuration(store, &limit, &written.upstream.url());
        let gateway = TestGateway::start(&yaml).await;
        let client = Client::new(gateway.address);
        let answer = client.open(get()).await;
        let (mut sender, body) = (written.body().await, answer.into_body());
        sender.send_data(CHUNK.into()).await.unwrap();
        until("it is paid off", async || {
            left(gateway.admin).await == 1_000
        })
        .await;
        let last = LAST.replace("42", "1800");
        sender.send_data(last.into()).await.unwrap();
        drop(sender);
        body.collect().await.unwrap();
        until("it is charged", async || left(gateway.admin).await == 0).await;
        let refused = Client::new(gateway.address).get("/").await;
        assert_eq!(refused.status, 429);
        // 1,790 and the 10 of the next request, of which 1,000 may be owed, at 20 a second.
        let wait = number(&refused, "retry-after").unwrap();
        assert!((30..=40).contains(&wait), "{wait} s");
        gateway.stop().await;
    })
    .await;
}

/// Whatever a client accepts: the gateway asks only for what it can read.
#[tokio::test]
async fn the_upstream_is_asked_for_what_can_be_read() {
    let upstream = answering(vec![Whole::new(JSON, USAGE).1]);
    let url = upstream.url();
    let gateway = TestGateway::start(&format!(
        "limits: {{ it: {{ {LIMIT} }} }}\nroutes:\n  \
         - {{ host: api, path: /**, upstream: \"{url}\", limits: [it] }}\n  \
         - {{ path: /**, upstream: \"{url}\" }}\n"
    ))
    .await;
    let client = Client::new(gateway.address);
    for (accepted, asked) in [
        ("br, gzip", "gzip"),
        ("br, zstd", "identity"),
        ("gzip;q=0", "identity"),
    ] {
        for (host, asked) in [("api", asked), ("other", accepted)] {
            let headers = [("host", host), ("accept-encoding", accepted)];
            assert_eq!(send(&client, Method::GET, "/0", &headers).await.status, 200);
            let arrived = upstream.requests();
            let arrived = arrived.last().unwrap().header("accept-encoding");
            assert_eq!(arrived, Some(asked), "{host}, {accepted}");
        }
    }
    gateway.stop().await;
}

/// Several limits of one route, each with a path of its own, and one that no body settles.
#[tokio::test]
async fn each_limit_reads_its_own_number() {
    on_both_stores(async |store| {
        let body = r#"{"usage":{"in":7,"out":30,"total_tokens":37}}"#;
        let upstream = answering(vec![Whole::new(JSON, body).1]);
        let url = upstream.url();
        let window = "fixed_window: { limit: 100, window: 31d }";
        let reads = |path: &str| {
            format!("{{ {window}, cost: {{ response_json: {path}, reserve: 10 }} }}")
        };
        let gateway = TestGateway::start(&format!(
            "{store}secret: the same\nlimits:\n  in: {}\n  out: {}\n  none: {}\n  \
             each: {{ {window} }}\n  places: {{ concurrency: {{ limit: 9 }} }}\n\
             routes: [{{ path: /**, upstream: \"{url}\", limits: [in, out, none, each, places] }}]\n",
            reads("usage.in"),
            reads("usage.out"),
            reads("usage.none"),
        ))
        .await;
        let client = Client::new(gateway.address);
        assert_eq!(client.get("/0").await.status, 200);
        until("all is settled", async || {
            let (_, report) = page(gateway.admin, "/clients/ip:127.0.0.1").await;
            let report: serde_json::Value = serde_json::from_str(&report).unwrap();
            let limits = report["limits"].as_array().unwrap().iter();
            let left: Vec<_> = limits.map(|it| it["remaining"].as_u64().unwrap()).collect();
            left == [93, 70, 90, 99, 9]
        })
        .await;
        gateway.stop().await;
    })
    .await;
}

/// The sample of an answer's result on the route of these tests.
fn told(result: &str) -> String {
    format!("tidegate_body_costs_total{{route=\"api\",result=\"{result}\"}}")
}

#[tokio::test]
async fn operators_see_what_bodies_told() {
    let answers = [
        Whole::new(JSON, USAGE),
        Whole::new(JSON, "{}"),
        Whole::new("text/plain", USAGE),
    ];
    let upstream = answering(answers.into_iter().map(|(_, answer)| answer).collect());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let settings = log(&file, "format: json, fields: [cost, remaining]");
    let yaml = configuration("store: memory\n", LIMIT, &upstream.url());
    let gateway = TestGateway::start(&format!("log: {{ {settings} }}\n{yaml}")).await;
    let client = Client::new(gateway.address);
    for (path, stays) in [("/0", 958), ("/1", 948), ("/2", 938)] {
        assert_eq!(client.get(path).await.status, 200);
        leaves(&gateway, stays, path).await;
    }
    for result in ["read", "missing", "unreadable"] {
        assert_eq!(sample(gateway.admin, &told(result)).await, 1, "{result}");
    }
    let answer = browser(gateway.admin).get("/status.json").await;
    let document: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
    let used = &document["clients"]["start"]["admitted"];
    assert_eq!(used["total"], 62, "{document:#}");
    gateway.stop().await;
    let lines = objects(&lines(&file));
    let told = lines.iter().map(|line| {
        let fields = [&line["cost"], &line["remaining"]];
        fields.map(|field| field.as_u64().unwrap())
    });
    assert_eq!(told.collect::<Vec<_>>(), [[42, 958], [10, 948], [10, 938]]);
}

/// A block of gzip that is stored as it is.
fn stored(is_last: bool, data: &[u8]) -> Bytes {
    let length = u16::try_from(data.len()).unwrap();
    let head = [&length.to_le_bytes()[..], &(!length).to_le_bytes()].concat();
    [&[u8::from(is_last)], &head[..], data].concat().into()
}

/// 100 MB of JSON, as much of events, as much in gzip, and a few KB that would become as much: memory stays as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_any_length_is_read_in_no_more_memory() {
    const PARTS: usize = 1_700;
    let (text, list) = ("a\\\"b ".repeat(6_000), "1,[],".repeat(6_000));
    let part = Bytes::from(format!("{{\"text\":\"{text}\",\"list\":[{list}0]}},"));
    let spaces = " ".repeat(32 << 20);
    let bomb = gzip(&format!("{spaces}{USAGE}"));
    let bomb = Bytes::from(bomb);
    let served = Arc::new(AtomicUsize::new(0));
    let counted = served.clone();
    let upstream = Upstream::start(move |request| {
        let (mut sender, body) = channel();
        let path = request.uri().path().to_owned();
        let (part, bomb, counted) = (part.clone(), bomb.clone(), counted.clone());
        let mut answer = Response::builder().header(
            "content-type",
            match &*path {
                "/events" => EVENTS,
                _ => JSON,
            },
        );
        if ["/gzip", "/bomb"].contains(&&*path) {
            answer = answer.header("content-encoding", "gzip");
        }
        tokio::spawn(async move {
            let mut send = async |data: Bytes| {
                counted.fetch_add(data.len(), Ordering::Relaxed);
                sender.send_data(data).await.unwrap();
            };
            if path == "/bomb" {
                return send(bomb).await;
            }
            let is_gzip = path == "/gzip";
            let made = |is_last, data: &Bytes| match is_gzip {
                true => stored(is_last, data),
                false => data.clone(),
            };
            if is_gzip {
                send(gzip("")[..10].to_vec().into()).await;
            }
            let start = match &*path {
                "/events" => "data: {\"x\":[",
                _ => "{\"x\":[",
            };
            send(made(false, &start.into())).await;
            for _ in 0..PARTS {
                send(made(false, &part)).await;
            }
            let end = "0],\"usage\":{\"total_tokens\":42}}\n\n";
            send(made(true, &end.into())).await;
            if is_gzip {
                send([0; 8].to_vec().into()).await;
            }
        });
        async move { answer.body(body).unwrap() }
    });
    let yaml = configuration("store: memory\n", LIMIT, &upstream.url());
    let gateway = GatewayProcess::start(&yaml).await;
    let client = Client::new(gateway.address).knows("content-encoding");
    let mut stays = 1_000;
    for (path, cost) in [("/json", 42), ("/events", 42), ("/gzip", 42), ("/bomb", 10)] {
        let before = gateway.process.rss_kb();
        let request = Request::get(path).body(empty()).unwrap();
        let (mut body, mut came) = (client.open(request).await.into_body(), 0);
        while let Some(frame) = body.frame().await {
            came += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(came, served.swap(0, Ordering::Relaxed), "{path}");
        assert!((came > 100_000_000) == (path != "/bomb"), "{path}: {came}");
        let grown = gateway.process.peak_rss_kb().saturating_sub(before);
        eprintln!("{path}: {came} bytes, {grown} KiB more");
        assert!(
            grown < 16 << 10,
            "{path}: the gateway held {grown} KiB more"
        );
        stays -= cost;
        until(&format!("{path} leaves {stays}"), async || {
            left(gateway.admin).await == stays
        })
        .await;
    }
}

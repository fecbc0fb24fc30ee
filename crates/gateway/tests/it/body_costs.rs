//! Costs that the bodies of answers tell, while they pass.

mod clients_leave;
mod operators;
mod reserved;

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
use crate::kit::{
    LONG, left, number, on_both_stores, one_limit, page_json, sample, sample_becomes, send, until,
};
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

async fn start(store: &str, upstream: &Upstream) -> TestGateway {
    TestGateway::start(&one_limit(store, LIMIT, upstream)).await
}

async fn leaves(gateway: &TestGateway, stays: u64, what: &str) {
    let is_so = async || left(gateway.admin).await == stays;
    until(&format!("{what} leaves {stays}"), is_so).await;
}

/// An answer that a server gives at once.
#[derive(Clone, Debug)]
struct Whole {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    body: Bytes,
}

impl Whole {
    fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type", content_type)],
            body: body.into(),
        }
    }

    fn json(body: &str) -> Self {
        Self::new(JSON, body.to_owned())
    }

    fn encoded(encoding: &'static str, body: impl Into<Bytes>) -> Self {
        let mut whole = Self::new(JSON, body);
        whole.headers.push(("content-encoding", encoding));
        whole
    }

    fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    fn name(&self) -> String {
        let start = String::from_utf8_lossy(&self.body[..self.body.len().min(60)]);
        format!("{} {:?} {start}", self.status, self.headers)
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
                response = response.header(name, value);
            }
            response.body(full(body)).unwrap()
        }
    })
}

fn nested(levels: usize) -> String {
    let (open, close) = ("[".repeat(levels), "]".repeat(levels));
    format!("{{\"x\":{open}{close},\"usage\":{{\"total_tokens\":42}}}}")
}

/// Several numbers of one body, each with the units for each 1. Only the sum is rounded.
#[tokio::test]
async fn numbers_cost_by_their_weights() {
    let weights = "response_json: { usage.in: 1, usage.out: 4, usage.cached: 0.1 }";
    let limit = LIMIT.replace("response_json: usage.total_tokens", weights);
    let usage = |numbers: &str| Whole::json(&format!("{{\"usage\":{{{numbers}}}}}"));
    let cases = [
        (usage(r#""in":100,"out":25,"cached":3"#), 201),
        (usage(r#""in":100,"out":25,"cached":10"#), 201),
        (usage(r#""in":100,"out":25,"cached":11"#), 202),
        (usage(r#""in":0.25,"out":0.25"#), 2),
        (usage(r#""in":0,"out":0,"cached":0"#), 0),
        // A number that is not there costs nothing, unless none is there.
        (usage(r#""out":25"#), 100),
        (usage(r#""out":"25","in":1"#), 1),
        (usage(r#""other":25"#), 10),
        (
            Whole::new(
                EVENTS,
                "data: {\"usage\":{\"in\":7}}\n\ndata: {\"usage\":{\"out\":5}}\n\n",
            ),
            27,
        ),
    ];
    let upstream = answering(cases.iter().map(|(whole, _)| whole.clone()).collect());
    on_both_stores(async |store| {
        let gateway = TestGateway::start(&one_limit(store, &limit, &upstream)).await;
        let mut stays = 1_000;
        for (at, (whole, cost)) in cases.iter().enumerate() {
            Client::new(gateway.address).get(&format!("/{at}")).await;
            stays -= cost;
            leaves(&gateway, stays, &whole.name()).await;
        }
        gateway.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_body_tells_what_its_request_has_cost() {
    let json = Whole::json;
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
        (json(USAGE).with_status(429), 42),
        (json("{}").with_status(500), 10),
        (json(USAGE).with_status(206), 10),
        (json("").with_status(204), 10),
        (json("").with_status(304), 10),
        // More than there is: all of it.
        (
            json(r#"{"usage":{"total_tokens":1234567890123456789012345678901234567890}}"#),
            1_000,
        ),
    ];
    on_both_stores(async |store| {
        let answers = cases.iter().map(|(answer, _)| answer.clone());
        let upstream = answering(answers.collect());
        let gateway = start(store, &upstream).await;
        let client = Client::new(gateway.address).knows("content-encoding");
        let mut stays: u64 = 1_000;
        for (at, (answer, cost)) in cases.iter().enumerate() {
            let name = answer.name();
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
            leaves(&gateway, stays, &name).await;
        }
        assert_eq!(client.get("/0").await.status, 429);
        gateway.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_answer_without_a_body_costs_what_was_reserved() {
    on_both_stores(async |store| {
        let upstream = answering(vec![Whole::new(JSON, USAGE)]);
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

/// A body that breaks off after the first of two numbers costs what was reserved, at least.
#[tokio::test]
async fn a_body_that_breaks_off_between_two_numbers_costs_the_reserve_at_least() {
    let mut written = Written::speaking(Speaks::Http1);
    let limit = LIMIT.replace("usage.total_tokens", "{ in: 1, out: 4 }");
    let yaml = one_limit("store: memory\n", &limit, &written.upstream);
    let gateway = TestGateway::start(&yaml).await;
    let mut stays = 1_000;
    for (part, cost) in [
        ("data: {\"in\":7}\n\n", 10),
        ("data: {\"in\":30}\n\n", 30),
        ("data: {\"in\":1,\"out\":1}\n\n", 5),
    ] {
        let client = Client::h2(gateway.address);
        let answer = client.open(get()).await;
        let (mut sender, mut body) = (written.body().await, answer.into_body());
        takes(part, &mut sender, &mut body).await;
        sender.abort("it broke".into());
        assert!(body.frame().await.unwrap().is_err());
        stays -= cost;
        leaves(&gateway, stays, part).await;
    }
    gateway.stop().await;
}

/// Whatever a client accepts: the gateway asks only for what it can read.
#[tokio::test]
async fn the_upstream_is_asked_for_what_can_be_read() {
    let upstream = answering(vec![Whole::new(JSON, USAGE)]);
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
        let upstream = answering(vec![Whole::new(JSON, body)]);
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
            let report = page_json(gateway.admin, "/clients/ip:127.0.0.1").await;
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
    format!("tidegate_body_costs_total{{route=\"/**\",result=\"{result}\"}}")
}

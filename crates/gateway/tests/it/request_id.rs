//! The request ID on answers: that of the access log, whoever answers, over HTTP/1 and HTTP/2.

use http::{Method, Request, Response};
use tidegate_testkit::{Answer, Client, RawClient, Upstream, body};

use crate::access_log::lines;
use crate::kit::{Bench, answer_to, get, on_both_stores, send};
use crate::support::{GatewayProcess, TestGateway};

/// The ID on an answer.
fn id(answer: &Answer) -> String {
    let id = answer.header("x-request-id");
    id.unwrap_or_else(|| panic!("no ID on {answer:?}"))
        .to_owned()
}

/// An upstream that gives each answer an ID of its own, and takes long under `/slow`.
fn upstream() -> Upstream {
    Upstream::start(|request| async move {
        if request.uri().path() == "/slow" {
            std::future::pending::<()>().await;
        }
        let answer = Response::builder().header("x-request-id", "the-upstreams");
        answer.body(body::full("hello")).unwrap()
    })
}

/// All ways to an answer: of the upstream, of limits, of the gateway in place of the upstream, and of the gateway before any route.
fn configuration(store: &str, upstream: &Upstream, dead: &Upstream) -> String {
    format!(
        "
{store}
clients:
  - api_key: {{ unknown: reject, keys: [{{ name: demo, hash: \"sha256:c48a01f49fd0f2cc404bc3cbbc80e91457a3d41bb429a695243de4c61794155c\" }}] }}
  - ip: {{}}
limits: {{ one: {{ fixed_window: {{ limit: 1, window: 31d }}, per: [header:X-Run] }} }}
routes:
  - {{ path: /limited, upstream: \"{0}\", limits: [one] }}
  - {{ path: /get, methods: [GET], upstream: \"{0}\" }}
  - {{ path: /dead, upstream: \"{1}\" }}
  - {{ path: /slow, upstream: \"{0}\", timeouts: {{ upstream: 100ms }} }}
  - {{ path: /small, upstream: \"{0}\", max_body: 1 }}
  - {{ path: /tls, upstream: \"{0}\", redirect: https }}
  - {{ path: /page, upstream: \"{0}\", cors: {{ origins: [https://app.example.com] }} }}
",
        upstream.url(),
        dead.url(),
    )
}

/// One request for each way, with the status of its answer.
async fn all(client: &Client, run: &str) -> Vec<(u16, String)> {
    let preflight = [
        ("origin", "https://app.example.com"),
        ("access-control-request-method", "GET"),
    ];
    let asked = [
        (Method::GET, "/limited", &[("x-run", run)][..]),
        (Method::GET, "/limited", &[("x-run", run)]),
        (Method::GET, "/get", &[]),
        (Method::POST, "/get", &[]),
        (Method::HEAD, "/get", &[]),
        (Method::GET, "/nowhere", &[]),
        (Method::GET, "/a%2Fb", &[]),
        (Method::GET, "/get", &[("x-api-key", "unknown")]),
        (Method::GET, "/dead", &[]),
        (Method::GET, "/slow", &[]),
        (Method::GET, "/tls", &[]),
        (Method::OPTIONS, "/page", &preflight),
    ];
    let mut answers = Vec::new();
    for (method, target, headers) in asked {
        answers.push(send(client, method, target, headers).await);
    }
    let large = Request::post("/small").body(body::full("large"));
    answers.push(client.request(large.unwrap()).await);
    let answers = answers.iter();
    answers
        .map(|answer| (answer.status.as_u16(), id(answer)))
        .collect()
}

fn knowing(client: Client) -> Client {
    let names = [
        "location",
        "vary",
        "www-authenticate",
        "access-control-allow-origin",
        "access-control-allow-methods",
    ];
    names.into_iter().fold(client, Client::knows)
}

#[tokio::test]
async fn every_answer_carries_the_id_of_its_line() {
    on_both_stores(async |store| {
        let (upstream, dead) = (upstream(), Upstream::ok());
        dead.stop().await;
        let gateway = GatewayProcess::start(&configuration(store, &upstream, &dead)).await;
        let mut answers = all(&knowing(Client::new(gateway.address)), "http1").await;
        answers.extend(all(&knowing(Client::h2(gateway.address)), "http2").await);
        // A head that the protocol refuses.
        let mut raw = RawClient::connect(gateway.address).await;
        let refused = answer_to(&mut raw, "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n").await;
        let refused_id = refused.header("x-request-id").unwrap().to_owned();
        answers.push((refused.status(), refused_id));
        let lines = lines(&gateway, answers.len()).await;
        let mut logged: Vec<(u16, String)> = lines
            .iter()
            .map(|line| {
                let status = line["status"].as_u64().unwrap();
                let id = line["id"].as_str().unwrap().to_owned();
                (status.try_into().unwrap(), id)
            })
            .collect();
        // The line of an answer over HTTP/2 may come after the line of the next answer. The IDs count the requests.
        logged.sort_by(|(_, one), (_, other)| one.cmp(other));
        assert_eq!(answers, logged);
        let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
        let each = [
            200, 429, 200, 405, 200, 404, 400, 401, 502, 504, 308, 204, 413,
        ];
        assert_eq!(statuses, [&each[..], &each, &[400]].concat());
    })
    .await;
}

#[tokio::test]
async fn a_trusted_proxy_gets_its_own_id_back_and_nobody_else_does() {
    let yaml = "trusted_proxies: [127.0.0.1]\nroutes: [{ path: /**, upstream: UPSTREAM }]";
    let bench = Bench::start(yaml).await;
    let stranger = Client::new(bench.gateway.address).from_ip([127, 0, 0, 2]);
    let chosen = [("x-request-id", "of-the-caller")];
    let answer = send(&bench.client, Method::GET, "/", &chosen).await;
    assert_eq!(id(&answer), "of-the-caller");
    let answer = send(&stranger, Method::GET, "/", &chosen).await;
    let made = id(&answer);
    assert_eq!(made.len(), 32);
    let arrived = bench.upstream.requests();
    assert_eq!(arrived[0].header("x-request-id"), Some("of-the-caller"));
    assert_eq!(arrived[1].header("x-request-id"), Some(&*made));
    bench.stop().await;
}

#[tokio::test]
async fn a_grpc_call_that_fails_has_it() {
    let upstream = Upstream::ok();
    upstream.stop().await;
    let yaml = format!(
        "routes: [{{ path: /**, upstream: \"{}\" }}]",
        upstream.url()
    );
    let gateway = TestGateway::start(&yaml).await;
    let names = ["grpc-status", "grpc-message"];
    let client = Client::h2(gateway.address);
    let client = names.into_iter().fold(client, Client::knows);
    let call = Request::post("/shop.Cart/Add").header("content-type", "application/grpc");
    let answer = client.request(call.body(body::empty()).unwrap()).await;
    assert_eq!(answer.header("grpc-status"), Some("14"));
    assert_eq!(id(&answer).len(), 32);
    gateway.stop().await;
}

/// Off: the upstream's own ID passes, and the gateway's answers have none. The upstream is told the ID as ever.
#[tokio::test]
async fn off_it_is_on_no_answer() {
    let upstream = upstream();
    let yaml = |on: bool| {
        format!(
            "request_id_in_answers: {on}\nroutes: [{{ path: /get, upstream: \"{}\" }}]",
            upstream.url()
        )
    };
    let gateway = TestGateway::start(&yaml(false)).await;
    let client = Client::new(gateway.address);
    assert_eq!(id(&client.get("/get").await), "the-upstreams");
    assert_eq!(client.get("/nowhere").await.header("x-request-id"), None);
    assert!(upstream.requests()[0].header("x-request-id").is_some());
    // A reload turns it on, also on connections that are open.
    gateway.reload(&yaml(true)).await;
    assert_eq!(get(&client, "/get", &[]).await, 200);
    assert_ne!(id(&client.get("/get").await), "the-upstreams");
    assert_eq!(id(&client.get("/nowhere").await).len(), 32);
    gateway.stop().await;
}

//! gRPC: calls that pass, and what is said of those that do not.

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tidegate_testkit::{Answer, Client, Port, RawUpstream, Speaks, Upstream, When, body};
use tokio::time::timeout;

use crate::bench::{ALL, LONG, gateway};
use crate::support::TestGateway;

fn client(gateway: &TestGateway) -> Client {
    let names = [
        "grpc-status",
        "grpc-message",
        "grpc-retry-pushback-ms",
        "www-authenticate",
    ];
    let client = Client::h2(gateway.address);
    names.into_iter().fold(client, Client::knows)
}

fn call(body: body::BoxBody) -> Request<body::BoxBody> {
    let request = Request::post("/shop.Cart/Add")
        .header("content-type", "application/grpc+proto")
        .header("te", "trailers");
    request.body(body).unwrap()
}

/// Makes a call that does not go on: always 200 and nothing but a head.
async fn refused(gateway: &TestGateway) -> (String, String, Answer) {
    let client = client(gateway);
    let answer = client.open(call(body::full("\0\0\0\0\0"))).await;
    assert!(answer.body().is_end_stream(), "more comes after the head");
    let answer = client.request(call(body::full("\0\0\0\0\0"))).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, ""));
    assert_eq!(
        answer.header("content-type"),
        Some("application/grpc+proto")
    );
    assert_eq!(answer.header("content-length"), None);
    let told = |name| answer.header(name).unwrap_or_default().to_owned();
    (told("grpc-status"), told("grpc-message"), answer)
}

#[tokio::test]
async fn a_call_beyond_a_limit_exhausts_a_resource_and_may_come_back() {
    let upstream = Upstream::echo_speaking(Speaks::Http2);
    let yaml = "
limits: { one: { fixed_window: { limit: 1, window: 31d } } }
routes: [{ path: /**, upstream: UPSTREAM, limits: [one] }]
";
    let gateway = gateway(upstream.url(), yaml).await;
    assert_eq!(
        client(&gateway).request(call(body::empty())).await.status,
        200
    );
    let (status, message, answer) = refused(&gateway).await;
    assert_eq!(status, "8");
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    let expected = format!("Too many requests; the next one is admitted in {seconds} s.");
    assert_eq!(message, expected);
    let pushback = (seconds * 1_000).to_string();
    assert_eq!(answer.header("grpc-retry-pushback-ms"), Some(&*pushback));
    assert_eq!(answer.header("x-ratelimit-limit"), Some("1"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(upstream.count(), 1);
    // Who calls otherwise is told otherwise.
    assert_eq!(Client::h2(gateway.address).get("/").await.status, 429);
}

#[tokio::test]
async fn an_upstream_in_trouble_is_unavailable_or_late() {
    let nobody = Port::reserve();
    let gateway_of_nobody = gateway(format!("http://{}", nobody.addr()), ALL).await;
    assert_eq!(refused(&gateway_of_nobody).await.0, "14");
    let silent = RawUpstream::start(When::Head, |_| vec![tidegate_testkit::Action::Hang]);
    let yaml = format!("timeouts: {{ upstream: 200ms }}\n{ALL}");
    let gateway = gateway(silent.url(), &yaml).await;
    let (status, message, _) = refused(&gateway).await;
    assert_eq!(status, "4");
    assert_eq!(message, "The API did not answer in time.");
}

#[tokio::test]
async fn strangers_unknown_methods_and_lost_stores_have_their_codes() {
    let upstream = Upstream::ok();
    let yaml = "
store: { redis: { url: \"redis://127.0.0.1:1\", on_failure: closed } }
clients:
  - api_key:
      unknown: reject
      keys: [{ name: demo, hash: \"sha256:c48a01f49fd0f2cc404bc3cbbc80e91457a3d41bb429a695243de4c61794155c\" }]
  - ip: {}
limits: { one: { fixed_window: { limit: 1, window: 31d } } }
routes:
  - { path: /shop.Cart/Add, upstream: UPSTREAM, limits: [one] }
  - { path: /shop.Cart/Free, upstream: UPSTREAM }
";
    let gateway = gateway(upstream.url(), yaml).await;
    let (status, _, answer) = refused(&gateway).await;
    assert_eq!(
        (&*status, answer.header("grpc-retry-pushback-ms")),
        ("14", Some("1000"))
    );
    let client = client(&gateway);
    let code = async |path: &str, key: Option<&str>| {
        let mut request = call(body::empty());
        *request.uri_mut() = path.parse().unwrap();
        if let Some(key) = key {
            request
                .headers_mut()
                .insert("x-api-key", key.parse().unwrap());
        }
        let answer = client.request(request).await;
        answer.header("grpc-status").map(str::to_owned)
    };
    assert_eq!(
        code("/shop.Cart/Free", Some("guessed")).await.as_deref(),
        Some("16")
    );
    assert_eq!(code("/shop.Cart/Remove", None).await.as_deref(), Some("12"));
    assert_eq!(code("/shop.Cart/Free", None).await, None);
}

/// What an upstream says is not put in other words.
#[tokio::test]
async fn trailers_and_statuses_of_upstreams_pass() {
    let upstream = Upstream::speaking(Speaks::Http2, |request: Request<_>| async move {
        let path = request.uri().path().to_owned();
        match path.as_str() {
            // Nothing but a head, which holds the trailers.
            "/only" => Response::builder()
                .header("content-type", "application/grpc")
                .header("grpc-status", "5")
                .body(body::empty())
                .unwrap(),
            "/busy" => Response::builder().status(429).body(body::empty()).unwrap(),
            _ => {
                let (mut sender, body) = body::channel();
                let mut incoming = request.into_body();
                tokio::spawn(async move {
                    while let Some(Ok(frame)) = incoming.frame().await {
                        if let Ok(data) = frame.into_data() {
                            sender.send_data(data).await.unwrap();
                        }
                    }
                    let status = ("grpc-status".parse().unwrap(), "0".parse().unwrap());
                    sender
                        .send_trailers(HeaderMap::from_iter([status]))
                        .await
                        .unwrap();
                });
                Response::new(body)
            }
        }
    });
    let gateway = gateway(upstream.url(), ALL).await;
    let client = client(&gateway);
    let at = |path: &str, body| {
        let mut request = call(body);
        *request.uri_mut() = path.parse().unwrap();
        request
    };
    let only = client.open(at("/only", body::empty())).await;
    assert!(only.body().is_end_stream());
    assert_eq!(
        (only.status().as_u16(), &only.headers()["grpc-status"]),
        (200, &"5".parse().unwrap())
    );
    assert_eq!(client.request(at("/busy", body::empty())).await.status, 429);

    // Both sides talk at once, for as long as they like.
    let (mut sender, streamed) = body::channel();
    let mut answer = client.open(at("/chat", streamed)).await;
    for part in ["one", "two", "three"] {
        sender.send_data(part.into()).await.unwrap();
        let frame = timeout(LONG, answer.body_mut().frame()).await.unwrap();
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), part);
    }
    drop(sender);
    let trailers = answer.into_body().collect().await.unwrap();
    assert_eq!(trailers.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(upstream.requests()[2].header("te"), Some("trailers"));
}

/// A content type alone makes no call of gRPC: that takes a POST over HTTP/2.
#[tokio::test]
async fn what_is_no_call_is_told_so_in_plain_http() {
    let upstream = Upstream::ok();
    let nobody = Port::reserve();
    let yaml = format!(
        "
limits: {{ one: {{ fixed_window: {{ limit: 1, window: 31d }} }} }}
routes:
  - {{ path: /one, upstream: UPSTREAM, limits: [one] }}
  - {{ path: /dead, upstream: \"http://{}\" }}
",
        nobody.addr()
    );
    let gateway = gateway(upstream.url(), &yaml).await;
    let plain = Client::new(gateway.address);
    assert_eq!(plain.get("/one").await.status, 200);
    let http2 = Client::h2(gateway.address);
    for (path, status) in [("/one", 429), ("/none", 404), ("/dead", 502)] {
        for kind in ["application/grpc", "application/grpc-web+proto"] {
            let ask = |method: http::Method| {
                let request = Request::builder().method(method).uri(path);
                let request = request.header("content-type", kind);
                request.body(body::full("\0\0\0\0\0")).unwrap()
            };
            for answer in [
                plain.request(ask(http::Method::POST)).await,
                plain.request(ask(http::Method::GET)).await,
                http2.request(ask(http::Method::PUT)).await,
            ] {
                assert_eq!(answer.status, status, "{path} {kind}");
                let json = Some("application/problem+json");
                assert_eq!(answer.header("content-type"), json);
            }
        }
    }
}

/// What a refusal looks like to others is nothing to a gRPC client.
#[tokio::test]
async fn a_call_beyond_a_limit_exhausts_a_resource_whatever_status_others_get() {
    let upstream = Upstream::echo_speaking(Speaks::Http2);
    for status in [400, 403, 429, 503] {
        let yaml = format!(
            "
limits: {{ one: {{ fixed_window: {{ limit: 1, window: 31d }} }} }}
reject: {{ status: {status}, body: slow down }}
routes: [{{ path: /**, upstream: UPSTREAM, limits: [one] }}]
"
        );
        let gateway = gateway(upstream.url(), &yaml).await;
        let first = client(&gateway).request(call(body::empty())).await;
        // An echo has no trailers, so its call fails; the limit has admitted it.
        assert_eq!(first.header("grpc-status"), Some("14"));
        let (code, message, answer) = refused(&gateway).await;
        assert_eq!(code, "8", "{status}");
        assert_eq!(message, "Too Many Requests");
        assert!(answer.header("grpc-retry-pushback-ms").is_some());
        assert_eq!(Client::h2(gateway.address).get("/").await.status, status);
    }
}

/// Nor is what is answered where there is no route.
#[tokio::test]
async fn a_call_that_no_route_takes_is_unimplemented_whatever_status_others_get() {
    for status in [400, 403, 404] {
        let yaml = format!(
            "
unmatched: {{ status: {status}, body: nothing }}
routes: [{{ path: /other, upstream: UPSTREAM }}]
"
        );
        let gateway = gateway("http://127.0.0.1:1", &yaml).await;
        assert_eq!(refused(&gateway).await.0, "12", "{status}");
        assert_eq!(Client::h2(gateway.address).get("/").await.status, status);
    }
}

use tidegate_testkit::{Client, RawClient};

use crate::callers::{TRUST, ask, at};
use crate::kit::{Bench, answer_to};

/// The headers that some upstream takes for the target of a request.
const TARGETS: [&str; 15] = [
    "x-original-url",
    "x-original-uri",
    "x-original-path",
    "x-original-host",
    "x-original-method",
    "x-rewrite-url",
    "x-rewrite-uri",
    "x-forwarded-uri",
    "x-forwarded-path",
    "x-forwarded-prefix",
    "x-forwarded-method",
    "x-envoy-original-path",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];

#[tokio::test]
async fn a_header_that_upstreams_take_for_the_target_comes_from_trusted_peers_only() {
    let bench = Bench::start(&format!(
        "{TRUST}routes: [{{ path: /**, upstream: UPSTREAM }}]\n"
    ))
    .await;
    let (proxy, stranger) = (at(&bench, 1), at(&bench, 2));
    for name in TARGETS {
        for spelling in [
            name.to_owned(),
            name.replace('-', "_"),
            name.replace('-', "."),
        ] {
            for (client, is_trusted) in [(&stranger, false), (&proxy, true)] {
                let headers = [(spelling.as_str(), "/admin"), ("x-mine", "kept")];
                assert_eq!(ask(client, "/", &headers).await.status, 200);
                let seen = bench.upstream.requests().pop().unwrap();
                let passes = is_trusted && spelling == name;
                let expected = passes.then_some("/admin");
                assert_eq!(seen.header(&spelling), expected, "{spelling}");
                assert_eq!(seen.header("x-mine"), Some("kept"));
            }
        }
    }
    bench.stop().await;
}

/// A route may still tell its upstream of a prefix.
#[tokio::test]
async fn a_route_can_set_a_header_that_clients_cannot() {
    let bench = Bench::start(
        "
routes:
  - path: /api/**
    upstream: UPSTREAM
    strip_prefix: /api
    request_headers: { set: { X-Forwarded-Prefix: /api } }
",
    )
    .await;
    let headers = [("x-forwarded-prefix", "/other")];
    assert_eq!(ask(&at(&bench, 2), "/api/a", &headers).await.status, 200);
    let seen = bench.upstream.requests().pop().unwrap();
    assert_eq!(seen.header("x-forwarded-prefix"), Some("/api"));
    bench.stop().await;
}

/// The statuses of targets that no client library would send, over HTTP/1 and, as they are, over HTTP/2.
async fn statuses(bench: &Bench, target: &str) -> [u16; 2] {
    let mut client = RawClient::connect(bench.gateway.address).await;
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let http1 = answer_to(&mut client, &request).await.status();
    let http2 = Client::h2(bench.gateway.address).get(target).await.status;
    [http1, http2.as_u16()]
}

#[tokio::test]
async fn no_dot_segment_hides_behind_an_encoded_slash() {
    let bench = Bench::start(
        "
limits: { login: { fixed_window: { limit: 1, window: 31d } } }
routes:
  - { path: /api/login, upstream: UPSTREAM, limits: [login] }
  - { path: /files/**, upstream: UPSTREAM, encoded_slashes: keep }
  - { path: /plain/**, upstream: UPSTREAM }
",
    )
    .await;
    for hidden in [
        "..%2Fapi%2Flogin",
        "..%2fapi%2flogin",
        "..%5Capi%5Clogin",
        "..%5capi",
        "%2e%2e%2fapi",
        "%2E.%2Fapi",
        ".%2Fapi",
        "a%2F..%2F..%2Fapi",
        "a%2F..",
        "a%5C%2e%2E",
        "%2F..",
        "%5c..%5c..",
        "a/..%2f..%2fapi",
        "a%2F..;x%2Fapi",
        "a%2F..%3Bx%2Fapi",
        "..%3B/api",
        "..%3b%2Fapi",
        "..%252Fapi",
        "..%252fapi",
        "%252e%252e%252fapi",
        "%252e%252e/api",
        "..%25252Fapi",
        "%25252e%25252E%25252fapi",
        "..%255capi",
        "a%2F%252e%252e%2Fapi",
    ] {
        assert_eq!(
            statuses(&bench, &format!("/files/{hidden}")).await,
            [400; 2],
            "{hidden}"
        );
    }
    // Nobody decodes twice what it does not decode once, but some do so with everything.
    for hidden in ["%252e%252e/api", "..%252Fapi", "..%255Capi"] {
        assert_eq!(
            statuses(&bench, &format!("/plain/{hidden}")).await,
            [400; 2],
            "{hidden}"
        );
    }
    assert_eq!(bench.upstream.count(), 0);
    for (kept, target) in [
        ("a%2Fb", "a%2Fb"),
        ("a%2fb%5cc", "a%2Fb%5Cc"),
        ("..a%2F.b..%2F...", "..a%2F.b..%2F..."),
        ("a..%2Fb", "a..%2Fb"),
        ("%2F", "%2F"),
        ("a%2Fb/../c", "c"),
        ("50%25", "50%25"),
        (
            "http%253A%252F%252Fexample.com",
            "http%253A%252F%252Fexample.com",
        ),
        ("v1%252e2", "v1%252e2"),
    ] {
        assert_eq!(
            statuses(&bench, &format!("/files/{kept}")).await,
            [200; 2],
            "{kept}"
        );
        let seen = bench.upstream.requests().pop().unwrap();
        assert_eq!(seen.target, format!("/files/{target}"));
    }
    bench.stop().await;
}

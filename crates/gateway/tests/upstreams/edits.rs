//! What a route changes on the way.

use http::{Method, Request};
use tidegate_testkit::{Client, Speaks, Upstream, body};

use crate::support::TestGateway;

/// A gateway with one route, at `path`, to this server.
async fn gateway(server: &Upstream, path: &str, route: &str) -> TestGateway {
    written(&format!(
        "routes: [{{ path: \"{path}\", upstream: \"{}\", {route} }}]",
        server.url()
    ))
    .await
}

async fn written(yaml: &str) -> TestGateway {
    TestGateway::start(&format!("log: {{ access: false }}\n{yaml}\n")).await
}

#[tokio::test]
async fn headers_are_set_and_removed_both_ways() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let server = Upstream::speaking(speaks, |_| async {
            let answer = http::Response::builder();
            let answer = answer
                .header("x-powered-by", "magic")
                .header("server", "old");
            answer.body(body::full("answer")).unwrap()
        });
        let edits = "request_headers: { set: { Authorization: Bearer hunter2, X-Kind: new }, \
                     remove: [X-API-Key, X-Not-There] }, \
                     response_headers: { set: { Server: tidegate, X-Frame-Options: DENY }, remove: [X-Powered-By] }";
        let gateway = gateway(&server, "/**", edits).await;
        // The client fails on headers that it does not know.
        let client = Client::new(gateway.address)
            .knows("server")
            .knows("x-frame-options");
        let request = Request::get("/")
            .header("x-api-key", "k")
            .header("x-kind", "old")
            .header("x-kind", "older");
        let request = request
            .header("x-stays", "there")
            .body(body::empty())
            .unwrap();
        let answer = client.request(request).await;
        assert_eq!(answer.header("server"), Some("tidegate"));
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        let arrived = &server.requests()[0];
        let header = |name| arrived.header(name);
        assert_eq!(header("authorization"), Some("Bearer hunter2"));
        assert_eq!((header("x-kind"), header("x-api-key")), (Some("new"), None));
        assert_eq!(header("x-stays"), Some("there"));
    }
}

/// The client is named before its header is removed.
#[tokio::test]
async fn what_is_removed_still_names_the_client() {
    let server = Upstream::ok();
    let yaml = format!(
        "clients: [{{ api_key: {{ unknown: accept }} }}, {{ ip: {{}} }}]\n\
         limits:\n  one: {{ fixed_window: {{ limit: 1, window: 1d }} }}\n  \
         wide: {{ fixed_window: {{ limit: 100, window: 1d }}, per: [ip] }}\n\
         routes: [{{ path: /**, upstream: \"{}\", limits: [one, wide], request_headers: {{ remove: [X-API-Key] }} }}]",
        server.url()
    );
    let gateway = written(&yaml).await;
    let client = Client::new(gateway.address);
    for (key, status) in [("a", 200), ("b", 200), ("a", 429)] {
        let request = Request::get("/")
            .header("x-api-key", key)
            .body(body::empty())
            .unwrap();
        assert_eq!(client.request(request).await.status, status, "{key}");
    }
    assert!(
        server
            .requests()
            .iter()
            .all(|arrived| arrived.header("x-api-key").is_none())
    );
}

#[tokio::test]
async fn a_prefix_is_stripped_however_it_is_spelled() {
    let server = Upstream::ok();
    let gateway = gateway(
        &server,
        "/api/{version}/**",
        "strip_prefix: \"/api/{version}\"",
    )
    .await;
    let client = Client::new(gateway.address);
    for (sent, expected) in [
        ("/api/v1/rides/7?x=/api/v1", "/rides/7?x=/api/v1"),
        ("/api/v1/rides/", "/rides/"),
        ("/api/v1/", "/"),
        ("/api/v1", "/"),
        ("/api/v1?q", "/?q"),
        ("/ap%69/v1/rides", "/rides"),
        ("/api;a=b/v1;c/rides", "/rides"),
        ("//api/./v1//api/v1", "/api/v1"),
    ] {
        assert_eq!(client.get(sent).await.status, 200);
        assert_eq!(server.requests().last().unwrap().target, expected, "{sent}");
    }
}

/// Frameworks make links of it. A client has no say in it, and a proxy in front may have stripped more.
#[tokio::test]
async fn the_upstream_is_told_the_prefix_that_it_does_not_get() {
    let server = Upstream::ok();
    let yaml = format!(
        "trusted_proxies: [127.0.0.2]\n\
         routes:\n\
         - {{ path: \"/api/{{version}}/**\", upstream: \"{0}\", strip_prefix: \"/api/{{version}}\" }}\n\
         - {{ path: /**, upstream: \"{0}\" }}\n",
        server.url()
    );
    let gateway = written(&yaml).await;
    let (client, proxy) = (
        Client::new(gateway.address),
        Client::new(gateway.address).from_ip([127, 0, 0, 2]),
    );
    for (client, path, sent, expected) in [
        (&client, "/api/v1/rides", None, Some("/api/v1")),
        (&client, "/ap%69//v1", None, Some("/api/v1")),
        (&client, "/api/v1/rides", Some("/evil"), Some("/api/v1")),
        (&client, "/other", Some("/evil"), None),
        (&proxy, "/api/v1/rides", None, Some("/api/v1")),
        (&proxy, "/api/v1/rides", Some("/shop"), Some("/shop/api/v1")),
        (
            &proxy,
            "/api/v1/rides",
            Some("/shop/"),
            Some("/shop/api/v1"),
        ),
        (&proxy, "/other", Some("/shop"), Some("/shop")),
    ] {
        let request = sent
            .into_iter()
            .fold(Request::get(path), |request, prefix| {
                request.header("x-forwarded-prefix", prefix)
            });
        let answer = client.request(request.body(body::empty()).unwrap()).await;
        assert_eq!(answer.status, 200);
        let arrived = server.requests().pop().unwrap();
        assert_eq!(
            arrived.header("x-forwarded-prefix"),
            expected,
            "{path} {sent:?}"
        );
    }
}

/// HSTS, for one, must be on every answer.
#[tokio::test]
async fn answers_of_the_gateway_itself_have_the_headers_of_their_route() {
    let server = Upstream::ok();
    let yaml = format!(
        "limits: {{ one: {{ fixed_window: {{ limit: 1, window: 1d }} }} }}\n\
         response_headers: {{ set: {{ Strict-Transport-Security: max-age=1, Cache-Control: max-age=60 }} }}\n\
         routes:\n\
         - {{ path: /file, upstream: \"{url}\", limits: [one] }}\n\
         - {{ path: /post, methods: [POST], upstream: \"{url}\", max_body: 3 }}\n\
         - {{ path: /tls, upstream: \"{url}\", redirect: https }}\n\
         - {{ path: /dead, upstream: \"http://127.0.0.1:1\" }}\n\
         - {{ path: /own, upstream: \"http://127.0.0.1:1\", \
              response_headers: {{ set: {{ Strict-Transport-Security: max-age=2, Content-Type: text/css }} }} }}\n\
         - {{ path: /none, upstream: \"http://127.0.0.1:1\", response_headers: {{ remove: [X-Other] }} }}\n",
        url = server.url()
    );
    let gateway = written(&yaml).await;
    let knowing = |client: Client| {
        client
            .knows("strict-transport-security")
            .knows("location")
            .knows("cache-control")
            .knows("allow")
    };
    let http1 = knowing(Client::new(gateway.address));
    let http2 = knowing(Client::h2(gateway.address));
    let admitted = http1.get("/file").await;
    assert_eq!(admitted.status, 200);
    assert_eq!(admitted.header("cache-control"), Some("max-age=60"));
    for client in [http1, http2] {
        for (method, path, status, expected) in [
            (Method::GET, "/file", 429, Some("max-age=1")),
            (Method::GET, "/nowhere", 404, Some("max-age=1")),
            (Method::GET, "/post", 405, Some("max-age=1")),
            (Method::POST, "/post", 413, Some("max-age=1")),
            (Method::GET, "/tls", 308, Some("max-age=1")),
            (Method::GET, "/dead", 502, Some("max-age=1")),
            (Method::GET, "/a%2Fb", 400, Some("max-age=1")),
            (Method::GET, "/own", 502, Some("max-age=2")),
            (Method::GET, "/none", 502, None),
        ] {
            let request = Request::builder().method(method).uri(path);
            let answer = client
                .request(request.body(body::full("long")).unwrap())
                .await;
            assert_eq!(answer.status, status, "{path}");
            assert_eq!(
                answer.header("strict-transport-security"),
                expected,
                "{path}"
            );
            // What describes the upstream's answers does not describe these.
            assert_ne!(answer.header("cache-control"), Some("max-age=60"), "{path}");
            assert_ne!(answer.header("content-type"), Some("text/css"), "{path}");
        }
    }
}

#[tokio::test]
async fn the_upstream_gets_the_clients_host_or_its_own_or_another() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let server = Upstream::ok_speaking(speaks);
        let own = server.addr().to_string();
        for (route, expected) in [
            ("", "api.example.com"),
            ("upstream_host: keep", "api.example.com"),
            ("upstream_host: upstream", &*own),
            ("upstream_host: \"api.internal:81\"", "api.internal:81"),
        ] {
            let gateway = gateway(&server, "/**", route).await;
            let client = Client::new(gateway.address);
            for _ in 0..2 {
                let request = Request::get("/").header("host", "api.example.com");
                assert_eq!(
                    client
                        .request(request.body(body::empty()).unwrap())
                        .await
                        .status,
                    200
                );
                let arrived = server.requests().pop().unwrap();
                assert_eq!(arrived.header("host"), Some(expected), "{route}");
                assert_eq!(arrived.header("x-forwarded-host"), Some("api.example.com"));
            }
        }
    }
}

#[tokio::test]
async fn requests_without_tls_are_sent_to_it() {
    let server = Upstream::ok();
    let limited = |redirect: &str| {
        format!(
            "trusted_proxies: [127.0.0.2]\n\
             limits: {{ two: {{ fixed_window: {{ limit: 2, window: 1d }} }} }}\n\
             routes: [{{ path: /**, upstream: \"{}\", limits: [two], redirect: \"{redirect}\" }}]",
            server.url()
        )
    };
    for (redirect, expected) in [
        ("https", "https://api.example.com/a/b?c=d"),
        ("https:8443", "https://api.example.com:8443/a/b?c=d"),
    ] {
        let gateway = written(&limited(redirect)).await;
        let client = Client::new(gateway.address).knows("location");
        for status in [308, 308, 429] {
            // What anybody else says of a proxy before them does not count.
            let request = Request::post("/a/./b?c=d").header("host", "api.example.com:8080");
            let request = request.header("x-forwarded-proto", "https");
            let answer = client.request(request.body(body::full("x")).unwrap()).await;
            assert_eq!(answer.status, status);
            if status == 308 {
                assert_eq!(answer.header("location"), Some(expected));
            }
        }
        assert_eq!(server.count(), 0);
    }
    let gateway = written(&limited("https")).await;
    let proxy = Client::new(gateway.address)
        .from_ip([127, 0, 0, 2])
        .knows("location");
    let request = |proto| {
        Request::get("/")
            .header("x-forwarded-proto", proto)
            .body(body::empty())
            .unwrap()
    };
    assert_eq!(proxy.request(request("https")).await.status, 200);
    assert_eq!(proxy.request(request("http")).await.status, 308);
}

#[tokio::test]
async fn there_is_an_answer_where_no_route_is() {
    let server = Upstream::ok();
    let yaml = |unmatched: &str| {
        format!(
            "limits: {{ two: {{ fixed_window: {{ limit: 2, window: 1d }}, per: [ip] }} }}\nalways: [two]\n\
             unmatched: {unmatched}\n\
             routes: [{{ path: /a, methods: [GET], upstream: \"{}\" }}]",
            server.url()
        )
    };
    let gateway = written(&yaml(
        "{ status: 410, content_type: text/html, body: <b>gone</b> }",
    ))
    .await;
    let client = Client::new(gateway.address);
    let answer = client.get("/b").await;
    assert_eq!(
        (answer.status.as_u16(), answer.text()),
        (410, "<b>gone</b>")
    );
    assert_eq!(answer.header("content-type"), Some("text/html"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("1"));
    // Another method is another matter, and a limit comes first.
    assert_eq!(client.post("/a", "").await.status, 405);
    assert_eq!(client.get("/b").await.status, 429);
    let gateway = written(&yaml("{ body: nothing here }")).await;
    let answer = Client::new(gateway.address).get("/b").await;
    assert_eq!(
        (answer.status.as_u16(), answer.text()),
        (404, "nothing here")
    );
}

/// Without `cors` they are the upstream's to answer, and requests like any other.
#[tokio::test]
async fn preflights_are_limited() {
    let server = Upstream::ok();
    let yaml = format!(
        "limits: {{ two: {{ fixed_window: {{ limit: 2, window: 1d }} }} }}\n\
         routes: [{{ path: /**, upstream: \"{}\", limits: [two] }}]",
        server.url()
    );
    let gateway = written(&yaml).await;
    let client = Client::new(gateway.address);
    for status in [200, 200, 429] {
        let request = Request::builder().method(Method::OPTIONS).uri("/");
        let request = request.header("origin", "https://app.example.com");
        let request = request.header("access-control-request-method", "PUT");
        let answer = client.request(request.body(body::empty()).unwrap()).await;
        assert_eq!(answer.status, status);
    }
    assert_eq!(server.count(), 2);
}

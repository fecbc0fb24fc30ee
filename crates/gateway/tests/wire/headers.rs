//! Headers at the border: what belongs to one connection stays there, and who vouches for what.

use tidegate_testkit::{Message, RawClient, RawUpstream};

use crate::lab::{ALL, Lab, answer_to};

/// Believes 127.0.0.1 and what stands in for a proxy in front of it, but not 127.0.0.2. A user is named by a header.
const TRUSTING: &str = "
trusted_proxies: [127.0.0.1/32, 10.0.0.0/8]
clients: [{ user_id: { header: X-User-Id } }, { ip: {} }]
";

const STRANGER: [u8; 4] = [127, 0, 0, 2];
const TRUSTED: [u8; 4] = [127, 0, 0, 1];

/// Asks from an address with these headers; the answer, and the request that reached the upstream.
async fn ask(lab: &Lab, from: [u8; 4], headers: &str) -> (Message, Message) {
    let mut client = RawClient::connect_from(from, lab.gateway.address).await;
    let answer = answer_to(
        &mut client,
        format!("GET / HTTP/1.1\r\nHost: api.example.com:80\r\n{headers}\r\n"),
    )
    .await;
    (answer, lab.upstream.requests().pop().unwrap())
}

async fn trusting() -> Lab {
    Lab::new(&format!("{TRUSTING}{ALL}")).await
}

#[tokio::test]
async fn headers_of_one_connection_are_not_forwarded_to_the_upstream() {
    let lab = Lab::new(ALL).await;
    let headers = "Connection: keep-alive, X-Mine\r\nKeep-Alive: timeout=5\r\nX-Mine: m\r\n\
        Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nProxy-Authenticate: Basic\r\n\
        TE: gzip\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\nExpect: 100-continue\r\nX-Kept: k\r\n";
    let (_, request) = ask(&lab, STRANGER, headers).await;
    let mut names: Vec<_> = request
        .headers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    names.sort_unstable();
    let kept = [
        "host",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-kept",
        "x-request-id",
    ];
    assert_eq!(names, kept);
}

#[tokio::test]
async fn headers_of_one_connection_are_not_forwarded_to_the_client() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive, X-Mine, X-RateLimit-Limit\r\n\
        Keep-Alive: timeout=5\r\nX-Mine: m\r\nProxy-Authenticate: Basic\r\nProxy-Connection: keep-alive\r\n\
        Upgrade: h2c\r\nTE: trailers\r\nX-RateLimit-Limit: 9\r\nX-Kept: k\r\nSet-Cookie: a=1\r\n\
        Set-Cookie: b=2\r\n\r\nok";
    let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
    let (answer, _) = ask(&lab, STRANGER, "").await;
    let mut headers = answer.headers;
    // Of the gateway itself.
    headers.retain(|(name, _)| name != "date" && name != "x-request-id");
    headers.sort();
    let expected = [
        ("content-length", "2"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
        ("x-kept", "k"),
        ("x-ratelimit-limit", "9"),
    ];
    assert_eq!(
        headers,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[tokio::test]
async fn a_stranger_says_nothing_about_where_a_request_came_from() {
    let lab = trusting().await;
    let claims = "X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-For: 8.8.8.8\r\nX-Forwarded-Proto: https\r\n\
        X-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\nForwarded: for=9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\n\
        True-Client-IP: 9.9.9.9\r\nCF-Connecting-IP: 9.9.9.9\r\nX-User-Id: 42\r\nX-Request-ID: mine\r\n";
    let (_, request) = ask(&lab, STRANGER, claims).await;
    assert_eq!(request.all("x-forwarded-for"), ["127.0.0.2"]);
    assert_eq!(request.all("x-forwarded-proto"), ["http"]);
    assert_eq!(request.all("x-forwarded-host"), ["api.example.com:80"]);
    assert_ne!(request.header("x-request-id"), Some("mine"));
    for gone in [
        "x-forwarded-port",
        "forwarded",
        "x-real-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "x-user-id",
    ] {
        assert_eq!(request.header(gone), None, "{gone}");
    }
}

/// Each names a client's address to some server, and is read by no part of the gateway.
#[tokio::test]
async fn no_other_name_of_an_address_reaches_the_upstream() {
    let lab = trusting().await;
    for name in [
        "Client-IP",
        "True-Client-IP",
        "Proxy-Client-IP",
        "WL-Proxy-Client-IP",
        "CF-Connecting-IP",
        "CF-Connecting-IPv6",
        "CF-Pseudo-IPv4",
        "Fastly-Client-IP",
        "Fly-Client-IP",
        "DO-Connecting-IP",
        "Incap-Client-IP",
        "CloudFront-Viewer-Address",
        "Ali-CDN-Real-IP",
        "CDN-Src-IP",
        "Forwarded-For",
        "X-Real-IP",
        "X-Client-IP",
        "X-Cluster-Client-IP",
        "X-Remote-IP",
        "X-Remote-Addr",
        "X-Originating-IP",
        "X-Original-Forwarded-For",
        "X-Azure-ClientIP",
        "X-Azure-SocketIP",
        "X-AppEngine-User-IP",
        "X-AppEngine-Remote-Addr",
        "X-Envoy-External-Address",
        "X-Vercel-Forwarded-For",
        "X-NF-Client-Connection-IP",
        "X-Sucuri-ClientIP",
        "X-ProxyUser-IP",
        "X-Forwarded",
    ] {
        for spelling in [name.to_owned(), name.replace('-', "_")] {
            for from in [STRANGER, TRUSTED] {
                let (_, request) = ask(&lab, from, &format!("{spelling}: 9.9.9.9\r\n")).await;
                let values = request.headers.iter().map(|(_, value)| value.as_str());
                assert!(
                    !values.clone().any(|value| value.contains("9.9.9.9")),
                    "{spelling}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_trusted_peer_is_believed_and_joined_by_its_own_address() {
    let lab = trusting().await;
    let claims = "X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-For: 10.0.0.8\r\nX-Forwarded-Proto: https\r\n\
        X-Forwarded-Host: shop\r\nForwarded: for=9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\nX-User-Id: 42\r\n\
        X-Request-ID: theirs\r\n";
    let (_, request) = ask(&lab, TRUSTED, claims).await;
    assert_eq!(
        request.all("x-forwarded-for"),
        ["9.9.9.9, 10.0.0.8, 127.0.0.1"]
    );
    for (name, value) in [
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "shop"),
        ("x-user-id", "42"),
        ("x-request-id", "theirs"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    // Addresses come in one header only, so no upstream can be told another one.
    for gone in ["forwarded", "x-real-ip"] {
        assert_eq!(request.header(gone), None, "{gone}");
    }
    // One that says nothing is itself the origin.
    let (_, request) = ask(&lab, TRUSTED, "").await;
    assert_eq!(request.all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(request.header("x-forwarded-proto"), Some("http"));
    assert_eq!(
        request.header("x-forwarded-host"),
        Some("api.example.com:80")
    );
}

#[tokio::test]
async fn every_request_has_an_id_of_its_own() {
    let lab = Lab::new(ALL).await;
    let mut ids = std::collections::HashSet::new();
    for _ in 0..10 {
        let (_, request) = ask(&lab, STRANGER, "").await;
        let id = request.header("x-request-id").unwrap().to_owned();
        assert_eq!(id.len(), 32, "{id}");
        assert!(ids.insert(id), "{ids:?}");
    }
}

/// One line of HTTP/1 holds them all; what else comes twice stays two lines.
#[tokio::test]
async fn cookies_in_parts_become_one_line() {
    let lab = Lab::new(ALL).await;
    let parts = "Cookie: a=1\r\nX: 1\r\ncookie: b=2; c=3\r\nX: 2\r\nCookie: d=\"4\"\r\n";
    let (_, request) = ask(&lab, STRANGER, parts).await;
    assert_eq!(request.all("cookie"), ["a=1; b=2; c=3; d=\"4\""]);
    assert_eq!(request.all("x"), ["1", "2"]);
}

#[tokio::test]
async fn everything_else_is_forwarded_as_it_is() {
    let exact = "HTTP/1.1 299 Because I Say So\r\nContent-Length: 2\r\nServer: s\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
        Via: 1.1 x\r\nX-Latin: \u{e9}\r\nX-Empty:\r\nCache-Control: public\r\n\r\nok";
    let lab = Lab::around(RawUpstream::answering(exact), ALL).await;
    let (answer, request) = ask(
        &lab,
        STRANGER,
        "X-Empty:\r\nX-Latin: \u{e9}\r\nAccept: a\r\nAccept: b,c\r\n",
    )
    .await;
    assert_eq!(answer.start, "HTTP/1.1 299 Because I Say So");
    for (name, value) in [
        ("server", "s"),
        ("via", "1.1 x"),
        ("x-empty", ""),
        ("cache-control", "public"),
    ] {
        assert_eq!(answer.all(name), [value], "{name}");
    }
    assert_eq!(answer.all("date"), ["Thu, 01 Jan 1970 00:00:00 GMT"]);
    assert_eq!(answer.header("x-latin"), request.header("x-latin"));
    assert_eq!(request.header("x-empty"), Some(""));
    assert_eq!(request.all("accept"), ["a", "b,c"]);
}

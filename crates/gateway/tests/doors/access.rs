//! Who may ask.

use http::Method;
use tidegate_testkit::{Client, RawClient};

use crate::kit::*;

const YAML: &str = "
store: memory
trusted_proxies: [127.0.0.1]
limits: { calls: { fixed_window: { limit: 3, window: 31d } } }
routes: [{ path: /**, upstream: UPSTREAM, limits: [calls] }]
";

const TOKEN: &str = "a-token-that-is-long-enough-for-all-rules";

#[tokio::test]
async fn a_token_is_needed_where_one_is_set() {
    let doors = Doors::start(&format!("token: {TOKEN}"), YAML).await;
    let get = async |headers: &[(&str, &str)]| {
        let path = "/v1/check?limit=calls&client=ip:192.0.2.1";
        let answer = send(&doors.program, Method::GET, path, headers).await;
        let error = json_of(&answer)["error"].as_str().map(str::to_owned);
        let challenge = answer.header("www-authenticate");
        assert_eq!(challenge.is_some(), answer.status == 401);
        (answer.status.as_u16(), error.unwrap_or_default())
    };
    let good = format!("Bearer {TOKEN}");
    let small = format!("bearer {TOKEN}");
    let cut = format!("Bearer {}", &TOKEN[1..]);
    for (value, status, error) in [
        (None, 401, "decisions_token_needed"),
        (Some("Bearer"), 401, "decisions_token_wrong"),
        (Some("Bearer "), 401, "decisions_token_wrong"),
        (Some(TOKEN), 401, "decisions_token_wrong"),
        (Some(&cut), 401, "decisions_token_wrong"),
        (Some(&good), 200, ""),
        (Some(&small), 200, ""),
    ] {
        let headers = value.map(|value| ("authorization", value));
        let headers: Vec<_> = headers.into_iter().collect();
        assert_eq!(get(&headers).await, (status, error.to_owned()), "{value:?}");
    }
    // A proxy sends the client's own `Authorization`.
    let answer = doors.ask(&[("x-forwarded-uri", "/")]).await;
    assert_eq!(answer.status, 200);
    let call = rate_limit_call("edge", vec![descriptor(&[("a", "b")])]);
    let refused = doors.raw_rate_limit(call.clone(), &[]).await;
    assert_eq!(refused.status, 200);
    assert_eq!(refused.header("grpc-status"), Some("16"));
    let headers = [("authorization", good.as_str())];
    let answer = doors.raw_rate_limit(call, &headers).await;
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
    doors.stop().await;
}

#[tokio::test]
async fn web_pages_cannot_ask() {
    let doors = Doors::start("", YAML).await;
    let path = "/v1/check?limit=calls&client=ip:192.0.2.1";
    for (origin, status) in [(None, 200), (Some("https://evil.example"), 403)] {
        let headers: Vec<_> = origin
            .map(|origin| ("origin", origin))
            .into_iter()
            .collect();
        let answer = send(&doors.program, Method::GET, path, &headers).await;
        assert_eq!(answer.status, status);
    }
    doors.stop().await;
}

#[tokio::test]
async fn only_trusted_peers_ask_about_requests_of_others() {
    let doors = Doors::start("", YAML).await;
    let door = doors.gateway.decisions.unwrap();
    let stranger = Client::new(door).from_ip([127, 0, 0, 2]);
    let headers = [("x-forwarded-uri", "/")];
    let answer = send(&stranger, Method::GET, "/v1/ask", &headers).await;
    assert_eq!(answer.status, 403);
    assert_eq!(json_of(&answer)["error"], "untrusted_peer");
    assert_eq!(doors.ask(&headers).await.status, 200);
    doors.stop().await;
}

/// With `proxy_protocol`, proxies begin connections with a header. A program that asks does not.
#[tokio::test]
async fn connections_of_programs_have_no_proxy_header() {
    let yaml = YAML.replace(
        "trusted_proxies:",
        "clients: [{ ip: { from: proxy_protocol } }]\ntrusted_proxies:",
    );
    let doors = Doors::start("", &yaml).await;
    assert_eq!(doors.ask(&[("x-forwarded-uri", "/")]).await.status, 200);
    let mut raw = RawClient::connect(doors.gateway.decisions.unwrap()).await;
    raw.send("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /v1/ask HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let answer = raw.response(LONG).await;
    assert!(answer.is_err() || answer.unwrap().status() == 400);
    doors.stop().await;
}

#[tokio::test]
async fn a_reload_opens_and_closes_the_listener() {
    let doors = Doors::start("", YAML).await;
    let door = doors.gateway.decisions.unwrap();
    assert_eq!(doors.ask(&[("x-forwarded-uri", "/")]).await.status, 200);
    let yaml = YAML.replace("UPSTREAM", "http://127.0.0.1:9");
    doors.gateway.reload(&yaml).await;
    until("the port is closed", async || {
        std::net::TcpStream::connect(door).is_err()
    })
    .await;
    // A connection that was open before is no way to the routes.
    let answer = doors.program.try_request(
        http::Request::get("/v1/openapi.json")
            .body(tidegate_testkit::body::empty())
            .unwrap(),
    );
    if let Ok(answer) = answer.await {
        assert_eq!(answer.status, 421);
    }
    let again = format!("decisions: {{ listen: {door} }}\n{yaml}");
    doors.gateway.reload(&again).await;
    let client = Client::new(door);
    let answer = send(&client, Method::GET, "/v1/ask", &[("x-forwarded-uri", "/")]).await;
    assert_eq!(answer.status, 200);
    doors.stop().await;
}

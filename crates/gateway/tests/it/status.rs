//! `/status.json`, the status page and its stream: what they tell, and to whom.

use std::net::SocketAddr;

use http::Method;
use tidegate_status::document::{Client as Hitter, Status, VERSION};
use tidegate_testkit::{Client, Upstream};

use crate::kit::{Bench, page, send, until};
use crate::support::TestGateway;

/// One limit per client, who are users that this machine names.
pub(crate) const USERS: &str = "
trusted_proxies: [127.0.0.1]
clients: [{ user_id: { header: X-User-Id } }, { ip: {} }]
limits:
  few: { fixed_window: { limit: 5, window: 31d } }
  all: { fixed_window: { limit: 100000, window: 31d }, per: [] }
routes:
  - { name: everything, path: /**, upstream: UPSTREAM, limits: [few, all] }
";

/// A client that knows the headers of pages.
pub(crate) fn browser(admin: SocketAddr) -> Client {
    let headers = [
        "content-security-policy",
        "x-content-type-options",
        "referrer-policy",
        "cross-origin-resource-policy",
        "cross-origin-opener-policy",
        "set-cookie",
        "www-authenticate",
    ];
    let client = Client::fresh(admin);
    headers
        .iter()
        .fold(client, |client, name| client.knows(name))
}

pub(crate) async fn status(admin: SocketAddr) -> Status {
    let answer = browser(admin).get("/status.json").await;
    let text = answer.text();
    assert_eq!(answer.status, 200, "{text}");
    let status: Status = serde_json::from_str(text).unwrap();
    // What is served is what is documented, and all of it.
    let served: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(&status).unwrap(), served);
    status
}

/// The document when this holds of it.
pub(crate) async fn when(admin: SocketAddr, what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
    until(what, async || is_so(&status(admin).await)).await;
    status(admin).await
}

async fn ask(client: &Client, user: &str) -> u16 {
    let user = [("x-user-id", user)];
    send(client, Method::GET, "/", &user).await.status.as_u16()
}

fn found<'a>(top: &'a [Hitter], name: &str) -> &'a Hitter {
    let found = top.iter().find(|client| client.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {top:?}"))
}

#[tokio::test]
async fn who_uses_most_and_who_is_refused_stand_first() {
    let bench = Bench::start(USERS).await;
    for n in 0..1_500 {
        assert_eq!(ask(&bench.client, &format!("single-{n}")).await, 200);
    }
    for n in 0..40 {
        let expected = if n < 5 { 200 } else { 429 };
        assert_eq!(ask(&bench.client, "greedy").await, expected);
    }
    let asked = |status: &Status| status.requests.total == 1_540;
    let status = when(bench.gateway.admin, "all are counted", asked).await;
    assert_eq!(status.version, VERSION);
    let clients = [&status.clients.minute, &status.clients.start];
    for hits in clients {
        assert_eq!(hits.refused.total, 35);
        let [first] = &hits.refused.top[..] else {
            panic!("{:?}", hits.refused.top);
        };
        assert_eq!(first.name, "user_id:greedy");
        assert_eq!((first.at_least, first.at_most), (35, 35));
        assert_eq!(hits.refused.others_at_most, 0);
        assert_eq!(hits.admitted.total, 1_505);
        assert_eq!(hits.admitted.top.len(), 100);
        let greedy = found(&hits.admitted.top, "user_id:greedy");
        assert!(greedy.at_least <= 5 && 5 <= greedy.at_most, "{greedy:?}");
        assert!(greedy.at_most - greedy.at_least <= 1_505 / 1_024);
    }
    let [few, all] = &status.limits[..] else {
        panic!("{:?}", status.limits);
    };
    assert_eq!((few.name.as_str(), few.total.refused), ("few", 35));
    assert_eq!((all.name.as_str(), all.total.admitted), ("all", 1_540));
    assert_eq!(few.routes, ["everything"]);
    let near = status.clients.near.iter();
    let near = near.filter(|near| near.name == "user_id:greedy" && near.limit == "few");
    assert_eq!(near.map(|near| near.left).collect::<Vec<_>>(), [0]);
    let last = &status.refusals.recent[0];
    assert_eq!(
        (last.client.as_str(), last.limit.as_str()),
        ("user_id:greedy", "few")
    );
    let listed = status.refusals.recent.len() as u64;
    assert_eq!(listed + status.refusals.left_out, 35);
    let used = |status: &Status| {
        let [few, all] = &status.limits[..] else {
            return false;
        };
        all.used.is_some_and(|used| (used - 0.01505).abs() < 1e-9) && few.near_keys == 1
    };
    when(
        bench.gateway.admin,
        "what is sampled every ten seconds",
        used,
    )
    .await;
    let (_, metrics) = page(bench.gateway.admin, "/metrics").await;
    assert!(
        metrics.contains("tidegate_limit_near_keys{limit=\"few\"} 1\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("tidegate_limit_used_ratio{limit=\"all\"} 0.01505\n"),
        "{metrics}"
    );
    bench.stop().await;
}

#[tokio::test]
async fn hostile_and_long_names_are_text() {
    let bench = Bench::start(USERS).await;
    let hostile = "<img src=x onerror=alert(1)>";
    let long = "x".repeat(3_000);
    for user in [hostile, &long] {
        for _ in 0..6 {
            ask(&bench.client, user).await;
        }
    }
    let admin = bench.gateway.admin;
    let status = when(admin, "both are refused", |it| {
        it.clients.minute.refused.total == 2
    })
    .await;
    let top = &status.clients.minute.refused.top;
    assert!(!found(top, &format!("user_id:{hostile}")).is_cut);
    let cut = top.iter().find(|client| client.is_cut).unwrap();
    assert!(
        cut.name.len() <= 64 && cut.name.starts_with("user_id:xxx"),
        "{cut:?}"
    );
    let answer = browser(admin).get("/").await;
    assert!(!answer.text().contains("<img"), "{}", answer.text());
    assert!(
        answer.text().contains("user_id:&lt;img src=x"),
        "{}",
        answer.text()
    );
    bench.stop().await;
}

#[tokio::test]
async fn the_page_is_of_one_origin_and_nothing_is_inline() {
    let bench = Bench::start(USERS).await;
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/view.js", "text/javascript; charset=utf-8"),
        ("/changes.js", "text/javascript; charset=utf-8"),
        ("/dialog.js", "text/javascript; charset=utf-8"),
        ("/status.js", "text/javascript; charset=utf-8"),
        ("/stream.js", "text/javascript; charset=utf-8"),
        ("/status.css", "text/css; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
        ("/status.json", "application/json"),
    ] {
        let answer = browser(bench.gateway.admin).get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some(kind));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("set-cookie"), None);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        assert!(
            !policy.contains("unsafe") && !policy.contains("http"),
            "{policy}"
        );
    }
    bench.stop().await;
}

#[tokio::test]
async fn other_pages_get_nothing() {
    let bench = Bench::start(USERS).await;
    let admin = bench.gateway.admin;
    let own = format!("http://{admin}");
    let name = "/clients/ip:127.0.0.1";
    for (headers, path, expected) in [
        (vec![("origin", &*own)], "/status.json", 200),
        (vec![("sec-fetch-site", "same-origin")], "/status.json", 200),
        (vec![("sec-fetch-site", "none")], "/", 200),
        (
            vec![
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
            ],
            "/",
            200,
        ),
        (vec![("sec-fetch-site", "cross-site")], "/status.json", 403),
        (vec![("sec-fetch-site", "same-site")], "/events", 403),
        (vec![("origin", "http://127.0.0.1:1")], "/status.json", 403),
        (vec![("host", "rebound.example.com")], "/", 403),
        (vec![("host", "rebound.example.com")], name, 403),
        (vec![("host", "rebound.example.com")], "/config", 403),
        (vec![("origin", "https://example.com")], name, 403),
        (vec![("origin", "https://example.com")], "/config", 403),
        (vec![("host", "localhost")], name, 200),
        (vec![("host", "[::1]:9901")], name, 200),
    ] {
        let answer = send(&browser(admin), Method::GET, path, &headers).await;
        assert_eq!(answer.status, expected, "{path} {headers:?}");
    }
    let reset = format!("{name}/reset");
    for (headers, expected) in [
        (vec![("origin", &*own)], 200),
        (vec![("origin", "http://localhost")], 403),
        (vec![("origin", "null")], 403),
        (
            vec![("origin", &*own), ("host", "rebound.example.com")],
            403,
        ),
    ] {
        let answer = send(&browser(admin), Method::POST, &reset, &headers).await;
        assert_eq!(answer.status, expected, "{headers:?}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_browser_shows_the_token_as_password_then_a_cookie() {
    let upstream = Upstream::ok();
    let yaml = USERS.replace("UPSTREAM", &upstream.url());
    let admin = "{ address: \"0.0.0.0:0\", token: \"a:b\" }";
    let gateway = TestGateway::start_with_admin(admin, &yaml).await;
    let admin = SocketAddr::from(([127, 0, 0, 1], gateway.admin.port()));
    let client = browser(admin);
    let get =
        async |path, headers: &[(&str, &str)]| send(&client, Method::GET, path, headers).await;
    for path in ["/", "/status.js", "/status.json", "/events"] {
        let answer = get(path, &[]).await;
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.header("set-cookie"), None);
    }
    // any:a:b
    let password = ("authorization", "Basic YW55OmE6Yg==");
    let answer = get("/", &[password]).await;
    assert_eq!(answer.status, 200);
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    assert!(
        cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap();
    assert!(!cookie.contains("a:b"), "{cookie}");
    let shown = ("cookie", cookie);
    assert_eq!(get("/status.json", &[shown]).await.status, 200);
    assert_eq!(
        get("/status.json", &[("cookie", "tidegate_session=")])
            .await
            .status,
        401
    );
    assert_eq!(
        get("/status.json", &[("authorization", "Basic YW55OmE6Yw==")])
            .await
            .status,
        401
    );
    // A page elsewhere may have a browser send the password along.
    let foreign = ("origin", "http://example.com");
    assert_eq!(
        get("/clients/ip:127.0.0.1", &[password, foreign])
            .await
            .status,
        401
    );
    let origin = format!("http://{admin}");
    let own = ("origin", origin.as_str());
    for (headers, expected) in [
        (vec![password], 401),
        (vec![shown], 401),
        (vec![password, foreign], 401),
        (vec![password, own], 200),
        (vec![shown, own], 200),
        (vec![("authorization", "Bearer a:b")], 200),
    ] {
        let answer = send(
            &client,
            Method::POST,
            "/clients/ip:127.0.0.1/reset",
            &headers,
        )
        .await;
        assert_eq!(answer.status, expected, "{headers:?}");
    }
    gateway.stop().await;
}

//! Sticky sessions: by the hash of a part of the request, and by a cookie of the gateway.

use std::collections::BTreeMap;

use http::{HeaderMap, Method, Response};
use tidegate_testkit::{Answer, Client, Upstream, body};

use crate::group::{becomes, counts, gateway, yaml};
use crate::support::TestGateway;
use crate::support::asking::{send, until};

const IN: &str = "state=\"healthy\"";
const OUT: &str = "state=\"unhealthy\"";
const HEALTH: &str =
    "health: { path: /healthz, every: 10ms, timeout: 5s, healthy_after: 1, unhealthy_after: 1 }";
const SECRET: &str = "secret: a-secret-of-these-tests\n";

/// Servers that answer with their numbers.
fn numbered<const N: usize>() -> [Upstream; N] {
    std::array::from_fn(|number| {
        Upstream::start(move |_| async move { Response::new(body::full(number.to_string())) })
    })
}

async fn ask(client: &Client, headers: &[(&str, &str)]) -> Answer {
    let answer = send(client, Method::GET, "/", headers).await;
    assert_eq!(answer.status, 200);
    answer
}

/// The server of each of 40 tenants, who ask twice in a row.
async fn by_tenant(client: &Client, name: &str, value: &str) -> BTreeMap<usize, String> {
    let mut servers = BTreeMap::new();
    for tenant in 0..40 {
        let value = value.replace("TENANT", &tenant.to_string());
        for _ in 0..2 {
            let server = ask(client, &[(name, &value)]).await.text().to_owned();
            let before = servers.insert(tenant, server.clone());
            assert!(before.is_none_or(|before| before == server), "{tenant}");
        }
    }
    servers
}

#[tokio::test]
async fn a_hash_keeps_its_server_until_that_is_out() {
    for (hash, name, value) in [
        ("header:X-Tenant", "x-tenant", "tenant-TENANT"),
        ("cookie:session", "cookie", "a=b; session=TENANT"),
    ] {
        let servers = numbered::<4>();
        let urls = servers.each_ref().map(Upstream::url);
        let upstream = format!("balance: {{ hash: \"{hash}\" }}, {HEALTH}");
        let gateway = gateway(&urls, &upstream, "").await;
        let client = Client::new(gateway.address);
        let before = by_tenant(&client, name, value).await;
        for server in ["0", "1", "2", "3"] {
            let share = before.values().filter(|it| *it == server).count();
            // The hashes differ from run to run: with 40 tenants a share of none is one run in ten thousand.
            assert!((1..=25).contains(&share), "{hash}: {server} has {share}");
        }
        servers[2].stop().await;
        becomes(&gateway, "servers", OUT, 1).await;
        let without = by_tenant(&client, name, value).await;
        for (tenant, server) in &before {
            match &**server {
                "2" => assert_ne!(without[tenant], "2"),
                _ => assert_eq!(&without[tenant], server, "{tenant} moved without need"),
            }
        }
        servers[2].restart();
        becomes(&gateway, "servers", IN, 4).await;
        assert_eq!(by_tenant(&client, name, value).await, before);
    }
}

#[tokio::test]
async fn a_request_without_the_header_takes_its_turn() {
    let servers = numbered::<3>();
    let urls = servers.each_ref().map(Upstream::url);
    let gateway = gateway(&urls, "balance: { hash: \"header:X-Tenant\" }", "").await;
    let client = Client::new(gateway.address);
    for _ in 0..3 {
        ask(&client, &[]).await;
        ask(&client, &[("x-tenant", "")]).await;
    }
    assert_eq!(counts(&servers.each_ref()), [2; 3]);
}

/// All gateways choose the same server for a client, and know it by its name in limits.
#[tokio::test]
async fn a_client_has_one_server_at_all_gateways() {
    let servers = numbered::<4>();
    let urls = servers.each_ref().map(Upstream::url);
    let clients = "trusted_proxies: [127.0.0.1]\nclients: [{ user_id: { header: X-User-Id } }]\n";
    let urls = urls.map(|url| format!("\"{url}\"")).join(", ");
    let text = yaml(&urls, "balance: { hash: client }", "");
    let text = format!("{clients}{text}");
    let gateways = [
        TestGateway::start(&text).await,
        TestGateway::start(&text).await,
    ];
    let mut found = Vec::new();
    for gateway in &gateways {
        let client = Client::new(gateway.address);
        let mut servers = Vec::new();
        for number in 0..12 {
            let user = format!("user-{number}");
            servers.push(
                ask(&client, &[("x-user-id", &user)])
                    .await
                    .text()
                    .to_owned(),
            );
        }
        let address = ask(&client, &[]).await.text().to_owned();
        assert_eq!(ask(&client, &[]).await.text(), address);
        servers.push(address);
        found.push(servers);
    }
    assert_eq!(found[0], found[1]);
    let first = &found[0][0];
    assert!(found[0].iter().any(|server| server != first), "{found:?}");
}

#[tokio::test]
async fn a_hot_hash_fills_no_server_beyond_its_bound() {
    let servers: [Upstream; 4] = std::array::from_fn(|_| crate::group::hanging());
    let urls = servers.each_ref().map(Upstream::url);
    let gateway = gateway(&urls, "balance: { hash: \"header:X-Tenant\" }", "").await;
    let mut open = Vec::new();
    for number in 1..=60 {
        let client = Client::fresh(gateway.address);
        open.push(tokio::spawn(async move {
            ask(&client, &[("x-tenant", "hot")]).await;
        }));
        until("it has come", async || {
            counts(&servers.each_ref()).iter().sum::<usize>() == number
        })
        .await;
    }
    let mut taken = counts(&servers.each_ref());
    taken.sort_unstable();
    // A quarter more than 15 at most; the first choices are full.
    assert!(taken[3] <= 19 && taken[2] >= 17, "{taken:?}");
    open.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A client that knows cookies.
fn browser(gateway: &TestGateway) -> Client {
    Client::new(gateway.address).knows("set-cookie")
}

/// The cookie of an answer, as a request has it.
fn cookie(answer: &Answer) -> Option<String> {
    let set = answer.header("set-cookie")?;
    let (cookie, rest) = set.split_once("; ").unwrap();
    assert_eq!(rest, "Path=/; HttpOnly; SameSite=Lax");
    assert!(!set.contains("127"), "{set}");
    Some(cookie.to_owned())
}

#[tokio::test]
async fn a_cookie_of_the_gateway_names_the_server() {
    let servers = numbered::<3>();
    let urls = servers
        .each_ref()
        .map(|server| format!("\"{}\"", server.url()));
    let upstream = format!("balance: {{ cookie: server }}, {HEALTH}");
    let text = format!("{SECRET}{}", yaml(&urls.join(", "), &upstream, ""));
    let gateway = TestGateway::start(&text).await;
    let client = browser(&gateway);
    let mut cookies = BTreeMap::new();
    for _ in 0..3 {
        let answer = ask(&client, &[]).await;
        cookies.insert(answer.text().to_owned(), cookie(&answer).unwrap());
    }
    assert_eq!(cookies.len(), 3, "the first requests take turns");
    let other = TestGateway::start(&text).await;
    for client in [&client, &browser(&other)] {
        for (server, cookie) in &cookies {
            for _ in 0..2 {
                let answer = ask(client, &[("cookie", &format!("a=b; {cookie}"))]).await;
                assert_eq!(answer.text(), server);
                assert_eq!(answer.header("set-cookie"), None);
            }
        }
    }
    // A server that is out, and a cookie of no server: the answer names another one.
    servers[1].stop().await;
    becomes(&gateway, "servers", OUT, 1).await;
    for lost in [&*cookies["1"], "server=127.0.0.1:80"] {
        let answer = ask(&client, &[("cookie", lost)]).await;
        assert_eq!(cookies[answer.text()], cookie(&answer).unwrap());
    }
    // Another secret has other cookies.
    let text = text.replace("of-these-tests", "of-other-tests");
    let strange = TestGateway::start(&text).await;
    let answer = ask(&browser(&strange), &[("cookie", &cookies["0"])]).await;
    assert!(
        !cookies
            .values()
            .any(|known| *known == cookie(&answer).unwrap())
    );
}

#[tokio::test]
async fn the_cookie_is_secure_over_tls() {
    let servers = numbered::<2>();
    let urls = servers
        .each_ref()
        .map(|server| format!("\"{}\"", server.url()));
    let text = yaml(&urls.join(", "), "balance: { cookie: server }", "");
    let text = format!("{SECRET}trusted_proxies: [127.0.0.1]\n{text}");
    let gateway = TestGateway::start(&text).await;
    let client = browser(&gateway);
    for (proto, secure) in [("https", true), ("http", false)] {
        let answer = ask(&client, &[("x-forwarded-proto", proto)]).await;
        let set = answer.header("set-cookie").unwrap();
        assert_eq!(set.ends_with("; SameSite=Lax; Secure"), secure, "{set}");
    }
}

/// A cookie of the upstream stays beside that of the gateway.
#[tokio::test]
async fn cookies_of_the_upstream_stay() {
    let server = || {
        Upstream::start(|_| async {
            let cookie = ("set-cookie".parse().unwrap(), "own=1".parse().unwrap());
            let mut answer = Response::new(body::empty());
            *answer.headers_mut() = HeaderMap::from_iter([cookie]);
            answer
        })
    };
    let servers = [server(), server()];
    let urls = servers
        .each_ref()
        .map(|server| format!("\"{}\"", server.url()));
    let text = yaml(&urls.join(", "), "balance: { cookie: server }", "");
    let gateway = TestGateway::start(&format!("{SECRET}{text}")).await;
    let answer = ask(&browser(&gateway), &[]).await;
    let set: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
    assert_eq!((set.len(), set[0].as_bytes()), (2, &b"own=1"[..]));
}

/// The page of the configuration in force shows how servers are chosen.
#[tokio::test]
async fn the_running_configuration_shows_the_choice() {
    let gateway = gateway(
        &[
            "http://127.0.0.1:1".to_owned(),
            "http://127.0.0.1:2".to_owned(),
        ],
        "balance: { hash: client }",
        "",
    )
    .await;
    let answer = Client::fresh(gateway.admin).get("/config").await;
    let shown = r#""upstreams":{"group":"{ hash: client }"}"#;
    assert!(answer.text().contains(shown), "{}", answer.text());
}

//! Another plan in force: what it changes at once, what it leaves alone, and what it lets go of.

use std::net::SocketAddr;

use http::Response;
use tidegate_testkit::{Client, RawClient, Upstream, body};
use tokio::net::TcpStream;

use crate::callers::listed;
use crate::jwks::issuer::{Issuer, Key, set};
use crate::kit::{
    Bench, LONG, answer_to, get, held_with, on_both_stores, page, page_json, sample, send, shown,
    told, until,
};
use crate::support::TestGateway;

fn limited(store: &str, upstream: &Upstream, limit: u64) -> String {
    let url = upstream.url();
    format!(
        "
{store}
limits:
  it: {{ fixed_window: {{ limit: {limit}, window: 31d }} }}
routes:
  - {{ path: /**, upstream: \"{url}\", limits: [it] }}
"
    )
}

#[tokio::test]
async fn a_changed_quota_counts_what_was_used_before() {
    on_both_stores(async |store| {
        let upstream = Upstream::ok();
        let gateway = TestGateway::start(&limited(store, &upstream, 5)).await;
        let client = Client::new(gateway.address);
        for left in [4, 3] {
            assert_eq!(told(&client.get("/").await), shown(200, 5, left));
        }
        gateway.reload(&limited(store, &upstream, 10)).await;
        assert_eq!(told(&client.get("/").await), shown(200, 10, 7));
        gateway.reload(&limited(store, &upstream, 2)).await;
        assert_eq!(told(&client.get("/").await), shown(429, 2, 0));
        gateway.reload(&limited(store, &upstream, 5)).await;
        // A refusal may be remembered for a second.
        let other = limited(store, &upstream, 5).replace("\n  it:", "\n  other:");
        gateway.reload(&other.replace("[it]", "[other]")).await;
        assert_eq!(told(&client.get("/").await), shown(200, 5, 4));
        assert_eq!(client.connections(), 1);
        gateway.stop().await;
    })
    .await;
}

/// What arrived under one plan is answered by it, also when that takes longer than the plan lives. The same connection then meets
/// the next plan.
#[tokio::test]
async fn requests_under_way_end_as_they_began() {
    let (before, release) = held_with(|_| Response::new(body::full("before")));
    let after = Upstream::start(async |_| Response::new(body::full("after")));
    let gateway = TestGateway::start(&limited("", &before, 5)).await;
    let clients = [Client::new(gateway.address), Client::h2(gateway.address)];
    let asking = async {
        let (first, second) = tokio::join!(clients[0].get("/"), clients[1].get("/"));
        [first, second]
    };
    let reloading = async {
        before.wait_for(2, LONG).await;
        gateway.reload(&limited("", &after, 5)).await;
        // Another one overtakes them.
        assert_eq!(Client::new(gateway.address).get("/").await.text(), "after");
        release.send(true).unwrap();
    };
    let (answers, ()) = tokio::join!(asking, reloading);
    for answer in answers {
        assert_eq!((answer.status.as_u16(), answer.text()), (200, "before"));
    }
    for client in &clients {
        assert_eq!(client.get("/").await.text(), "after");
        assert_eq!(client.connections(), 1);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn what_was_counted_stays_and_reloads_are_counted() {
    let bench = Bench::of_limit("", "fixed_window: { limit: 9, window: 31d }").await;
    assert_eq!(bench.client.get("/").await.status, 200);
    let yaml = limited("", &bench.upstream, 9);
    bench.gateway.reload(&yaml).await;
    assert_eq!(bench.client.get("/").await.status, 200);
    let refused = bench.gateway.reload_listening("127.0.0.1:0", "limit: {}\n");
    let error = refused.await.unwrap_err().to_string();
    assert!(
        error.starts_with("error: test.yaml:3:1: unknown key `limit`"),
        "{error}"
    );
    assert_eq!(bench.client.get("/").await.status, 200);
    let (_, metrics) = page(bench.gateway.admin, "/metrics").await;
    for line in [
        "tidegate_decisions_total{limit=\"it\",verdict=\"allowed\",decided_by=\"store\"} 3",
        "tidegate_config_reloads_total{outcome=\"taken\"} 1",
        "tidegate_config_reloads_total{outcome=\"refused\"} 1",
        "tidegate_config_last_success_timestamp_seconds ",
    ] {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn the_admin_port_tells_which_plan_is_in_force() {
    let bench = Bench::of_limit("", "fixed_window: { limit: 9, window: 31d }").await;
    let config = async || page_json(bench.gateway.admin, "/config").await;
    let first = config().await;
    assert_eq!(
        (
            first["routes"].as_u64(),
            first["version"].as_str().unwrap().len()
        ),
        (Some(1), 16)
    );
    bench.gateway.reload(&limited("", &bench.upstream, 9)).await;
    let second = config().await;
    assert_ne!(first["version"], second["version"]);
    assert!(first["since"].as_str() <= second["since"].as_str());
    bench.gateway.reload(&limited("", &bench.upstream, 9)).await;
    assert_eq!(
        config().await["version"],
        second["version"],
        "the same text"
    );
    bench.stop().await;
}

/// Two free ports of this machine, which nobody else is likely to take meanwhile.
fn free() -> [SocketAddr; 2] {
    let sockets = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap())
}

#[tokio::test]
async fn listeners_come_and_go_and_those_that_stay_are_not_rebound() {
    let upstream = Upstream::ok();
    let yaml = limited("", &upstream, 1000);
    let [stays, comes] = free();
    let listen = format!("[\"{stays}\", 127.0.0.1:0]");
    let gateway = TestGateway::start_listening(&listen, &yaml).await;
    let goes = gateway.addresses[1];
    let open: Vec<_> = [stays, goes].map(Client::new).into();
    for client in &open {
        assert_eq!(client.get("/").await.status, 200);
    }
    // A client that is only half way through its request.
    let mut slow = RawClient::connect(goes).await;
    slow.send("GET / HTTP/1.1\r\nhost: a\r\n").await.unwrap();

    // Somebody else has the new one, so nothing changes.
    let taken = std::net::TcpListener::bind(comes).unwrap();
    let listen = format!("[\"{stays}\", \"{comes}\"]");
    let refused = gateway.reload_listening(&listen, &yaml).await.unwrap_err();
    assert!(
        refused.to_string().contains("the port is in use"),
        "{refused}"
    );
    assert_eq!(Client::fresh(goes).get("/").await.status, 200);
    drop(taken);

    gateway.reload_listening(&listen, &yaml).await.unwrap();
    assert_eq!(Client::fresh(stays).get("/").await.status, 200);
    assert_eq!(Client::fresh(comes).get("/").await.status, 200);
    until("it listens no more", async || {
        TcpStream::connect(goes).await.is_err()
    })
    .await;
    for client in &open {
        assert_eq!(client.get("/").await.status, 200);
        assert_eq!(client.connections(), 1);
    }
    assert_eq!(answer_to(&mut slow, "\r\n").await.status(), 200);
    gateway.stop().await;
}

#[tokio::test]
async fn fewer_or_more_connections_may_be_open() {
    let upstream = Upstream::ok();
    let with = |most| format!("max_connections: {most}\n{}", limited("", &upstream, 1000));
    let gateway = TestGateway::start(&with(1)).await;
    let first = Client::new(gateway.address);
    assert_eq!(first.get("/").await.status, 200);
    let second = Client::new(gateway.address);
    let refused = async |client: &Client| {
        let request = http::Request::get("/").body(body::empty()).unwrap();
        // The refusal may come before the request, which this client does not take for an answer.
        client
            .try_request(request)
            .await
            .map_or(503, |answer| answer.status.as_u16())
    };
    assert_eq!(refused(&second).await, 503);
    gateway.reload(&with(2)).await;
    assert_eq!(second.get("/").await.status, 200);
    gateway.reload(&with(1)).await;
    for client in [&first, &second] {
        assert_eq!(client.get("/").await.status, 200, "open ones stay");
    }
    assert_eq!(refused(&Client::new(gateway.address)).await, 503);
    gateway.stop().await;
}

/// No token waits for a fetch, and none is lost with an issuer that is away.
#[tokio::test]
async fn token_keys_that_are_known_stay_known() {
    let key = Key::ed25519("a");
    let issuer = Issuer::publishing(set(&[&key]));
    let upstream = Upstream::ok();
    let yaml = |algorithms: &str| {
        let url = issuer.url();
        let jwt =
            format!("jwt: {{ jwks_url: \"{url}\", algorithms: {algorithms}, invalid: reject }}");
        format!(
            "clients: [{{ {jwt} }}, {{ ip: {{}} }}]\n{}",
            limited("", &upstream, 1000)
        )
    };
    let gateway = TestGateway::start(&yaml("[EdDSA]")).await;
    let client = Client::new(gateway.address).knows("www-authenticate");
    let bearer = format!("Bearer {}", key.token("rider-1"));
    let status = async || get(&client, "/", &[("authorization", &bearer)]).await;
    until("its keys are fetched", async || status().await == 200).await;
    issuer.server.stop().await;
    for algorithms in ["[EdDSA]", "[ES256, EdDSA]", "[EdDSA]"] {
        gateway.reload(&yaml(algorithms)).await;
        assert_eq!(status().await, 200, "{algorithms}");
    }
    // Whose signatures are no longer accepted is nobody any more.
    gateway.reload(&yaml("[ES256]")).await;
    assert_eq!(status().await, 401);
    gateway.stop().await;
}

/// The files of a plan are looked at for as long as it is in force.
#[tokio::test]
async fn files_of_the_plan_before_are_let_go_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    // Renamed into its place: a read between the truncation and the write of a file would be refused.
    let put = |name: &str, key: &str| {
        std::fs::write(file("unread"), format!("- {}\n", listed(key)))?;
        std::fs::rename(file("unread"), file(name))
    };
    let upstream = Upstream::ok();
    let yaml = |name: &str| {
        let file = file(name);
        let source = format!(
            "api_key: {{ keys_file: \"{}\", unknown: reject }}",
            file.display()
        );
        format!(
            "clients: [{{ {source} }}]\n{}",
            limited("", &upstream, 1000)
        )
    };
    put("old", "a").unwrap();
    put("new", "b").unwrap();
    let gateway = TestGateway::start(&yaml("old")).await;
    let client = Client::new(gateway.address).knows("www-authenticate");
    let known = async |key: &str| {
        let key = format!("{key}-key");
        let answer = send(&client, http::Method::GET, "/", &[("x-api-key", &key)]).await;
        answer.status == 200
    };
    assert!(known("a").await && !known("b").await);
    gateway.reload(&yaml("new")).await;
    assert!(!known("a").await && known("b").await);
    std::fs::write(file("old"), "broken").unwrap();
    // Two rounds of whoever watches: what is seen in the first is reported by then.
    for key in ["c", "d"] {
        put("new", key).unwrap();
        until(key, async || known(key).await).await;
    }
    let refused = "tidegate_key_file_reads_total{outcome=\"refused\"}";
    assert_eq!(sample(gateway.admin, refused).await, 0);
    gateway.stop().await;
}

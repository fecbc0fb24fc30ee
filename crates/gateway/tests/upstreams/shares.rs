//! Places of an upstream, of which no client can hold all, and which nobody holds who only sends or reads slowly.

use std::time::Duration;

use tidegate_testkit::{Client, RawClient, Speaks, Upstream};
use tokio::task::JoinSet;

use crate::group::{LONG, gateway};
use crate::support::TestGateway;
use crate::support::asking::{answer_to, get};
use crate::support::held::held_one_by_one;

async fn behind_a_proxy(server: &Upstream, bounds: &str) -> TestGateway {
    let url = server.url();
    TestGateway::start(&format!(
        "log: {{ access: false }}\n\
         trusted_proxies: [127.0.0.1/32]\n\
         timeouts: {{ connect: 1h }}\n\
         upstreams: {{ group: {{ servers: [\"{url}\"], {bounds} }} }}\n\
         routes: [{{ path: /**, upstream: group }}]\n"
    ))
    .await
}

/// A GET of a client at an address.
async fn get_from(gateway: std::net::SocketAddr, from: &str) -> u16 {
    get(&Client::new(gateway), "/", &[("x-forwarded-for", from)]).await
}

fn count(server: &Upstream, from: &str) -> usize {
    let requests = server.requests();
    let is_from = |arrival: &&tidegate_testkit::Arrival| {
        let hops = arrival.header("x-forwarded-for").unwrap();
        hops.starts_with(from)
    };
    requests.iter().filter(is_from).count()
}

#[tokio::test]
async fn one_address_leaves_a_quarter_to_others_and_they_come_first() {
    for (greedy, other) in [
        (["198.51.100.1", "198.51.100.1"], "198.51.100.2"),
        // The same /64 is one address.
        (["2001:db8:0:1::1", "2001:db8:0:1::2"], "2001:db8:0:2::1"),
    ] {
        let (server, free) = held_one_by_one(Speaks::Http1);
        let gateway = behind_a_proxy(&server, "max_connections: 8, max_waiting: 100").await;
        let address = gateway.address;
        let mut asked = JoinSet::new();
        for nth in 0..20 {
            asked.spawn(get_from(address, greedy[nth % 2]));
        }
        server.wait_for(6, LONG).await;
        // It waits for nobody, although requests of the other address wait.
        asked.spawn(get_from(address, other));
        server.wait_for(7, LONG).await;
        assert_eq!(count(&server, other), 1);
        for _ in 0..3 {
            asked.spawn(get_from(address, other));
        }
        server.wait_for(8, LONG).await;
        assert_eq!((server.count(), count(&server, other)), (8, 2));
        free.add_permits(1_000);
        assert!(asked.join_all().await.iter().all(|status| *status == 200));
        assert_eq!(server.count(), 24);
    }
}

#[tokio::test]
async fn a_place_that_comes_free_goes_to_the_address_that_has_fewest() {
    let (server, free) = held_one_by_one(Speaks::Http1);
    let bounds = "max_connections: 2, max_connections_per_ip: 100%";
    let gateway = behind_a_proxy(&server, bounds).await;
    let address = gateway.address;
    let mut asked = JoinSet::new();
    for expected in 1..=2 {
        asked.spawn(get_from(address, "198.51.100.1"));
        server.wait_for(expected, LONG).await;
    }
    // Waits for a place before the other one comes.
    let mut waiting = JoinSet::new();
    waiting.spawn(get_from(address, "198.51.100.1"));
    waits(&gateway, 1).await;
    waiting.spawn(get_from(address, "198.51.100.2"));
    waits(&gateway, 2).await;
    free.add_permits(1);
    server.wait_for(3, LONG).await;
    assert_eq!(count(&server, "198.51.100.2"), 1);
    free.add_permits(1_000);
    asked.join_all().await;
    waiting.join_all().await;
}

/// Waits until so many requests wait for a place.
async fn waits(gateway: &TestGateway, number: u64) {
    crate::group::becomes(gateway, "waiting", "", number).await;
}

/// The head of an upload, and the part of the body that comes.
fn upload(framing: &str, part: &str) -> String {
    format!("POST /upload HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{part}")
}

/// The upstream has its whole time, however long the client takes for the first part.
#[tokio::test]
async fn the_time_of_a_slow_first_part_is_not_the_upstreams() {
    let server = Upstream::ok();
    let gateway = gateway(
        &[server.url()],
        "max_connections: 1",
        "timeouts: { upstream: 200ms }",
    )
    .await;
    let mut client = RawClient::connect(gateway.address).await;
    client
        .send(upload("Content-Length: 8", "part"))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(answer_to(&mut client, "part").await.status(), 200);
}

#[tokio::test]
async fn a_body_of_known_length_takes_its_place_when_it_has_come() {
    let server = Upstream::ok();
    let gateway = gateway(
        &[server.url()],
        "max_connections: 1",
        "timeouts: { connect: 1s }",
    )
    .await;
    let get = || async { Client::new(gateway.address).get("/").await.status };
    let mut client = RawClient::connect(gateway.address).await;
    client
        .send(upload("Content-Length: 8", "part"))
        .await
        .unwrap();
    for _ in 0..3 {
        assert_eq!(get().await, 200);
    }
    assert_eq!(server.count(), 3);
    assert_eq!(answer_to(&mut client, "part").await.status(), 200);
    // Of a long one the first part is enough, and of one without a length the head.
    let long = upload("Content-Length: 40000", &"x".repeat(20_000));
    for (begun, rest) in [
        (long, "x".repeat(20_000)),
        (
            upload("Transfer-Encoding: chunked", ""),
            "0\r\n\r\n".to_owned(),
        ),
    ] {
        let before = server.count();
        client.send(begun).await.unwrap();
        server.wait_for(before + 1, LONG).await;
        assert_eq!(get().await, 503);
        assert_eq!(answer_to(&mut client, rest).await.status(), 200);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_before_its_request_has_a_place_is_the_clients_fault() {
    let server = Upstream::ok();
    let gateway = gateway(
        &[server.url()],
        "max_connections: 1",
        "timeouts: { idle: 300ms }",
    )
    .await;
    let mut client = RawClient::connect(gateway.address).await;
    assert_eq!(
        answer_to(&mut client, upload("Content-Length: 8", "part"))
            .await
            .status(),
        408
    );
    assert_eq!(server.count(), 0);
}

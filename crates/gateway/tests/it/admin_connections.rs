//! Connections to the admin port: whoever holds many of them silences no probe.

use std::net::Ipv4Addr;
use std::time::Duration;

use tidegate_testkit::{End, RawClient};
use tokio::time::timeout;

use crate::kit::{Bench, LONG, page};

/// Well above what the admin port serves at once.
const MANY: usize = 100;

async fn bench() -> Bench {
    Bench::of_limit("", "fixed_window: { limit: 1, window: 31d }").await
}

async fn is_healthy(bench: &Bench) {
    let health = timeout(LONG, page(bench.gateway.admin, "/healthz")).await;
    assert_eq!(health, Ok((200, "ok\n".into())), "the probe waits");
}

#[tokio::test]
async fn idle_ones_of_one_address_give_way() {
    let bench = bench().await;
    let mut idle = Vec::new();
    for n in 0..MANY {
        let mut client = RawClient::connect(bench.gateway.admin).await;
        match n % 3 {
            0 => {}
            1 => client
                .send("GET /metrics HTTP/1.1\r\nHo")
                .await
                .unwrap_or_default(),
            _ => client
                .send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
                .await
                .unwrap_or_default(),
        }
        idle.push(client);
    }
    is_healthy(&bench).await;
    // The oldest were closed for the younger ones.
    assert_ne!(idle[0].read_to_close(LONG).await.1, End::Deadline);
    drop(idle);
    bench.stop().await;
}

#[tokio::test]
async fn idle_ones_of_many_addresses_give_way() {
    let bench = bench().await;
    let mut idle = Vec::new();
    for n in 0..MANY {
        let from = Ipv4Addr::new(127, 0, 1, n as u8);
        idle.push(RawClient::connect_from(from, bench.gateway.admin).await);
    }
    is_healthy(&bench).await;
    drop(idle);
    bench.stop().await;
}

/// Each waits for a body that does not come.
#[tokio::test]
async fn ones_that_owe_a_body_give_way() {
    let bench = bench().await;
    let mut waiting = Vec::new();
    for _ in 0..MANY {
        let mut client = RawClient::connect(bench.gateway.admin).await;
        let put = "PUT /overrides/ip:192.0.2.1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\
                   Expect: 100-continue\r\n\r\n";
        client.send(put).await.unwrap();
        // The gateway says that it reads the body now.
        let answer = client.response_to_head(LONG).await.unwrap();
        assert_eq!(answer.status(), 100);
        waiting.push(client);
        is_healthy(&bench).await;
    }
    drop(waiting);
    bench.stop().await;
}

/// Nobody needs the place, and it is closed all the same.
#[tokio::test]
async fn one_that_asks_nothing_is_closed_soon() {
    let bench = bench().await;
    let mut silent = RawClient::connect(bench.gateway.admin).await;
    let mut slow = RawClient::connect(bench.gateway.admin).await;
    slow.send("GET /healthz HTTP/1.1\r\nHo").await.unwrap();
    let soon = Duration::from_secs(20);
    assert_ne!(silent.read_to_close(soon).await.1, End::Deadline);
    assert_ne!(slow.read_to_close(soon).await.1, End::Deadline);
    bench.stop().await;
}

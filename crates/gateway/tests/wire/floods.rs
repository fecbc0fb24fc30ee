//! D2: more connections than there may be, in all or of one address. Who is there does not notice.

#![expect(clippy::print_stdout, reason = "--nocapture shows the counts")]

use std::time::{Duration, Instant};

use tidegate_testkit::{Client, End, Message, RawClient, Upstream};
use tokio::time::timeout;

use crate::lab::{ALL, LONG, Lab, fresh_address};
use crate::support::GatewayProcess;
use crate::support::asking::{answer_to, until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Asks on a connection that stays.
async fn served(guest: &mut RawClient) {
    assert_eq!(answer_to(guest, GET).await.status(), 200);
}

/// What a connection was told was 503 and when to come back, and nothing else.
fn is_refusal(said: &[u8]) -> bool {
    let answers = Message::responses(said).unwrap();
    matches!(&answers[..], [one] if one.status() == 503
        && one.header("retry-after") == Some("1")
        && one.header("connection") == Some("close")
        && one.text().contains("\"overloaded\""))
}

/// Only two connections: whoever comes third is turned away, and the two do not notice.
#[tokio::test]
async fn connections_beyond_the_most_are_refused() {
    let lab = Lab::new(&format!("max_connections: 2\n{ALL}")).await;
    let mut guests = [lab.connect().await, lab.connect().await];
    for _ in 0..3 {
        for guest in &mut guests {
            served(guest).await;
        }
        let (said, end) = RawClient::exchange(lab.gateway.address, GET, LONG).await;
        assert!(is_refusal(&said) && end != End::Deadline, "{said:?}");
    }
    assert_eq!(lab.upstream.requests().len(), 6);
    let [left, mut stays] = guests;
    drop(left);
    comes_in(&lab).await;
    served(&mut stays).await;
}

/// A place is free as soon as the gateway has seen its guest go.
async fn comes_in(lab: &Lab) {
    let served = async {
        loop {
            let mut next = lab.connect().await;
            _ = next.send(GET).await;
            if let Ok(answer) = next.response(LONG).await
                && answer.status() == 200
            {
                return;
            }
        }
    };
    assert_eq!(timeout(LONG, served).await, Ok(()));
}

#[tokio::test]
async fn an_address_has_as_many_as_it_may_and_a_trusted_one_as_many_as_it_likes() {
    let more = "max_connections_per_ip: 3\ntrusted_proxies: [127.0.0.77]";
    let lab = Lab::new(&format!("{more}\n{ALL}")).await;
    let greedy = fresh_address();
    let mut guests = Vec::new();
    for _ in 0..3 {
        let mut guest = RawClient::connect_from(greedy, lab.gateway.address).await;
        served(&mut guest).await;
        guests.push(guest);
    }
    for _ in 0..5 {
        let mut fourth = RawClient::connect_from(greedy, lab.gateway.address).await;
        _ = fourth.send(GET).await;
        let (said, end) = fourth.read_to_close(LONG).await;
        assert!(is_refusal(&said) && end != End::Deadline, "{said:?}");
        served(&mut lab.connect().await).await;
    }
    let mut trusted = Vec::new();
    for _ in 0..5 {
        let from = [127, 0, 0, 77];
        let mut guest = RawClient::connect_from(from, lab.gateway.address).await;
        served(&mut guest).await;
        trusted.push(guest);
    }
    served(&mut guests[0]).await;
    guests.pop();
    let again = async {
        loop {
            let mut next = RawClient::connect_from(greedy, lab.gateway.address).await;
            _ = next.send(GET).await;
            if next.response(LONG).await.unwrap().status() == 200 {
                return;
            }
        }
    };
    assert_eq!(timeout(LONG, again).await, Ok(()));
}

/// Opens as many connections as there may be and more, and asks on one that was there before, all the while.
async fn flood(most: usize, more: usize, per_ip: usize) {
    let upstream = Upstream::ok();
    let bounds = format!("max_connections: {most}\nmax_connections_per_ip: {per_ip}");
    let url = upstream.url();
    let yaml = format!(
        "{bounds}\ntimeouts: {{ header: 10m }}\nroutes: [{{ path: /**, upstream: \"{url}\" }}]\n"
    );
    let gateway = GatewayProcess::start_with("127.0.0.1:0", "access: false", &yaml).await;
    let base = gateway.process.open_files();
    let good = Client::new(gateway.address).from_ip([127, 0, 0, 9]);
    let mut slowest = Duration::ZERO;
    let mut guests = Vec::new();
    let (mut refused, mut last) = (0, fresh_address());
    for nth in 0..most - 1 + more {
        if nth % per_ip == 0 {
            last = fresh_address();
        }
        let mut guest = RawClient::connect_from(last, gateway.address).await;
        if nth < most - 1 {
            guests.push(guest);
        } else {
            let (said, end) = guest.read_to_close(LONG).await;
            assert!(is_refusal(&said) && end == End::Closed, "{nth}: {said:?}");
            refused += 1;
        }
        if nth % 25 == 0 {
            let begun = Instant::now();
            assert_eq!(good.get("/").await.status, 200, "after {nth} connections");
            slowest = slowest.max(begun.elapsed());
        }
    }
    assert_eq!((refused, good.connections()), (more, 1));
    println!(
        "{refused} of {} connections refused; the good one waited {slowest:?} at most",
        guests.len() + refused
    );
    // Of one address there are no more than it may have, however much room there is.
    guests.truncate(most / 2);
    let mut of_one = Vec::new();
    let refused = async {
        loop {
            let mut guest = RawClient::connect_from([127, 0, 0, 8], gateway.address).await;
            _ = guest.send(GET).await;
            if guest.response(LONG).await.unwrap().status() == 200 {
                of_one.push(guest);
            } else if of_one.len() >= per_ip {
                return;
            }
        }
    };
    assert_eq!(timeout(LONG, refused).await, Ok(()));
    assert_eq!(of_one.len(), per_ip);
    drop(of_one);
    drop(guests);
    until("places are given back", async || {
        gateway.process.open_files() <= base + 8
    })
    .await;
    assert_eq!(
        (good.get("/").await.status.as_u16(), good.connections()),
        (200, 1)
    );
}

#[tokio::test]
async fn a_flood_of_connections_is_refused_beside_a_good_one() {
    flood(100, 50, 20).await;
}

/// The whole of it: `cargo test -p tidegate --test wire cap_and_a_thousand -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "takes a minute, and 20,000 file descriptors"]
async fn a_flood_up_to_the_cap_and_a_thousand_more() {
    flood(8_000, 1_000, 2_000).await;
}

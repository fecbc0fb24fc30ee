//! Connections that have nothing to do: little is kept for them, and nobody notices.

use std::time::Duration;

use tidegate_testkit::{Client, End};

use crate::lab::{ALL, LONG, Lab};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// After which a connection rests, and a little.
const REST: Duration = Duration::from_millis(2_100);

/// Lets so much time pass at once.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Waits until so many connections rest.
async fn resting(lab: &Lab, number: usize) {
    let shown = format!("tidegate_connections_resting {number}\n");
    let admin = Client::fresh(lab.gateway.admin);
    while !admin.get("/metrics").await.text().contains(&shown) {}
}

#[tokio::test]
async fn a_connection_that_rests_serves_the_next_request() {
    let lab = Lab::new(ALL).await;
    let mut client = lab.connect().await;
    for requests in 1..=3 {
        for _ in 0..requests {
            client.send(GET).await.unwrap();
            assert_eq!(client.response(LONG).await.unwrap().status(), 200);
        }
        resting(&lab, 0).await;
        pass(REST).await;
        resting(&lab, 1).await;
    }
    client.finish().await;
    resting(&lab, 0).await;
    let (said, end) = client.read_to_close(LONG).await;
    assert_eq!((said, end), (Vec::new(), End::Closed));
    assert_eq!(lab.upstream.requests().len(), 6);
}

/// It has its time from when it was found.
#[tokio::test]
async fn half_a_head_behind_a_request_is_kept_and_must_be_completed_in_time() {
    let half = GET.len() / 2;
    for completed in [true, false] {
        let lab = Lab::new(ALL).await;
        let mut client = lab.connect().await;
        client.send(format!("{GET}{}", &GET[..half])).await.unwrap();
        assert_eq!(client.response(LONG).await.unwrap().status(), 200);
        pass(REST).await;
        // The gateway comes to look before it has been asked this.
        resting(&lab, 0).await;
        if completed {
            client.send(&GET[half..]).await.unwrap();
            assert_eq!(client.response(LONG).await.unwrap().status(), 200);
            assert_eq!(lab.upstream.requests().len(), 2);
        } else {
            pass(Duration::from_secs(11)).await;
            let (said, end) = client.read_to_close(LONG).await;
            assert_eq!((said, end), (Vec::new(), End::Closed));
        }
    }
}

#[tokio::test]
async fn a_connection_that_rests_ends_when_it_was_idle_for_too_long() {
    let lab = Lab::new(&format!("timeouts: {{ idle: 5s }}\n{ALL}")).await;
    let mut client = lab.connect().await;
    client.send(GET).await.unwrap();
    assert_eq!(client.response(LONG).await.unwrap().status(), 200);
    pass(REST).await;
    resting(&lab, 1).await;
    pass(Duration::from_secs(2)).await;
    resting(&lab, 1).await;
    pass(Duration::from_secs(1)).await;
    let (said, end) = client.read_to_close(LONG).await;
    assert_eq!((said, end), (Vec::new(), End::Closed));
}

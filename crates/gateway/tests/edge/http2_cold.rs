//! A burst on a connection of HTTP/2 that is new, to an upstream that takes few requests at once.

use std::sync::Arc;

use bytes::Bytes;
use h2::server::Builder;
use http::Request;
use tidegate_testkit::{Client, body};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::bench::{ALL, LONG, gateway};
use crate::h2c::H2c;

const BURST: usize = 90;

#[tokio::test]
async fn a_burst_on_a_new_connection_keeps_to_what_the_upstream_takes() {
    for most in [50, 10, 1] {
        let open = Arc::new(Semaphore::new(0));
        let door = open.clone();
        let mut builder = Builder::new();
        builder.max_concurrent_streams(most);
        let upstream = H2c::start(builder, move |asked| {
            let door = door.clone();
            async move {
                door.acquire().await.unwrap().forget();
                asked.echo().await;
            }
        })
        .await;
        // On a busy machine the connections take their time, one after the other.
        let patient = format!("timeouts: {{ connect: 30s }}\n{ALL}");
        let gateway = gateway(&upstream.url, &patient).await;
        let mut posting = JoinSet::new();
        for n in 0..BURST {
            let client = Client::fresh(gateway.address);
            posting.spawn(async move {
                let text = n.to_string();
                let answer = client.post("/", text.clone()).await;
                assert_eq!((answer.status.as_u16(), answer.text()), (200, &*text));
            });
        }
        // All of them are there at once, on as many connections as that needs.
        upstream.wait_for(BURST).await;
        open.add_permits(BURST);
        posting.join_all().await;
        assert_eq!(upstream.requests(), BURST, "each is sent once");
        let needed = BURST.div_ceil(most as usize);
        let connections = upstream.connections();
        assert!(
            (needed..=needed + 2).contains(&connections),
            "{connections} connections at {most} requests each"
        );
    }
}

/// Refuses the first request to come, as soon as it has this much of its body.
async fn refusing_once(after: usize) -> H2c {
    H2c::start(Builder::new(), move |mut asked| async move {
        if asked.number > 0 {
            return asked.echo().await;
        }
        let mut read = 0;
        while read < after {
            let part = asked.request.body_mut().data().await.unwrap().unwrap();
            let flow = asked.request.body_mut().flow_control();
            flow.release_capacity(part.len()).unwrap();
            read += part.len();
        }
        asked.refuse();
    })
    .await
}

#[tokio::test]
async fn a_refused_request_with_a_small_body_is_sent_again() {
    let text = "x".repeat(16 << 10);
    for after in [0, 1, text.len()] {
        for fresh in [Client::fresh, Client::h2] {
            let upstream = refusing_once(after).await;
            let gateway = gateway(&upstream.url, ALL).await;
            let answer = fresh(gateway.address).post("/", text.clone()).await;
            assert_eq!(answer.status, 200, "refused after {after}");
            assert_eq!(answer.text(), text);
            assert_eq!(upstream.requests(), 2);
        }
    }
}

/// What was sent is sent again, and what comes later follows it.
#[tokio::test]
async fn a_request_that_is_refused_in_the_midst_of_its_body_is_sent_again_and_goes_on() {
    let upstream = refusing_once(5).await;
    let gateway = gateway(&upstream.url, ALL).await;
    for client in [Client::fresh(gateway.address), Client::h2(gateway.address)] {
        let (mut sender, streamed) = body::channel();
        let sending = async {
            sender.send_data(Bytes::from("first")).await.unwrap();
            upstream.wait_for(2).await;
            sender.send_data(Bytes::from(" second")).await.unwrap();
            drop(sender);
        };
        let request = Request::post("/").body(streamed).unwrap();
        let (answer, ()) = tokio::join!(client.request(request), sending);
        assert_eq!(
            (answer.status.as_u16(), answer.text()),
            (200, "first second")
        );
    }
}

/// A body that is too large to be kept is sent once, and the client learns that nothing was done.
#[tokio::test]
async fn a_refused_request_with_a_large_body_is_told_so() {
    let text = "x".repeat(100 << 10);
    for after in [0, text.len()] {
        let upstream = refusing_once(after).await;
        let gateway = gateway(&upstream.url, ALL).await;
        let client = Client::fresh(gateway.address);
        let answer = tokio::time::timeout(LONG, client.post("/", text.clone())).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status, 503, "refused after {after}");
        assert!(
            answer.text().contains("upstream_refused"),
            "{}",
            answer.text()
        );
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(upstream.requests(), 1);
    }
}

//! Upstreams that give no answer: what a request reserved stays charged, unless nothing of it was sent.

use http::Response;
use tidegate_testkit::{Client, RawClient, Upstream, body};

use crate::kit::{LONG, answer_to, left, on_both_stores, until};
use crate::support::TestGateway;

const LOGIN: &str = "sliding_window_log: { limit: 5, window: 1h }, count: { status: [401] }";
const COST: &str =
    "fixed_window: { limit: 5, window: 31d }, cost: { response_header: X-Cost, reserve: 1 }";

async fn start(store: &str, limit: &str, upstream: &Upstream) -> TestGateway {
    let url = upstream.url();
    TestGateway::start(&format!(
        "{store}secret: the same\nlimits: {{ it: {{ {limit} }} }}\n\
         routes: [{{ path: /**, upstream: \"{url}\", limits: [it], timeouts: {{ upstream: 1s }} }}]\n"
    ))
    .await
}

/// Breaks the connection at `/broken`, and answers nothing at `/silent`.
fn failing() -> Upstream {
    Upstream::start(|request| async move {
        match request.uri().path() {
            "/broken" => panic!("a connection that breaks"),
            "/silent" => std::future::pending::<()>().await,
            _ => {}
        }
        Response::new(body::full("answered"))
    })
}

#[tokio::test]
async fn a_request_that_was_forwarded_in_vain_stays_charged() {
    on_both_stores(async |store| {
        for limit in [LOGIN, COST] {
            let upstream = failing();
            let gateway = start(store, limit, &upstream).await;
            let client = Client::new(gateway.address);
            for (path, status, stays) in [("/broken", 502, 4), ("/silent", 504, 3)] {
                assert_eq!(client.get(path).await.status, status);
                until("it is settled", async || left(gateway.admin).await == stays).await;
            }
            gateway.stop().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_request_of_which_nothing_was_sent_is_given_back() {
    on_both_stores(async |store| {
        for limit in [LOGIN, COST] {
            let upstream = failing();
            upstream.stop().await;
            let gateway = start(store, limit, &upstream).await;
            let client = Client::new(gateway.address);
            for _ in 0..7 {
                assert_eq!(client.get("/").await.status, 502);
                until("it is given back", async || left(gateway.admin).await == 5).await;
            }
            gateway.stop().await;
        }
    })
    .await;
}

/// A client must not get its guess back by making the rest of its own request invalid.
#[tokio::test]
async fn a_body_that_turns_out_invalid_leaves_the_request_charged() {
    on_both_stores(async |store| {
        let upstream = failing();
        let gateway = start(store, LOGIN, &upstream).await;
        for nth in 1..=2 {
            let mut client = RawClient::connect(gateway.address).await;
            let head = "POST /silent HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhal\r\n";
            client.send(head).await.unwrap();
            upstream.wait_for(nth, LONG).await;
            let answer = answer_to(&mut client, "no length\r\n").await;
            assert_eq!(answer.status(), 400);
            let stays = 5 - nth as u64;
            until("it is settled", async || left(gateway.admin).await == stays).await;
        }
        gateway.stop().await;
    })
    .await;
}

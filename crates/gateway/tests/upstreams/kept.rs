//! Kept connections that a server has closed when the next request is sent on them.

use std::sync::Arc;

use http::Method;
use tidegate_testkit::{Action, Client, RawUpstream, When};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::group::{LONG, ask, gateway, metric};
use crate::support::TestGateway;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const KEPT: usize = 8;

/// Answers the first request of each connection as soon as the test says so, and closes at the second.
fn closing(answer: &Arc<Notify>, end: Action) -> RawUpstream {
    let answer = answer.clone();
    RawUpstream::start(When::Request, move |turn| match turn.request {
        0 if turn.connection < KEPT => vec![Action::Until(answer.clone()), Action::send(OK)],
        0 => vec![Action::send(OK)],
        _ => vec![end.clone()],
    })
}

/// A gateway that keeps eight connections, each of which ends with its next request.
async fn keeping(end: Action, route: &str) -> (RawUpstream, TestGateway) {
    let answer = Arc::new(Notify::new());
    let server = closing(&answer, end);
    let gateway = gateway(&[server.url()], "eject: { after: 1, for: 1h }", route).await;
    let address = gateway.address;
    let mut asked = JoinSet::new();
    for _ in 0..KEPT {
        asked.spawn(async move { Client::new(address).get("/").await.status });
    }
    server.wait_for(LONG, |seen| seen.len() == KEPT).await;
    let all_sent = |seen: &[Vec<u8>]| seen.iter().all(|seen| !seen.is_empty());
    server.wait_for(LONG, all_sent).await;
    for _ in 0..KEPT {
        answer.notify_one();
        assert_eq!(asked.join_next().await.unwrap().unwrap(), 200);
    }
    (server, gateway)
}

#[tokio::test]
async fn an_idempotent_request_takes_a_fresh_connection_after_the_first_closed_one() {
    let retries = "retries: { attempts: 1, budget: 100% }";
    for (end, route) in [
        (Action::Close, ""),
        (Action::Reset, ""),
        (Action::Close, retries),
    ] {
        for (method, text) in [
            (Method::GET, ""),
            (Method::HEAD, ""),
            (Method::OPTIONS, ""),
            (Method::DELETE, ""),
            (Method::PUT, "text"),
        ] {
            let (server, gateway) = keeping(end.clone(), route).await;
            assert_eq!(
                ask(&Client::new(gateway.address), method.clone(), text).await,
                200,
                "{method}"
            );
            let last = server.requests().pop().unwrap();
            assert_eq!(
                (server.seen().len(), &*last.body),
                (KEPT + 1, text.as_bytes())
            );
            assert_eq!(metric(&gateway, "ejections_total", "").await, 0);
        }
    }
}

/// Such as uWSGI with `--http-socket`, which does not announce it.
#[tokio::test]
async fn a_server_that_closes_after_each_answer_gets_connections_of_their_own() {
    let server = RawUpstream::start(When::Request, |turn| match turn.request {
        0 => vec![Action::send(OK)],
        _ => vec![Action::Close],
    });
    let gateway = gateway(&[server.url()], "", "").await;
    for _ in 0..10 {
        assert_eq!(
            ask(&Client::new(gateway.address), Method::GET, "").await,
            200
        );
        assert_eq!(
            ask(&Client::new(gateway.address), Method::GET, "").await,
            200
        );
        assert_eq!(
            ask(&Client::new(gateway.address), Method::POST, "text").await,
            200
        );
    }
}

#[tokio::test]
async fn an_idle_connection_is_kept_for_as_long_as_the_file_says() {
    for (idle, connections) in [("1ms", 3), ("1h", 1)] {
        let server = RawUpstream::answering(OK);
        let gateway = gateway(&[server.url()], &format!("idle: {idle}"), "").await;
        for _ in 0..3 {
            assert_eq!(
                ask(&Client::new(gateway.address), Method::GET, "").await,
                200
            );
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(server.seen().len(), connections);
    }
}

//! Connections to upstreams: kept for the next request, left when they are closed, and no POST sent twice.

use http::Request;
use http_body_util::BodyExt as _;
use tidegate_testkit::{Action, Client, RawClient, RawUpstream, Upstream, When, body};
use tokio::task::JoinSet;

use crate::lab::{ALL, LONG, Lab, OK, gateway};

#[tokio::test]
async fn requests_one_after_the_other_share_a_connection() {
    let upstream = Upstream::ok();
    let gateway = gateway(upstream.url(), ALL).await;
    for client in [Client::new, Client::fresh, Client::h2] {
        let client = client(gateway.address);
        for _ in 0..20 {
            assert_eq!(client.get("/").await.status, 200);
            assert_eq!(client.post("/", "body").await.status, 200);
        }
    }
    assert_eq!((upstream.count(), upstream.connections()), (120, 1));
}

/// As many as are busy at once, and never again as many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_at_the_same_time_have_connections_of_their_own_which_are_kept() {
    const AT_ONCE: usize = 16;
    let upstream = Upstream::ok();
    let gateway = gateway(upstream.url(), ALL).await;
    let mut clients = JoinSet::new();
    for _ in 0..AT_ONCE {
        let client = Client::new(gateway.address);
        clients.spawn(async move {
            for _ in 0..50 {
                assert_eq!(client.post("/", "body").await.status, 200);
            }
        });
    }
    clients.join_all().await;
    assert_eq!(upstream.count(), 50 * AT_ONCE);
    // A connection is ready again when its own task has seen the end of the answer, which may be
    // after the client has: now and then one more is opened.
    assert!(
        upstream.connections() <= 4 * AT_ONCE,
        "{}",
        upstream.connections()
    );
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let upstream = Upstream::echo();
    let gateway = gateway(upstream.url(), ALL).await;
    let mut client = RawClient::connect(gateway.address).await;
    let requests: String = (0..20)
        .map(|n| format!("POST /{n} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{n:02}"))
        .collect();
    client.send(requests).await.unwrap();
    for n in 0..20 {
        let answer = client.response(LONG).await.unwrap();
        assert_eq!((answer.status(), answer.text()), (200, &*format!("{n:02}")));
    }
    let targets: Vec<_> = upstream
        .requests()
        .into_iter()
        .map(|request| request.target)
        .collect();
    assert_eq!(
        targets,
        (0..20).map(|n| format!("/{n}")).collect::<Vec<_>>()
    );
}

/// Whatever it says of keep-alive, a connection that the upstream has closed is not used.
#[tokio::test]
async fn a_connection_that_was_closed_between_requests_costs_no_request() {
    for said in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ] {
        let script = [Action::send(said), Action::Close];
        let upstream = RawUpstream::start(When::Request, move |_| script.to_vec());
        let lab = Lab::around(upstream, ALL).await;
        let client = Client::new(lab.gateway.address);
        for _ in 0..20 {
            assert_eq!(client.post("/", "body").await.text(), "ok", "{said}");
        }
        assert_eq!(
            lab.upstream.requests().len(),
            20,
            "{said}: each arrived once"
        );
        assert_eq!(lab.upstream.seen().len(), 20, "{said}");
        assert_eq!(client.connections(), 1, "{said}: the client's is kept");
    }
}

/// The upstream may have acted on the part that it read. A second run of an idempotent request changes no more (RFC 9110, 9.2.2).
#[tokio::test]
async fn of_what_was_sent_only_idempotent_requests_are_sent_again() {
    for (method, expected, sent) in [
        ("POST", [200, 502, 200], &[2, 1][..]),
        ("PATCH", [200, 502, 200], &[2, 1]),
        ("GET", [200; 3], &[2, 2, 1]),
        ("PUT", [200; 3], &[2, 2, 1]),
        ("DELETE", [200; 3], &[2, 2, 1]),
    ] {
        for when in [When::Head, When::Request] {
            for end in [Action::Close, Action::Reset] {
                let upstream = RawUpstream::start(when, move |turn| match turn.request {
                    0 => vec![Action::send(OK)],
                    _ => vec![end.clone()],
                });
                let lab = Lab::around(upstream, ALL).await;
                let mut client = lab.connect().await;
                let head = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
                let mut statuses = Vec::new();
                for body in ["kept", "lost", "next"] {
                    client.send(format!("{head}{body}")).await.unwrap();
                    statuses.push(client.response(LONG).await.unwrap().status());
                }
                // The second request on a connection breaks it.
                assert_eq!(statuses, expected, "{method}");
                let seen = lab.upstream.seen();
                let heads = |seen: &Vec<u8>| String::from_utf8_lossy(seen).matches(method).count();
                assert_eq!(seen.iter().map(heads).collect::<Vec<_>>(), sent, "{method}");
            }
        }
    }
}

/// An answer that has not been read to its end leaves its connection unfit for another.
#[tokio::test]
async fn a_connection_with_half_an_answer_is_not_kept() {
    let upstream = RawUpstream::start(When::Request, |turn| match turn.connection {
        0 => vec![
            Action::send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf"),
            Action::Hang,
        ],
        _ => vec![Action::send(OK)],
    });
    let lab = Lab::around(upstream, ALL).await;
    let client = Client::new(lab.gateway.address);
    let mut answer = client
        .open(Request::get("/").body(body::empty()).unwrap())
        .await;
    let half = answer.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(half.into_data().unwrap(), "half");
    drop((answer, client));
    assert_eq!(Client::new(lab.gateway.address).get("/").await.text(), "ok");
    assert_eq!(lab.upstream.seen().len(), 2);
}

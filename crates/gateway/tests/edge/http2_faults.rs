//! Upstreams of HTTP/2 that refuse requests, go away, or break: what was not begun with is sent again, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::Reason;
use h2::server::{Connection, SendResponse};
use http::{Request, Response};
use tidegate_testkit::Client;
use tokio::net::{TcpListener, TcpStream};

use crate::bench::{ALL, LONG, gateway, sample, through};
use crate::frames::{END_HEADERS, END_STREAM, HEADERS, frame};
use crate::raw_h2c::{RawH2c, STATUS_200};
use crate::support::TestGateway;

type Stranger = Connection<TcpStream, Bytes>;

/// An upstream that treats each connection as a test wants.
struct Strange {
    url: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

/// What becomes of a request, by the numbers of its connection and of itself on that.
enum Fate {
    Answered,
    Refused,
    /// The connection says that it goes away after this request, which it answers.
    LastAnswered,
    /// The connection goes away and has not begun with this request.
    NotBegun,
    /// The connection breaks.
    Broken,
    /// No answer comes, and the connection stays.
    Silent,
}

impl Strange {
    async fn start(fate: fn(usize, usize) -> Fate) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let strange = Self {
            url: format!("h2c://{}", listener.local_addr().unwrap()),
            connections: Arc::default(),
            requests: Arc::default(),
        };
        let (connections, requests) = (strange.connections.clone(), strange.requests.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = connections.fetch_add(1, Ordering::Relaxed);
                let requests = requests.clone();
                tokio::spawn(async move {
                    let connection = h2::server::handshake(stream).await.unwrap();
                    serve(connection, requests, |n| fate(number, n)).await;
                });
            }
        });
        strange
    }

    fn counts(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        (count(&self.connections), count(&self.requests))
    }
}

async fn serve(mut connection: Stranger, requests: Arc<AtomicUsize>, fate: impl Fn(usize) -> Fate) {
    let (mut n, mut silent) = (0, Vec::new());
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        requests.fetch_add(1, Ordering::Relaxed);
        match fate(n) {
            Fate::Answered => answer(request, respond),
            Fate::Refused => respond.send_reset(Reason::REFUSED_STREAM),
            Fate::LastAnswered => {
                answer(request, respond);
                connection.graceful_shutdown();
            }
            Fate::NotBegun => {
                // hyper's own server cannot say this: the last stream that it accepted counts as begun with.
                respond.send_reset(Reason::REFUSED_STREAM);
                connection.graceful_shutdown();
            }
            Fate::Broken => return,
            Fate::Silent => silent.push(respond),
        }
        n += 1;
    }
}

fn answer(request: Request<h2::RecvStream>, mut respond: SendResponse<Bytes>) {
    let mut sending = respond.send_response(Response::new(()), false).unwrap();
    tokio::spawn(async move {
        let mut body = request.into_body();
        while body.data().await.is_some() {}
        sending.send_data("ok".into(), true).unwrap();
    });
}

async fn statuses(strange: &Strange, posts: bool, number: usize) -> Vec<u16> {
    let gateway = gateway(&strange.url, ALL).await;
    let client = Client::new(gateway.address);
    let mut statuses = Vec::new();
    for _ in 0..number {
        let answer = if posts {
            client.post("/", "body").await
        } else {
            client.get("/").await
        };
        statuses.push(answer.status.as_u16());
    }
    statuses
}

#[tokio::test]
async fn a_refused_request_is_sent_again_elsewhere() {
    let fate = |connection, n| match (connection, n) {
        (0, 1) => Fate::Refused,
        _ => Fate::Answered,
    };
    for posts in [false, true] {
        let strange = Strange::start(fate).await;
        assert_eq!(statuses(&strange, posts, 3).await, [200, 200, 200]);
        assert_eq!(strange.counts(), (2, 4));
    }
}

#[tokio::test]
async fn whoever_refuses_everything_is_not_asked_for_ever() {
    let strange = Strange::start(|_, _| Fate::Refused).await;
    assert_eq!(statuses(&strange, false, 1).await, [503]);
    assert_eq!(strange.counts(), (3, 3));
}

#[tokio::test]
async fn a_server_that_goes_away_answers_what_it_has_and_is_asked_anew() {
    let strange = Strange::start(|_, n| match n {
        1 => Fate::LastAnswered,
        _ => Fate::Answered,
    })
    .await;
    let statuses = tokio::time::timeout(LONG, statuses(&strange, true, 6)).await;
    // One may meet the connection just as it goes away.
    let failed = statuses
        .unwrap()
        .iter()
        .filter(|status| **status != 200)
        .count();
    assert!(failed <= 2, "{failed} of 6 failed");
    assert!(strange.counts().0 >= 2);
}

#[tokio::test]
async fn what_a_server_had_not_begun_with_when_it_went_is_sent_again() {
    let fate = |connection, n| match (connection, n) {
        (0, 1) => Fate::NotBegun,
        _ => Fate::Answered,
    };
    for posts in [false, true] {
        let strange = Strange::start(fate).await;
        assert_eq!(statuses(&strange, posts, 4).await, [200; 4]);
        assert_eq!(strange.counts(), (2, 5));
    }
}

#[tokio::test]
async fn a_request_on_a_connection_that_breaks_is_sent_again_if_it_is_idempotent() {
    let fate = |connection, n| match (connection, n) {
        (0, 1) => Fate::Broken,
        _ => Fate::Answered,
    };
    let strange = Strange::start(fate).await;
    assert_eq!(statuses(&strange, false, 3).await, [200; 3]);
    assert_eq!(strange.counts(), (2, 4));
    // A POST may have been done.
    let strange = Strange::start(fate).await;
    assert_eq!(statuses(&strange, true, 3).await, [200, 502, 200]);
    assert_eq!(strange.counts(), (2, 3));
}

/// They end before the upstream's time does: nothing else would end them.
#[tokio::test]
async fn interim_answers_without_end_are_a_502() {
    /// `:status 103`, as HPACK has it.
    const EARLY_HINTS: &[u8] = b"\x08\x03103";
    for (interim, status) in [(100, 200), (100_000, 502)] {
        let upstream = RawH2c::start(move |kind, stream, _| {
            if kind != HEADERS {
                return Vec::new();
            }
            let mut answer = frame(HEADERS, END_HEADERS, stream, EARLY_HINTS).repeat(interim);
            if status == 200 {
                answer.extend(frame(
                    HEADERS,
                    END_HEADERS | END_STREAM,
                    stream,
                    &STATUS_200,
                ));
            }
            answer
        })
        .await;
        let gateway = gateway(&upstream.url, ALL).await;
        let asked = tokio::time::timeout(LONG, async move {
            Client::new(gateway.address).get("/").await.status
        });
        assert_eq!(asked.await.expect("it ends"), status);
    }
}

/// How many health checks had this outcome.
async fn checks(gateway: &TestGateway, outcome: &str) -> u64 {
    let labels = format!("{{upstream=\"it\",outcome=\"{outcome}\"}}");
    let name = format!("tidegate_upstream_checks_total{labels}");
    sample(gateway.admin, &name).await
}

/// It asks again on a fresh one.
#[tokio::test]
async fn a_health_check_that_meets_a_broken_connection_does_not_fail() {
    let strange = Strange::start(|_, n| match n {
        0 => Fate::Answered,
        _ => Fate::Broken,
    })
    .await;
    let health = "health: { path: /, every: 20ms, unhealthy_after: 1 }";
    let gateway = through(&strange.url, health).await;
    let checks = async |outcome| checks(&gateway, outcome).await;
    while checks("passed").await < 6 {
        tokio::task::yield_now().await;
    }
    assert_eq!(checks("failed").await, 0);
    // Each connection but the first was met by a check that failed on the one before.
    assert!(strange.counts().0 >= 3);
}

/// The connection may be dead. The next check takes a fresh one.
#[tokio::test]
async fn a_health_check_without_an_answer_retires_its_connection() {
    let strange = Strange::start(|connection, n| match (connection, n) {
        (0, 1..) => Fate::Silent,
        _ => Fate::Answered,
    })
    .await;
    let health = "health: { path: /, every: 20ms, timeout: 1s, unhealthy_after: 1 }";
    let gateway = through(&strange.url, health).await;
    let checks = async |outcome| checks(&gateway, outcome).await;
    let pass = async {
        while checks("passed").await < 3 {
            tokio::task::yield_now().await;
        }
    };
    let passed = tokio::time::timeout(LONG, pass).await;
    passed.expect("checks pass on another connection");
    assert!(checks("failed").await >= 1);
    assert!(strange.counts().0 >= 2);
}

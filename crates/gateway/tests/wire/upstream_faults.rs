//! Upstreams that cannot be reached, hang, break off or say too much: what clients are told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Request;
use http_body_util::BodyExt as _;
use tidegate_testkit::{
    Action, Client, FaultProxy, Message, Port, RawClient, RawUpstream, Silent, Upstream, Way, When,
    body,
};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::lab::{ALL, LONG, Lab, OK, answer_to, gateway, lasted};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const PATIENCE: Duration = Duration::from_millis(300);

/// Gives upstreams little time.
fn impatient() -> String {
    format!("timeouts: {{ connect: 300ms, upstream: 300ms }}\n{ALL}")
}

/// The first connection plays `script` as soon as the head of a request is there; others answer.
fn first(script: impl Fn() -> Vec<Action> + Send + Sync + 'static) -> RawUpstream {
    RawUpstream::start(When::Head, move |turn| match turn.connection {
        0 => script(),
        _ => vec![Action::send(OK)],
    })
}

/// Asks twice: the first is answered with `status`, for the second a new connection is made.
async fn fails_once(lab: &Lab, status: u16) -> Message {
    let mut client = lab.connect().await;
    let answer = answer_to(&mut client, GET).await;
    assert_eq!(answer.status(), status, "{answer:?}");
    assert_eq!(
        answer_to(&mut client, GET).await.status(),
        200,
        "the client's is kept"
    );
    assert_eq!(lab.upstream.seen().len(), 2);
    answer
}

#[tokio::test]
async fn an_upstream_that_refuses_connections_is_a_502_until_it_is_back() {
    let upstream = Upstream::ok();
    let gateway = gateway(upstream.url(), ALL).await;
    let client = Client::new(gateway.address);
    for _ in 0..2 {
        assert_eq!(client.get("/").await.status, 200);
        upstream.stop().await;
        for _ in 0..2 {
            let answer = client.get("/").await;
            assert_eq!(answer.status, 502);
            assert!(
                answer.text().contains("upstream_unreachable"),
                "{}",
                answer.text()
            );
        }
        upstream.restart();
    }
    assert_eq!(client.connections(), 1, "the client's is kept");
}

#[tokio::test]
async fn an_upstream_that_does_not_accept_is_a_504() {
    let silent = Silent::start();
    let gateway = gateway(format!("http://{}", silent.addr()), &impatient()).await;
    let from = Instant::now();
    let answer = Client::new(gateway.address).get("/").await;
    assert_eq!(answer.status, 504);
    lasted(from, PATIENCE);
}

#[tokio::test]
async fn while_one_server_accepts_nobody_notices_those_that_do_not() {
    let (nobody, silent) = (Port::reserve(), Silent::start());
    let upstream = RawUpstream::answering(OK);
    let servers =
        [nobody.addr(), silent.addr(), upstream.addr()].map(|a| format!("\"http://{a}\""));
    let yaml = format!(
        "timeouts: {{ connect: 50ms }}\nupstreams: {{ three: {{ servers: [{}] }} }}\n\
         routes: [{{ path: /**, upstream: three }}]",
        servers.join(", ")
    );
    let gateway = gateway("", &yaml).await;
    let client = Client::new(gateway.address);
    for _ in 0..6 {
        assert_eq!(client.post("/", "once").await.status, 200);
    }
    assert_eq!(upstream.requests().len(), 6);
}

#[tokio::test]
async fn an_upstream_that_hangs_is_a_504() {
    for said in [
        "",
        "HTTP/1.1 200 OK\r\nContent-",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        let upstream = first(move || vec![Action::send(said), Action::Hang]);
        let lab = Lab::around(upstream, &impatient()).await;
        let from = Instant::now();
        let answer = fails_once(&lab, 504).await;
        lasted(from, PATIENCE);
        assert!(answer.text().contains("upstream_timeout"), "{answer:?}");
    }
}

/// What it has not taken of a body counts against it, what the client has not sent does not.
#[tokio::test]
async fn an_upstream_that_stops_reading_a_body_is_a_504() {
    let upstream = RawUpstream::answering(OK);
    let proxy = FaultProxy::start(upstream.addr());
    let gateway = gateway(format!("http://{}", proxy.addr()), &impatient()).await;
    let client = Client::new(gateway.address);
    let (mut sender, body) = body::channel();
    let slowly = async {
        for _ in 0..3 {
            sleep(2 * PATIENCE).await;
            sender.send_data("part".into()).await.unwrap();
        }
        drop(sender);
    };
    let request = Request::post("/").body(body).unwrap();
    let (answer, ()) = tokio::join!(client.request(request), slowly);
    assert_eq!(answer.status, 200);

    proxy.stall(Way::ToServer, true);
    let from = Instant::now();
    let mut client = RawClient::connect(gateway.address).await;
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n")
        .await
        .unwrap();
    timeout(LONG, client.send(vec![b'x'; 30_000_000]))
        .await
        .expect("the gateway takes it")
        .ok();
    assert_eq!(client.response(LONG).await.unwrap().status(), 504);
    lasted(from, PATIENCE);
}

#[tokio::test]
async fn an_upstream_that_breaks_off_before_its_answer_is_a_502() {
    for said in [
        "",
        "HTTP/1.1",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        for end in [Action::Close, Action::Reset] {
            let upstream = first(move || vec![Action::send(said), end.clone()]);
            let lab = Lab::around(upstream, ALL).await;
            let answer = fails_once(&lab, 502).await;
            assert!(answer.text().contains("upstream_failed"), "{answer:?}");
        }
    }
}

/// They end before the upstream's time does: nothing else would end them.
#[tokio::test]
async fn interim_answers_without_end_are_a_502() {
    for interim in ["100 Continue", "103 Early Hints\r\nLink: </a.css>"] {
        let interim = format!("HTTP/1.1 {interim}\r\n\r\n");
        let some = interim.repeat(100);
        let whole = first(move || vec![Action::send(format!("{some}{OK}"))]);
        let lab = Lab::around(whole, ALL).await;
        let mut client = lab.connect().await;
        assert_eq!(answer_to(&mut client, GET).await.status(), 200);

        let script = [Action::Repeat(interim.into())];
        let lab = Lab::around(first(move || script.to_vec()), ALL).await;
        let answer = fails_once(&lab, 502).await;
        assert!(answer.text().contains("upstream_failed"), "{answer:?}");
    }
}

/// Half an answer, in each framing.
const HALVES: [&str; 4] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
];

#[tokio::test]
async fn an_answer_that_breaks_off_over_http_2_is_an_error() {
    for half in HALVES {
        for end in [Action::Close, Action::Reset, Action::Hang] {
            let script = [Action::send(half), end];
            let lab = Lab::around(first(move || script.to_vec()), &impatient()).await;
            let client = Client::h2(lab.gateway.address);
            let request = Request::get("/").body(body::empty()).unwrap();
            let answer = client.open(request).await;
            let read = timeout(LONG, answer.into_body().collect())
                .await
                .expect("it ends");
            assert!(read.is_err(), "{half}: {read:?}");
            assert_eq!(client.get("/").await.status, 200);
            assert_eq!(client.connections(), 1, "the other requests go on");
        }
    }
}

#[tokio::test]
async fn a_head_without_end_is_a_502() {
    for endless in ["X: y\r\n", "y"] {
        let start = Action::send("HTTP/1.1 200 OK\r\nX: ");
        let script = [start, Action::Repeat(endless.into())];
        let lab = Lab::around(first(move || script.to_vec()), ALL).await;
        fails_once(&lab, 502).await;
    }
}

/// Its request goes with it: the connection to the upstream is closed, and the handler there ends.
#[tokio::test]
async fn for_a_client_that_leaves_nobody_works_on() {
    struct Ends(Arc<Notify>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let ended = Arc::new(Notify::new());
    let guard = ended.clone();
    let upstream = Upstream::start(move |_| {
        let works = Ends(guard.clone());
        async move {
            std::future::pending::<()>().await;
            drop(works);
            unreachable!("nothing is pending for ever, but for this")
        }
    });
    let gateway = gateway(upstream.url(), ALL).await;
    for (count, client) in [Client::new, Client::h2].into_iter().enumerate() {
        let client = client(gateway.address);
        let leaving = tokio::spawn(async move { client.get("/").await });
        upstream.wait_for(count + 1, LONG).await;
        leaving.abort();
        timeout(LONG, ended.notified())
            .await
            .expect("the upstream still works");
    }
}

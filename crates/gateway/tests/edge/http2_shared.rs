//! What some clients do on an HTTP/2 connection to an upstream leaves its other requests alone.

use std::sync::Arc;

use h2::server::Builder;
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tidegate_testkit::{Client, RawClient, body};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::bench::{ALL, LONG, gateway};
use crate::frames::{DATA, END_HEADERS, HEADERS, RST_STREAM, frame};
use crate::h2c::H2c;
use crate::raw_h2c::{RawH2c, STATUS_200};

/// Begins an answer to each request, gives back what it is sent, and sends so many frames after the request was reset.
async fn answering(late: usize) -> RawH2c {
    RawH2c::start(move |kind, stream, payload| match kind {
        HEADERS => {
            let head = frame(HEADERS, END_HEADERS, stream, &STATUS_200);
            [head, frame(DATA, 0, stream, b"begun")].concat()
        }
        DATA => frame(DATA, 0, stream, payload),
        RST_STREAM => frame(DATA, 0, stream, &[b'x'; 300]).repeat(late),
        _ => vec![],
    })
    .await
}

/// A request that stays open.
struct Bystander {
    sender: body::Sender,
    answer: http::Response<Incoming>,
    _client: Client,
}

impl Bystander {
    async fn begin(address: std::net::SocketAddr) -> Self {
        let (sender, streamed) = body::channel();
        let client = Client::fresh(address);
        let answer = client.open(Request::post("/").body(streamed).unwrap());
        let answer = timeout(LONG, answer).await.unwrap();
        let mut this = Self {
            sender,
            answer,
            _client: client,
        };
        assert_eq!(this.hears().await, "begun");
        this
    }

    async fn hears(&mut self) -> bytes::Bytes {
        let frame = timeout(LONG, self.answer.body_mut().frame()).await;
        let frame = frame.unwrap().unwrap();
        frame.unwrap().into_data().unwrap()
    }

    async fn is_served(&mut self, text: &'static str) {
        self.sender.send_data(text.into()).await.unwrap();
        assert_eq!(self.hears().await, text);
    }
}

/// What an upstream sends before it has heard of the resets counts as nobody's fault.
#[tokio::test]
async fn answers_that_clients_give_up_leave_the_connection_to_the_others() {
    let mut upstream = answering(20).await;
    let gateway = gateway(&upstream.url, ALL).await;
    let mut bystander = Bystander::begin(gateway.address).await;
    for round in 1..=3 {
        let mut open = Vec::new();
        for _ in 0..80 {
            let client = Client::fresh(gateway.address);
            let answer = client.open(Request::get("/").body(body::empty()).unwrap());
            open.push((answer.await, client));
        }
        drop(open);
        let resets = upstream.resets.wait_for(|resets| *resets >= round * 80);
        assert!(timeout(LONG, resets).await.is_ok(), "too few resets");
        bystander.is_served("there").await;
    }
    assert_eq!(*upstream.gone.borrow(), None, "the gateway went away");
}

/// A connection on which many requests were given up is used no more, before its server may take them for an attack.
/// Its requests go on.
#[tokio::test]
async fn a_connection_with_many_resets_is_left_and_its_requests_go_on() {
    let mut upstream = answering(0).await;
    let gateway = gateway(&upstream.url, ALL).await;
    let mut bystander = Bystander::begin(gateway.address).await;
    for n in 1..=450 {
        let client = Client::fresh(gateway.address);
        let answer = client.open(Request::get("/").body(body::empty()).unwrap());
        drop((answer.await, client));
        let resets = upstream.resets.wait_for(|resets| *resets >= n);
        assert!(timeout(LONG, resets).await.is_ok(), "too few resets");
    }
    bystander.is_served("there").await;
    assert_eq!(upstream.connections(), 3);
}

#[tokio::test]
async fn broken_bodies_leave_the_connection_to_the_others() {
    let broken = Arc::new(Notify::new());
    let heard = broken.clone();
    let upstream = H2c::start(Builder::new(), move |mut asked| {
        let heard = heard.clone();
        async move {
            if asked.request.uri().path() != "/broken" {
                return asked.echo().await;
            }
            let body = asked.request.body_mut();
            while let Some(part) = body.data().await {
                if let Err(error) = part {
                    assert_eq!(error.reason(), Some(h2::Reason::CANCEL));
                    break;
                }
            }
            heard.notify_one();
        }
    })
    .await;
    let gateway = gateway(&upstream.url, ALL).await;
    for _ in 0..10 {
        // A chunk without a size, and a client that leaves in the midst of one.
        for rest in ["x\r\n", ""] {
            let mut client = RawClient::connect(gateway.address).await;
            let head = "POST /broken HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            client.send(format!("{head}5\r\nhello\r\n")).await.unwrap();
            client.send(rest).await.unwrap();
            if rest.is_empty() {
                drop(client);
            }
            timeout(LONG, broken.notified()).await.unwrap();
        }
    }
    assert_eq!(
        Client::fresh(gateway.address)
            .post("/", "body")
            .await
            .text(),
        "body"
    );
    assert_eq!(upstream.connections(), 1);
}

/// Uploads that many clients break off at once, before the upstream has looked at them, are no attack of ours.
#[tokio::test]
async fn uploads_that_break_off_at_once_do_not_end_the_connection() {
    let upstream = H2c::start(Builder::new(), |asked| asked.echo()).await;
    let gateway = gateway(&upstream.url, ALL).await;
    let mut bystander = {
        let (mut sender, streamed) = body::channel();
        sender.send_data("first ".into()).await.unwrap();
        let client = Client::fresh(gateway.address);
        let answer = tokio::spawn(async move {
            client
                .request(Request::post("/").body(streamed).unwrap())
                .await
        });
        upstream.wait_for(1).await;
        (sender, answer)
    };
    for _ in 0..3 {
        let mut clients = Vec::new();
        for _ in 0..60 {
            clients.push(RawClient::connect(gateway.address).await);
        }
        // Without an await that lets the upstream run: the test has one thread.
        for mut client in clients {
            let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            client
                .send(format!("{head}5\r\nhello\r\nx\r\n"))
                .await
                .unwrap();
            drop(client);
        }
        assert_eq!(Client::fresh(gateway.address).get("/").await.status, 200);
    }
    bystander.0.send_data("last".into()).await.unwrap();
    drop(bystander.0);
    let answer = timeout(LONG, bystander.1).await.unwrap().unwrap();
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "first last"));
}

//! H1 to H8: what HTTP/2 lets a client do to a server costs that client its connection, and others nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Response;
use tidegate_testkit::{Client, Upstream, body};

use crate::bench::LONG;
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, HEADERS, PING,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, headers,
};
use crate::support::GatewayProcess;

const MIB: u64 = 1024;
const WHOLE: u8 = END_STREAM | END_HEADERS;

/// A gateway that counts all requests, and an upstream that answers slowly enough for requests to meet.
struct Target {
    gateway: GatewayProcess,
    upstream: Upstream,
    most: Arc<AtomicUsize>,
}

impl Target {
    async fn new() -> Self {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let highest = most.clone();
        let upstream = Upstream::start(move |_| {
            let (now, highest) = (now.clone(), highest.clone());
            async move {
                highest.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::Relaxed);
                Response::new(body::full(vec![b'x'; 256 << 10]))
            }
        });
        let url = upstream.url();
        let yaml = format!(
            "timeouts: {{ idle: 2s }}\n\
             limits: {{ all: {{ fixed_window: {{ limit: 1000000, window: 31d }}, per: [ip] }} }}\n\
             routes: [{{ path: /**, upstream: \"{url}\", limits: [all] }}]\n"
        );
        let gateway = GatewayProcess::start(&yaml).await;
        // So that what it needs for anybody is there.
        Client::h2(gateway.address).get("/").await;
        Self {
            gateway,
            upstream,
            most,
        }
    }

    async fn connect(&self) -> Frames {
        Frames::connect(self.gateway.address, &[]).await
    }

    /// A well-behaved client is served.
    async fn serves(&self) {
        assert_eq!(Client::h2(self.gateway.address).get("/").await.status, 200);
    }

    /// How many requests were charged so far.
    async fn charged(&self) -> usize {
        let answer = Client::fresh(self.gateway.address).get("/").await;
        let left = answer.header("x-ratelimit-remaining").unwrap();
        1_000_000 - left.parse::<usize>().unwrap() - 1
    }
}

/// The n-th request of a client.
fn stream(n: u32) -> u32 {
    2 * n + 1
}

fn get(n: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream(n), &headers("GET", "/", &[]))
}

#[tokio::test]
async fn h1_requests_that_are_taken_back_at_once() {
    let target = Target::new().await;
    let before = target.gateway.process.rss_kb();
    let mut client = target.connect().await;
    for n in 0..10_000 {
        let taken_back = [
            get(n),
            frame(RST_STREAM, 0, stream(n), &8_u32.to_be_bytes()),
        ];
        if client.send(&taken_back).await.is_err() {
            break;
        }
    }
    let heard = client.heard(LONG).await;
    assert_eq!(heard.goaway, Some(ENHANCE_YOUR_CALM), "{heard:?}");
    let grown = target.gateway.process.rss_kb().saturating_sub(before);
    assert!(grown < 20 * MIB, "it grew by {grown} KiB");
    // Whatever reached the upstream was charged.
    assert!(target.charged().await >= target.upstream.count() - 1);
    target.serves().await;
}

#[tokio::test]
async fn h2_frames_on_streams_that_are_closed() {
    let target = Target::new().await;
    let mut client = target.connect().await;
    client.send(&[get(0)]).await.unwrap();
    let reset = frame(RST_STREAM, 0, stream(0), &8_u32.to_be_bytes());
    client.send(&[reset]).await.unwrap();
    let late = vec![frame(DATA, 0, stream(0), b"late"); 1_000];
    for _ in 0..100 {
        if client.send(&late).await.is_err() {
            break;
        }
    }
    let heard = client.heard(LONG).await;
    assert!(heard.goaway.is_some(), "{heard:?}");
    target.serves().await;
}

/// A window that is opened by nothing is a mistake, for which we have to take the stream back.
#[tokio::test]
async fn h3_requests_that_we_are_made_to_take_back() {
    let target = Target::new().await;
    let mut client = target.connect().await;
    for n in 0..10_000 {
        let mistake = frame(WINDOW_UPDATE, 0, stream(n), &0_u32.to_be_bytes());
        if client.send(&[get(n), mistake]).await.is_err() {
            break;
        }
    }
    let heard = client.heard(LONG).await;
    assert!(heard.goaway.is_some(), "{heard:?}");
    let most = target.most.load(Ordering::Relaxed);
    assert!(most <= 100, "{most} requests at once");
    target.serves().await;
}

#[tokio::test]
async fn h4_a_head_that_never_ends() {
    let target = Target::new().await;
    let before = target.gateway.process.rss_kb();
    let mut client = target.connect().await;
    let begun = frame(HEADERS, END_STREAM, 1, &headers("GET", "/", &[]));
    client.send(&[begun]).await.unwrap();
    let more = headers("GET", "/", &[("x-more", &"x".repeat(100))]);
    let more = frame(CONTINUATION, 0, 1, &more[more.len() - 109..]);
    for _ in 0..10_000 {
        if client.send(std::slice::from_ref(&more)).await.is_err() {
            break;
        }
    }
    let heard = client.heard(LONG).await;
    assert_eq!(heard.answers, 0, "{heard:?}");
    let grown = target.gateway.process.rss_kb().saturating_sub(before);
    assert!(grown < 8 * MIB, "it grew by {grown} KiB");
    target.serves().await;
}

#[tokio::test]
async fn h5_a_body_of_nothing() {
    let target = Target::new().await;
    let mut client = target.connect().await;
    let post = frame(HEADERS, END_HEADERS, 1, &headers("POST", "/", &[]));
    client.send(&[post]).await.unwrap();
    let nothing = vec![frame(DATA, 0, 1, &[]); 1_000];
    for _ in 0..1_000 {
        if client.send(&nothing).await.is_err() {
            break;
        }
    }
    let heard = client.heard(LONG).await;
    assert_eq!(heard.goaway, Some(ENHANCE_YOUR_CALM), "{heard:?}");
    target.serves().await;
}

/// Large heads on all streams, and no room for a byte of any answer.
#[tokio::test]
async fn h6_answers_that_nobody_takes() {
    let target = Target::new().await;
    let before = target.gateway.process.rss_kb();
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    let mut client = Frames::connect(target.gateway.address, &[0, 4, 0, 0, 0, 0]).await;
    let long = "x".repeat(120);
    let many = [("x-long", &*long); 90];
    for n in 0..100 {
        let large = frame(HEADERS, WHOLE, stream(n), &headers("GET", "/", &many));
        client.send(&[large]).await.unwrap();
    }
    target.upstream.wait_for(101, LONG).await;
    let grown = target.gateway.process.rss_kb().saturating_sub(before);
    assert!(grown < 24 * MIB, "it grew by {grown} KiB");
    // Each of them is given up in the end, and with them the connection.
    let heard = client.heard(LONG).await;
    assert_eq!((heard.answers, heard.resets), (100, 100), "{heard:?}");
    target.serves().await;
}

#[tokio::test]
async fn h7_what_would_be_two_requests_in_http_1() {
    let target = Target::new().await;
    let before = target.upstream.count();
    for more in [
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("upgrade", "websocket"),
        ("X-Upper", "a"),
        ("x-a", "b\r\nx-c: d"),
        ("x-a\r\nx-b", "c"),
        ("x a", "b"),
        (":path", "/other"),
        ("host", "other"),
        ("content-length", "5"),
    ] {
        let mut client = target.connect().await;
        let request = frame(HEADERS, WHOLE, 1, &headers("GET", "/", &[more]));
        client.send(&[request]).await.unwrap();
        let heard = client.close(LONG).await;
        let is_refused = heard.resets + heard.answers <= 1;
        assert!(is_refused, "{more:?}: {heard:?}");
    }
    for path in ["nothing", "/a\r\nb", "/a b"] {
        let mut client = target.connect().await;
        let request = frame(HEADERS, WHOLE, 1, &headers("GET", path, &[]));
        client.send(&[request]).await.unwrap();
        client.close(LONG).await;
    }
    assert_eq!(target.upstream.count(), before);
    target.serves().await;
}

#[tokio::test]
async fn h8_settings_and_pings_without_end() {
    let target = Target::new().await;
    let before = target.gateway.process.rss_kb();
    for flood in [frame(SETTINGS, 0, 0, &[]), frame(PING, 0, 0, &[0; 8])] {
        let mut client = target.connect().await;
        let flood = vec![flood; 1_000];
        for _ in 0..100 {
            if client.send(&flood).await.is_err() {
                break;
            }
        }
        target.serves().await;
        client.close(LONG).await;
    }
    let grown = target.gateway.process.rss_kb().saturating_sub(before);
    assert!(grown < 20 * MIB, "it grew by {grown} KiB");
}

//! What HTTP/2 lets a client do to a server, and a gateway that it is done to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Response;
use tidegate_testkit::{Client, Upstream, body};
use tokio::runtime::{Builder, Runtime};

use crate::bench::LONG;
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, HEADERS, Heard, PING, PRIORITY,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, headers,
};
use crate::support::GatewayProcess;

pub(crate) const MIB: u64 = 1024;
pub(crate) const WHOLE: u8 = END_STREAM | END_HEADERS;
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();
/// What one frame may hold.
const FRAME: usize = 16 << 10;

/// A gateway that counts all requests, and an upstream that answers with much and slowly enough for requests to meet.
pub(crate) struct Target {
    pub(crate) gateway: GatewayProcess,
    pub(crate) upstream: Upstream,
    /// The most requests that the upstream had at once.
    pub(crate) most: Arc<AtomicUsize>,
    /// Where the good client and its upstream, that of `/good`, have no part in what the test does to others.
    pub(crate) aside: Aside,
    _good: Upstream,
}

/// A thread of one's own.
pub(crate) struct Aside(Option<Runtime>);

impl Aside {
    fn new() -> Self {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        Self(Some(runtime.unwrap()))
    }

    /// What is started here runs there.
    pub(crate) fn start<T>(&self, start: impl FnOnce() -> T) -> T {
        let _there = self.0.as_ref().unwrap().enter();
        start()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.0.take().unwrap().shutdown_background();
    }
}

impl Target {
    /// One that waits for a silent client as long as `timeouts` says.
    pub(crate) async fn new(timeouts: &str) -> Self {
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
        let aside = Aside::new();
        let good = aside.start(Upstream::ok);
        let (url, good_url) = (upstream.url(), good.url());
        let yaml = format!(
            "timeouts: {{ {timeouts} }}\n\
             limits: {{ all: {{ fixed_window: {{ limit: 1000000, window: 31d }}, per: [ip] }} }}\n\
             routes:\n\
             - {{ path: /good, upstream: \"{good_url}\", limits: [all] }}\n\
             - {{ path: /**, upstream: \"{url}\", limits: [all] }}\n"
        );
        let gateway = GatewayProcess::start_with("127.0.0.1:0", "access: false", &yaml).await;
        // So that what it needs for anybody is there.
        Client::h2(gateway.address).get("/").await;
        Self {
            gateway,
            upstream,
            most,
            aside,
            _good: good,
        }
    }

    pub(crate) async fn connect(&self) -> Frames {
        Frames::connect(self.gateway.address, &[]).await
    }

    /// A well-behaved client is served.
    pub(crate) async fn serves(&self) {
        assert_eq!(Client::h2(self.gateway.address).get("/").await.status, 200);
    }

    /// How many requests were charged so far.
    pub(crate) async fn charged(&self) -> usize {
        let answer = Client::fresh(self.gateway.address).get("/").await;
        let left = answer.header("x-ratelimit-remaining").unwrap();
        1_000_000 - left.parse::<usize>().unwrap() - 1
    }

    /// H1: requests that are taken back at once.
    pub(crate) async fn rapid_resets(&self) -> Heard {
        let mut client = self.connect().await;
        for n in 0..10_000 {
            let taken_back = [get(n), frame(RST_STREAM, 0, stream(n), &CANCEL)];
            if client.send(&taken_back).await.is_err() {
                break;
            }
        }
        client.heard(LONG).await
    }

    /// H2: frames on streams that are closed.
    pub(crate) async fn late_frames(&self) -> Heard {
        let mut client = self.connect().await;
        client.send(&[get(0)]).await.unwrap();
        let reset = frame(RST_STREAM, 0, stream(0), &CANCEL);
        client.send(&[reset]).await.unwrap();
        let late = vec![frame(DATA, 0, stream(0), b"late"); 1_000];
        for _ in 0..100 {
            if client.send(&late).await.is_err() {
                break;
            }
        }
        client.heard(LONG).await
    }

    /// H3: a window that is opened by nothing is a mistake, for which we have to take the stream back.
    pub(crate) async fn made_resets(&self) -> Heard {
        let mut client = self.connect().await;
        for n in 0..10_000 {
            let mistake = frame(WINDOW_UPDATE, 0, stream(n), &0_u32.to_be_bytes());
            if client.send(&[get(n), mistake]).await.is_err() {
                break;
            }
        }
        client.heard(LONG).await
    }

    /// H4: a head that never ends.
    pub(crate) async fn endless_head(&self) -> Heard {
        let mut client = self.connect().await;
        let begun = frame(HEADERS, END_STREAM, 1, &headers("GET", "/", &[]));
        client.send(&[begun]).await.unwrap();
        let more = headers("GET", "/", &[("x-more", &"x".repeat(100))]);
        let more = frame(CONTINUATION, 0, 1, &more[more.len() - 109..]);
        for _ in 0..10_000 {
            if client.send(std::slice::from_ref(&more)).await.is_err() {
                break;
            }
        }
        client.heard(LONG).await
    }

    /// H5: a body of nothing.
    pub(crate) async fn empty_body(&self) -> Heard {
        let mut client = self.connect().await;
        let post = frame(HEADERS, END_HEADERS, 1, &headers("POST", "/", &[]));
        client.send(&[post]).await.unwrap();
        let nothing = vec![frame(DATA, 0, 1, &[]); 1_000];
        for _ in 0..1_000 {
            if client.send(&nothing).await.is_err() {
                break;
            }
        }
        client.heard(LONG).await
    }

    /// H6: heads of this kind on 100 streams, and no room for a byte of any answer.
    pub(crate) async fn stalled_answers(&self, head: &[u8]) -> Frames {
        // SETTINGS_INITIAL_WINDOW_SIZE is 0.
        let mut client = Frames::connect(self.gateway.address, &[0, 4, 0, 0, 0, 0]).await;
        for n in 0..100 {
            let parts = head.chunks(FRAME).enumerate().map(|(at, part)| {
                let (kind, begins) = match at {
                    0 => (HEADERS, END_STREAM),
                    _ => (CONTINUATION, 0),
                };
                let is_last = (at + 1) * FRAME >= head.len();
                let ends = if is_last { END_HEADERS } else { 0 };
                frame(kind, begins | ends, stream(n), part)
            });
            let parts: Vec<_> = parts.collect();
            // Whoever is hostile enough is not let to its end.
            if client.send(&parts).await.is_err() {
                break;
            }
        }
        client
    }

    /// H8: control frames without end.
    pub(crate) async fn flood(&self, kind: Flood) -> Heard {
        let mut client = self.connect().await;
        let flood = vec![kind.frame(); 1_000];
        for _ in 0..100 {
            if client.send(&flood).await.is_err() {
                break;
            }
        }
        client.close(LONG).await
    }
}

/// Frames that are no requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flood {
    Settings,
    Pings,
    PingAnswers,
    Windows,
    Priorities,
    Unknown,
}

impl Flood {
    pub(crate) const ALL: [Self; 6] = [
        Self::Settings,
        Self::Pings,
        Self::PingAnswers,
        Self::Windows,
        Self::Priorities,
        Self::Unknown,
    ];

    pub(crate) fn frame(self) -> Vec<u8> {
        match self {
            Self::Settings => frame(SETTINGS, 0, 0, &[]),
            Self::Pings => frame(PING, 0, 0, &[0; 8]),
            Self::PingAnswers => frame(PING, 1, 0, &[0; 8]),
            Self::Windows => frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
            Self::Priorities => frame(PRIORITY, 0, 1, &[0; 5]),
            Self::Unknown => frame(0xbe, 0, 0, &[0; 100]),
        }
    }
}

/// As many references as fit what HTTP/2 may count of a head, and many more.
pub(crate) const BOMBS: [usize; 2] = [450, 16 << 10];

/// The n-th request of a client.
pub(crate) fn stream(n: u32) -> u32 {
    2 * n + 1
}

fn get(n: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream(n), &headers("GET", "/", &[]))
}

/// About the largest head that is taken, with room for what the gateway adds. It has 90 fields of 144 bytes, each of which HTTP/2
/// counts as 32 more.
pub(crate) fn largest_head() -> Vec<u8> {
    let value = "x".repeat(72);
    let names: Vec<String> = (0..90).map(|n| format!("{n:x<72}")).collect();
    let fields: Vec<_> = names.iter().map(|name| (&**name, &*value)).collect();
    headers("GET", "/", &fields)
}

/// A head that is small on the wire and large when it is read: one field, and references to it of a byte each.
pub(crate) fn bomb(references: usize) -> Vec<u8> {
    let mut head = headers("GET", "/", &[]);
    // Kept in the table as its newest, the 62nd entry.
    head.extend([0x40, 1, b'x', 1, b'y']);
    head.extend(std::iter::repeat_n(0x80 | 62, references));
    head
}

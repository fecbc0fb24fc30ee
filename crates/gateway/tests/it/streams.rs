//! A gigabyte each way, while the gateway's memory stays small: bodies are streamed, and whoever is slow slows the
//! sender down.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tidegate_testkit::body::{BoxBody, boxed, channel, empty};
use tidegate_testkit::{Client, Process, Upstream};

use crate::support::GatewayProcess;

const GIGABYTE: u64 = 1 << 30;
/// What the gateway may hold, and what may be on its way in the buffers of the system, in bytes.
const MOST: u64 = 64 << 20;
/// How much is sent at a time.
const PART: usize = 64 << 10;

/// A gigabyte that is made while it is sent: bytes that count up, from 0 to 255, again and again.
struct Gigabyte {
    sent: Arc<AtomicU64>,
    has_length: bool,
    pattern: Bytes,
}

impl Gigabyte {
    /// The body, and a counter of the bytes that were asked of it.
    fn body(has_length: bool) -> (BoxBody, Arc<AtomicU64>) {
        let sent = Arc::new(AtomicU64::new(0));
        let body = Self {
            sent: sent.clone(),
            has_length,
            pattern: pattern(PART),
        };
        (boxed(body), sent)
    }

    fn left(&self) -> u64 {
        GIGABYTE - self.sent.load(Ordering::Relaxed)
    }
}

impl Body for Gigabyte {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left() == 0 {
            return Poll::Ready(None);
        }
        self.sent.fetch_add(PART as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(self.pattern.clone()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        if self.has_length {
            return SizeHint::with_exact(self.left());
        }
        SizeHint::default()
    }
}

fn pattern(length: usize) -> Bytes {
    (0..=255).cycle().take(length).collect()
}

/// Reads a gigabyte and demands every byte of it. Does not begin before its sender has come to a halt, which one that
/// is not slowed down never does.
async fn read_all(mut body: Incoming, sent: &AtomicU64) {
    let mut last = u64::MAX;
    while last != sent.load(Ordering::Relaxed) {
        last = sent.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(
        last < MOST,
        "{last} bytes were taken from the sender, and none was read"
    );
    let pattern = pattern(256 + (4 << 20));
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        let at = read % 256;
        assert_eq!(data, pattern[at..at + data.len()], "at byte {read}");
        read += data.len();
    }
    assert_eq!(read as u64, GIGABYTE);
}

/// The upstream sends; `/length` with a content length, any other path in chunks.
fn sender(sent: impl Fn(Arc<AtomicU64>) + Send + Sync + 'static) -> Upstream {
    Upstream::start(move |request| {
        let (body, counter) = Gigabyte::body(request.uri().path() == "/length");
        sent(counter);
        async { Response::new(body) }
    })
}

async fn down(has_length: bool) -> u64 {
    let (counters, counter) = std::sync::mpsc::channel();
    let counters = std::sync::Mutex::new(counters);
    let upstream = sender(move |counter| counters.lock().unwrap().send(counter).unwrap());
    let gateway = gateway(&upstream).await;
    let client = Client::new(gateway.address);
    let path = if has_length { "/length" } else { "/chunks" };
    peak(&gateway.process, async {
        let answer = client.open(Request::get(path).body(empty()).unwrap()).await;
        let length = answer.headers().get("content-length");
        assert_eq!(length.is_some(), has_length, "{:?}", answer.headers());
        read_all(answer.into_body(), &counter.try_recv().unwrap()).await;
    })
    .await
}

async fn up(has_length: bool) -> u64 {
    let (body, sent) = Gigabyte::body(has_length);
    // Answers at once and says when it has read everything, because that takes its time.
    let upstream = Upstream::start(move |request| {
        let length = request.headers().get("content-length");
        assert_eq!(length.is_some(), has_length, "{:?}", request.headers());
        let (mut told, answer) = channel();
        let sent = sent.clone();
        tokio::spawn(async move {
            read_all(request.into_body(), &sent).await;
            told.send_data("all".into()).await.unwrap();
        });
        async { Response::new(answer) }
    });
    let gateway = gateway(&upstream).await;
    let client = Client::new(gateway.address);
    peak(&gateway.process, async {
        let answer = client.open(Request::put("/").body(body).unwrap()).await;
        let answer = answer.into_body().collect().await.unwrap();
        assert_eq!(answer.to_bytes(), "all");
    })
    .await
}

async fn gateway(upstream: &Upstream) -> GatewayProcess {
    let url = upstream.url();
    GatewayProcess::start(&format!("routes: [{{ path: /**, upstream: \"{url}\" }}]\n")).await
}

/// The most memory that the process held during a transfer, in KiB.
async fn peak(process: &Process, transfer: impl Future<Output = ()>) -> u64 {
    let mut transfer = std::pin::pin!(transfer);
    let mut often = tokio::time::interval(Duration::from_millis(10));
    let mut peak = 0;
    loop {
        tokio::select! {
            () = transfer.as_mut() => return peak,
            _ = often.tick() => peak = peak.max(process.rss_kb()),
        }
    }
}

fn is_small(peak: u64) {
    assert!(
        peak > 0 && peak * 1024 < MOST,
        "the gateway held {peak} KiB"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gigabyte_comes_down_in_chunks() {
    is_small(down(false).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gigabyte_comes_down_with_its_length() {
    is_small(down(true).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gigabyte_goes_up_in_chunks() {
    is_small(up(false).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gigabyte_goes_up_with_its_length() {
    is_small(up(true).await);
}

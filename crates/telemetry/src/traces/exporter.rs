//! Spans on their way to the collector: a queue that is bounded in bytes, and one task that sends.
//!
//! Requests add to the queue and wait for nothing. A collector that is slow or gone fills the queue; then further traces are
//! dropped and counted.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use tidegate_net::tls;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::metrics::TraceMetrics;
use super::protobuf::{Message, find, find_number};
use super::settings::TraceSettings;
use super::span;
use crate::access_log::Value;

/// How many bytes of spans may wait. As many again may be in the hands of the task that sends.
const CAPACITY: usize = 4 * 1024 * 1024;
/// The most bytes of spans that are sent at once.
const BATCH: usize = 512 * 1024;
/// How long a trace waits for others to be sent with.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// How often a batch is sent that a collector cannot take just now, and the pause before the second time, which then doubles.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// The longest answer of a collector that is read, in bytes.
const MAX_ANSWER: usize = 64 * 1024;
/// The longest message of a collector in the log, in characters.
const MAX_MESSAGE: usize = 200;
/// What the gateway calls itself.
const NAME: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

/// The queue, and how it is emptied.
#[derive(Debug)]
pub(super) struct Exporter {
    queue: Mutex<Queue>,
    /// Notified when there is enough for a batch, and at the end.
    work: Notify,
    ended: watch::Sender<bool>,
    metrics: TraceMetrics,
}

#[derive(Debug, Default)]
struct Queue {
    /// The spans of a trace each.
    traces: VecDeque<Vec<u8>>,
    bytes: usize,
    is_closed: bool,
}

/// Sends batches.
#[derive(Debug)]
struct Sender {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
    headers: HeaderMap,
    timeout: Duration,
    /// The resource, as a field of `ResourceSpans`.
    resource: Vec<u8>,
    /// Whether the last batch was taken.
    is_well: bool,
}

/// How a collector answered a batch.
enum Answer {
    /// It took the batch, but for so many spans.
    Taken(u64),
    /// It may take the batch later.
    Later(String),
    Refused(String),
}

impl Exporter {
    /// Starts the task that sends to `url`, from within a runtime.
    pub(super) fn start(
        plan: &TraceSettings,
        url: &Uri,
        metrics: TraceMetrics,
    ) -> io::Result<Arc<Self>> {
        let mut sender = Sender::new(plan, url)?;
        let exporter = Arc::new(Self {
            queue: Mutex::default(),
            work: Notify::new(),
            ended: watch::Sender::new(false),
            metrics,
        });
        let sending = exporter.clone();
        tokio::spawn(async move { sending.send_all(&mut sender).await });
        Ok(exporter)
    }

    /// Adds the spans of a trace, or drops them if there is no room.
    pub(super) fn add(&self, spans: Vec<u8>) {
        let mut queue = self.queue.lock();
        if queue.is_closed || queue.bytes + spans.len() > CAPACITY {
            drop(queue);
            self.metrics.dropped.inc();
            return;
        }
        let before = queue.bytes;
        queue.bytes += spans.len();
        queue.traces.push_back(spans);
        let is_full = before < BATCH && queue.bytes >= BATCH;
        drop(queue);
        if is_full {
            self.work.notify_one();
        }
    }

    /// Sends what is queued, once, and ends.
    pub(super) fn close(&self) {
        self.queue.lock().is_closed = true;
        self.work.notify_one();
    }

    /// Ready when it has ended.
    pub(super) async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // The sender is `self`, and lives.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    async fn send_all(&self, sender: &mut Sender) {
        loop {
            let (batch, is_closed) = self.take();
            if batch.is_empty() {
                if is_closed {
                    break;
                }
                let _ = timeout(SEND_EVERY, self.work.notified()).await;
                continue;
            }
            let count = batch.len() as u64;
            match self.send(sender, &batch).await {
                true => self.metrics.sent.inc_by(count),
                false => self.metrics.failed.inc_by(count),
            };
            // Few at a time would cost the collector more than many at once.
            let is_short = self.queue.lock().bytes < BATCH && !is_closed;
            if is_short {
                let _ = timeout(SEND_EVERY, self.work.notified()).await;
            }
        }
        self.ended.send_replace(true);
    }

    /// The next batch, and whether no more traces come.
    fn take(&self) -> (Vec<Vec<u8>>, bool) {
        let mut queue = self.queue.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH
            && let Some(spans) = queue.traces.pop_front()
        {
            bytes += spans.len();
            batch.push(spans);
        }
        queue.bytes -= bytes;
        (batch, queue.is_closed)
    }

    /// Whether the collector took a batch.
    async fn send(&self, sender: &mut Sender, batch: &[Vec<u8>]) -> bool {
        let body = sender.body(batch);
        let mut pause = PAUSE;
        for nth in 1..=TRIES {
            let reason = match sender.post(body.clone()).await {
                Answer::Taken(refused) => {
                    self.metrics.refused_spans.inc_by(refused);
                    sender.found(Ok(()));
                    return true;
                }
                Answer::Refused(reason) => {
                    sender.found(Err(&reason));
                    return false;
                }
                Answer::Later(reason) => reason,
            };
            sender.found(Err(&reason));
            if nth == TRIES || self.queue.lock().is_closed {
                break;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        false
    }
}

impl Sender {
    fn new(plan: &TraceSettings, url: &Uri) -> io::Result<Self> {
        let tls = tls::https_client(None, url.scheme() == Some(&Scheme::HTTPS))?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(NAME));
        headers.extend(plan.headers.iter().cloned());
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-protobuf"),
        );
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            url: url.clone(),
            headers,
            timeout: plan.timeout,
            resource: resource(plan),
            is_well: true,
        })
    }

    /// An `ExportTraceServiceRequest`.
    fn body(&self, batch: &[Vec<u8>]) -> Bytes {
        let mut request = Message::default();
        request.message(1, |of_resource| {
            of_resource.fields(&self.resource);
            of_resource.message(2, |of_scope| {
                of_scope.message(1, |scope| {
                    scope.bytes(1, b"tidegate");
                    scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
                });
                batch.iter().for_each(|spans| of_scope.fields(spans));
            });
        });
        request.into_bytes().into()
    }

    async fn post(&self, body: Bytes) -> Answer {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = self.headers.clone();
        let answered = timeout(self.timeout, async {
            let answer = self.client.request(request).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|error| error.to_string())?;
            Ok::<_, String>((status, body.to_bytes()))
        });
        match answered.await {
            Err(_) => Answer::Later("no answer in time".to_owned()),
            Ok(Err(error)) => Answer::Later(error),
            Ok(Ok((status, body))) if status.is_success() => Answer::Taken(refused_spans(&body)),
            Ok(Ok((status, _))) => {
                let is_passing = matches!(
                    status,
                    StatusCode::TOO_MANY_REQUESTS
                        | StatusCode::BAD_GATEWAY
                        | StatusCode::SERVICE_UNAVAILABLE
                        | StatusCode::GATEWAY_TIMEOUT
                );
                let reason = format!("the answer was {status}");
                if is_passing {
                    Answer::Later(reason)
                } else {
                    Answer::Refused(reason)
                }
            }
        }
    }

    /// Logs when the collector stops taking traces, and when it takes them again.
    fn found(&mut self, taken: Result<(), &str>) {
        let collector = self
            .url
            .authority()
            .map_or("", http::uri::Authority::as_str);
        match taken {
            Err(reason) if self.is_well => {
                tracing::warn!(
                    collector,
                    reason,
                    "the collector does not take traces; they wait, and are then dropped"
                );
            }
            Ok(()) if !self.is_well => {
                tracing::info!(collector, "the collector takes traces again")
            }
            Ok(()) | Err(_) => {}
        }
        self.is_well = taken.is_ok();
    }
}

/// How many spans a collector refused of a batch that it took (`partial_success`). The log gets its reason.
fn refused_spans(answer: &[u8]) -> u64 {
    let Some(partial) = find(answer, 1) else {
        return 0;
    };
    // A negative number, in 64 bits, is none.
    let spans = find_number(partial, 1).filter(|spans| i64::try_from(*spans).is_ok());
    let spans = spans.unwrap_or_default();
    let message = printable(find(partial, 2).unwrap_or_default());
    if spans > 0 {
        tracing::warn!(spans, message, "the collector refused some spans");
    } else if !message.is_empty() {
        tracing::warn!(message, "the collector took a batch with a warning");
    }
    spans
}

/// The first [`MAX_MESSAGE`] characters of a text that a collector chose, its control characters escaped.
fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut printable = String::new();
    for (nth, char) in text.chars().enumerate() {
        if nth == MAX_MESSAGE {
            printable.push('…');
            break;
        }
        if char.is_control() {
            printable.extend(char.escape_default());
        } else {
            printable.push(char);
        }
    }
    printable
}

/// What the gateway is, as a field of `ResourceSpans`.
fn resource(plan: &TraceSettings) -> Vec<u8> {
    let mut out = Message::default();
    out.message(1, |resource| {
        let version = ("service.version", env!("CARGO_PKG_VERSION"));
        let of_plan = plan.resource.iter();
        let of_plan = of_plan.map(|(key, value)| (key.as_str(), value.as_str()));
        for (key, value) in of_plan.chain([version]) {
            let value = Value::Text(value.as_bytes(), value.len());
            resource.message(1, |pair| span::key_value(pair, key, value));
        }
    });
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_spans_are_counted_and_their_reason_is_cut() {
        let answer = |spans: u64, reason: &str| {
            let mut answer = Message::default();
            answer.message(1, |partial| {
                partial.number(1, spans);
                partial.bytes(2, reason.as_bytes());
            });
            answer.into_bytes()
        };
        assert_eq!(refused_spans(&answer(7, "too old")), 7);
        assert_eq!(refused_spans(&answer(u64::MAX, "")), 0);
        assert_eq!(refused_spans(&answer(0, "soon")), 0);
        assert_eq!(refused_spans(b""), 0);
        assert_eq!(refused_spans(b"\x0a\xff"), 0);
        let long = format!("\x1b[31m\n{}", "ü".repeat(64 * 1024));
        let shown = printable(long.as_bytes());
        assert_eq!(shown, format!("\\u{{1b}}[31m\\n{}…", "ü".repeat(194)));
        assert_eq!(printable("größe".as_bytes()), "größe");
    }

    #[test]
    fn what_waits_is_bounded_and_what_finds_no_room_is_counted() {
        const TRACES: usize = 10_000;
        const LENGTH: usize = 1_000;
        let exporter = Exporter {
            queue: Mutex::default(),
            work: Notify::new(),
            ended: watch::Sender::new(false),
            metrics: TraceMetrics::default(),
        };
        for _ in 0..TRACES {
            exporter.add(vec![0; LENGTH]);
        }
        let waiting = exporter.queue.lock().traces.len();
        assert_eq!(waiting, CAPACITY / LENGTH);
        assert_eq!(exporter.metrics.dropped.get(), (TRACES - waiting) as u64);
        let (batch, _) = exporter.take();
        assert_eq!(batch.len(), BATCH.div_ceil(LENGTH));
        let left = exporter.queue.lock().bytes;
        assert_eq!(left, (waiting - batch.len()) * LENGTH);
    }
}

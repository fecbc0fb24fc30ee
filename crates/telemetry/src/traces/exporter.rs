//! A queue of spans for the collector. It is bounded in bytes, and one task sends the spans with the OTLP exporter.
//!
//! Requests add to the queue and never wait. If the collector is slow or unreachable, the queue fills up. Then further traces are dropped
//! and counted.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use opentelemetry::{KeyValue, Value};
use opentelemetry_otlp::{
    Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::collector::Collector;
use super::metrics::TraceMetrics;
use super::settings::TraceSettings;

/// The most bytes of the queued spans. The sending task may hold one batch in addition.
const CAPACITY: usize = 4 * 1024 * 1024;
/// The size of a batch at which it is full, in bytes.
const BATCH: usize = 512 * 1024;
/// The longest time that a trace waits for further traces in its batch. Also the pause after a batch that failed.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// The first pause before a batch is sent again after a temporary error.
const PAUSE: Duration = Duration::from_secs(1);

/// The queue and its sending task.
#[derive(Debug)]
pub(super) struct Exporter {
    queue: Mutex<Queue>,
    /// Notified when the queue has a full batch, and at the end.
    work: Notify,
    ended: watch::Sender<bool>,
    metrics: TraceMetrics,
}

#[derive(Debug, Default)]
struct Queue {
    /// The spans of each trace, and their size in bytes.
    traces: VecDeque<(Vec<SpanData>, usize)>,
    bytes: usize,
    is_closed: bool,
}

impl Exporter {
    /// Starts the task that sends to `url`. Must be called in a Tokio runtime.
    pub(super) fn start(
        settings: &TraceSettings,
        url: &Uri,
        metrics: TraceMetrics,
    ) -> io::Result<Arc<Self>> {
        let sender = sender(
            settings,
            url,
            Collector::new(settings, url, metrics.refused_spans.clone())?,
        )?;
        let exporter = Arc::new(Self {
            queue: Mutex::default(),
            work: Notify::new(),
            ended: watch::Sender::new(false),
            metrics,
        });
        let sending = exporter.clone();
        tokio::spawn(async move { sending.send_all(&sender).await });
        Ok(exporter)
    }

    /// Adds the spans of a trace. If there is no room, drops and counts the trace.
    pub(super) fn add(&self, spans: Vec<SpanData>) {
        let bytes = spans.iter().map(size).sum();
        let mut queue = self.queue.lock();
        if queue.is_closed || queue.bytes + bytes > CAPACITY {
            drop(queue);
            self.metrics.dropped.inc();
            return;
        }
        let before = queue.bytes;
        queue.bytes += bytes;
        queue.traces.push_back((spans, bytes));
        let is_full = before < BATCH && queue.bytes >= BATCH;
        drop(queue);
        if is_full {
            self.work.notify_one();
        }
    }

    /// Makes the sending task send the queued spans without pauses, and then end.
    pub(super) fn close(&self) {
        self.queue.lock().is_closed = true;
        self.work.notify_one();
    }

    /// Waits until the sending task has ended.
    pub(super) async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // The sender is a field of `self`, so it exists, and the wait cannot fail.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    async fn send_all(&self, sender: &SpanExporter) {
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
            let spans = batch.into_iter().flatten().collect();
            let is_taken = sender.export(spans).await.is_ok();
            match is_taken {
                true => self.metrics.sent.inc_by(count),
                // The collector's client has already logged the reason.
                false => self.metrics.failed.inc_by(count),
            };
            if self.queue.lock().is_closed {
                continue;
            }
            if !is_taken {
                // Waits after a failure, even if the queue is full.
                tokio::time::sleep(SEND_EVERY).await;
            } else if self.queue.lock().bytes < BATCH {
                // Waits for a larger batch, because many small batches cost the collector more than one large batch.
                let _ = timeout(SEND_EVERY, self.work.notified()).await;
            }
        }
        self.ended.send_replace(true);
    }

    /// Takes the next batch from the queue. Returns the batch, and whether the queue is closed.
    fn take(&self) -> (Vec<Vec<SpanData>>, bool) {
        let mut queue = self.queue.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH
            && let Some((spans, size)) = queue.traces.pop_front()
        {
            bytes += size;
            batch.push(spans);
        }
        queue.bytes -= bytes;
        (batch, queue.is_closed)
    }
}

/// Returns the OTLP exporter. All options are set, so that the exporter reads none from environment variables.
fn sender(settings: &TraceSettings, url: &Uri, collector: Collector) -> io::Result<SpanExporter> {
    let sender = SpanExporter::builder()
        .with_http()
        .with_http_client(collector)
        .with_endpoint(url.to_string())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(settings.timeout)
        .with_retry_policy(RetryPolicy::recommended().with_initial_delay(PAUSE));
    let mut sender = sender.build().map_err(io::Error::other)?;
    let resource = settings.resource.iter().cloned();
    let resource = resource.map(|(key, value)| KeyValue::new(key, value));
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    // If an attribute is repeated, its last value is used.
    let resource = Resource::builder_empty().with_attributes([version].into_iter().chain(resource));
    sender.set_resource(&resource.build());
    Ok(sender)
}

/// Returns the memory of a span, in bytes.
fn size(span: &SpanData) -> usize {
    let attributes = span.attributes.capacity() * size_of::<KeyValue>();
    let texts = span.attributes.iter().map(|pair| match &pair.value {
        Value::String(text) => text.as_str().len(),
        _ => 0,
    });
    size_of::<SpanData>() + span.name.len() + attributes + texts.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::span::tests::span;

    #[test]
    fn what_waits_is_bounded_and_what_finds_no_room_is_counted() {
        const TRACES: usize = 10_000;
        let exporter = Exporter {
            queue: Mutex::default(),
            work: Notify::new(),
            ended: watch::Sender::new(false),
            metrics: TraceMetrics::default(),
        };
        let length = size(&span(1_000));
        assert!(length > 1_000);
        for _ in 0..TRACES {
            exporter.add(vec![span(1_000)]);
        }
        let waiting = exporter.queue.lock().traces.len();
        assert_eq!(waiting, CAPACITY / length);
        assert_eq!(exporter.metrics.dropped.get(), (TRACES - waiting) as u64);
        let (batch, _) = exporter.take();
        assert_eq!(batch.len(), BATCH.div_ceil(length));
        let left = exporter.queue.lock().bytes;
        assert_eq!(left, (waiting - batch.len()) * length);
    }
}

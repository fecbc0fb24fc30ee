//! Traces. Each request belongs to a trace. Some requests are recorded, and their spans are sent to a collector by OTLP over HTTP.
//!
//! ```text
//! begin: traceparent ─ sampled? ─> the upstream's traceparent │ request's end: spans ─ queue ─ task ─> collector
//! ```
//!
//! For a request that is not recorded, the gateway only makes a few random IDs and writes the header `traceparent`. The spans of a recorded
//! request are made at the end of the request, from its record.

mod collector;
mod context;
mod exporter;
mod metrics;
mod settings;
mod span;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::HeaderMap;
use prometheus_client::metrics::counter::Counter;

use context::Parent;
pub use context::TraceContext;
use exporter::Exporter;
pub use metrics::TraceMetrics;
pub use settings::TraceSettings;
use span::RequestStart;

use crate::access_log::Record;
use crate::per_second::PerSecond;
use crate::random;

/// A handle of tracing, which may be off. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Traces(Option<Arc<Tracing>>);

#[derive(Debug)]
struct Tracing {
    settings: TraceSettings,
    bound: PerSecond,
    // Counts sampled requests above `max_per_second`. The counter is not part of `/metrics` if no collector is configured.
    beyond: Counter,
    /// Sends the spans. `None` if no collector is configured.
    exporter: Option<Arc<Exporter>>,
}

// Makes the exporter send the queued spans and then end.
impl Drop for Tracing {
    fn drop(&mut self) {
        if let Some(exporter) = &self.exporter {
            exporter.close();
        }
    }
}

/// A request whose spans are recorded.
#[derive(Debug)]
pub struct Recording {
    tracing: Arc<Tracing>,
    context: TraceContext,
    beginning: RequestStart,
}

impl Traces {
    /// Starts tracing with these settings. Must be called in a Tokio runtime. If `before` has the same settings, returns a clone of
    /// `before`.
    ///
    /// # Errors
    ///
    /// The collector's URL is https://, but this machine has no readable certificate authorities with which the gateway could verify the
    /// collector.
    pub fn start(
        settings: Option<TraceSettings>,
        before: Option<&Self>,
        metrics: impl FnOnce() -> TraceMetrics,
    ) -> io::Result<Self> {
        let Some(settings) = settings else {
            return Ok(Self(None));
        };
        if let Some(Self(Some(same))) = before.filter(|it| it.settings() == Some(&settings)) {
            return Ok(Self(Some(same.clone())));
        }
        let (mut exporter, mut beyond) = (None, Counter::default());
        if let Some(url) = &settings.otlp {
            let metrics = metrics();
            beyond = metrics.beyond.clone();
            exporter = Some(Exporter::start(&settings, url, metrics)?);
        }
        Ok(Self(Some(Arc::new(Tracing {
            bound: PerSecond::new(settings.max_per_second),
            beyond,
            settings,
            exporter,
        }))))
    }

    fn settings(&self) -> Option<&TraceSettings> {
        self.0.as_ref().map(|tracing| &tracing.settings)
    }

    /// Begins the gateway's part of a request's trace. Only trusted peers decide whether a request is recorded, because a recorded request
    /// costs more. Requests from other peers, or without a valid `traceparent`, are sampled at random. The bound `max_per_second` also
    /// applies to trusted peers, because they may pass on a `traceparent` from an untrusted client.
    pub fn begin(&self, headers: &HeaderMap, is_trusted: bool) -> Option<TraceContext> {
        let tracing = self.0.as_ref()?;
        let parent = Parent::of(headers);
        let is_sampled = match parent.filter(|_| is_trusted) {
            Some(parent) => parent.is_sampled(),
            None => random::happens(tracing.settings.sample),
        };
        let is_recorded = is_sampled && tracing.bound.takes();
        if is_sampled && !is_recorded {
            tracing.beyond.inc();
        }
        Some(TraceContext::of(parent, is_recorded))
    }

    /// Begins the recording of a request, if the request is sampled and a collector is configured. `route` is the path of the request's
    /// route.
    pub fn record(
        &self,
        context: Option<TraceContext>,
        is_tls: bool,
        route: Option<&Arc<str>>,
    ) -> Option<Box<Recording>> {
        let tracing = self
            .0
            .as_ref()
            .filter(|tracing| tracing.exporter.is_some())?;
        let context = context.filter(|context| context.is_sampled)?;
        Some(Box::new(Recording {
            tracing: tracing.clone(),
            context,
            beginning: RequestStart {
                started: Instant::now(),
                at: SystemTime::now(),
                is_tls,
                route: route.cloned(),
            },
        }))
    }

    /// Sends the queued spans. Waits at most for `timeout`.
    pub async fn finish(&self, timeout: Duration) {
        let exporter = self
            .0
            .as_ref()
            .and_then(|tracing| tracing.exporter.as_ref());
        if let Some(exporter) = exporter {
            exporter.close();
            let _ = tokio::time::timeout(timeout, exporter.ended()).await;
        }
    }
}

impl Recording {
    /// Returns the ID of the trace.
    pub const fn trace_id(&self) -> u128 {
        self.context.trace_id
    }

    /// Makes the spans of a request that has ended, and queues them.
    pub fn end(&self, record: &Record) {
        if let Some(exporter) = &self.tracing.exporter {
            exporter.add(span::spans(record, self.context, &self.beginning));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trusted proxies may pass on headers of strangers.
    #[test]
    fn the_bound_per_second_holds_for_trusted_peers() {
        let settings = TraceSettings {
            otlp: None,
            headers: Vec::new(),
            sample: 0,
            max_per_second: 1,
            timeout: Duration::ZERO,
            resource: Vec::new(),
        };
        let traces = Traces::start(Some(settings), None, TraceMetrics::default).unwrap();
        let sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let headers = [("traceparent".parse().unwrap(), sampled.parse().unwrap())];
        let headers: HeaderMap = headers.into_iter().collect();
        let started = Instant::now();
        let begun = (0..1_000).filter_map(|_| traces.begin(&headers, true));
        let recorded = begun.filter(|trace| trace.is_sampled).count() as u64;
        let seconds = started.elapsed().as_secs() + 2;
        assert!((1..=seconds).contains(&recorded), "{recorded}");
        assert!(!traces.begin(&headers, false).unwrap().is_sampled);
    }
}

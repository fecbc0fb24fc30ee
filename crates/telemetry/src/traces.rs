//! Traces: each request gets a place in one, some are recorded, and their spans go to a collector by OTLP over HTTP.
//!
//! ```text
//! begin: traceparent ─ sampled? ─> the upstream's traceparent │ request's end: spans ─ queue ─ task ─> collector
//! ```
//!
//! A request that is not recorded costs two IDs and a header. Of one that is, spans are made at its end, from its record.

mod context;
mod environment;
mod exporter;
mod metrics;
mod protobuf;
mod sampler;
mod settings;
mod span;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::HeaderMap;

use context::Parent;
pub use context::TraceContext;
pub use environment::{CollectorVariable, TraceEnvironment, WrongVariable};
use exporter::Exporter;
pub use metrics::TraceMetrics;
use sampler::Sampler;
pub use settings::TraceSettings;
use span::RequestStart;

use crate::access_log::Record;

/// Traces requests, or does nothing; cheap to clone.
#[derive(Clone, Debug)]
pub struct Traces(Option<Arc<Tracing>>);

#[derive(Debug)]
struct Tracing {
    plan: TraceSettings,
    sampler: Sampler,
    /// None: nothing is recorded.
    exporter: Option<Arc<Exporter>>,
}

// What is queued is still sent.
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
    /// Starts tracing with these settings, from within a runtime. If `before` has the same settings, it continues.
    ///
    /// # Errors
    ///
    /// The collector is at https://, and there is nothing to know it by.
    pub fn start(
        plan: Option<TraceSettings>,
        before: Option<&Self>,
        metrics: impl FnOnce() -> TraceMetrics,
    ) -> io::Result<Self> {
        let Some(plan) = plan else {
            return Ok(Self(None));
        };
        if let Some(Self(Some(same))) = before.filter(|it| it.plan() == Some(&plan)) {
            return Ok(Self(Some(same.clone())));
        }
        let exporter = plan.otlp.as_ref();
        let exporter = exporter
            .map(|url| Exporter::start(&plan, url, metrics()))
            .transpose()?;
        Ok(Self(Some(Arc::new(Tracing {
            sampler: Sampler::new(plan.sample, plan.max_per_second),
            plan,
            exporter,
        }))))
    }

    fn plan(&self) -> Option<&TraceSettings> {
        self.0.as_ref().map(|tracing| &tracing.plan)
    }

    /// The place of a request in a trace. Only a trusted peer decides whether it is recorded: recording costs more than a
    /// stranger may ask for.
    pub fn begin(&self, headers: &HeaderMap, is_trusted: bool) -> Option<TraceContext> {
        let tracing = self.0.as_ref()?;
        let parent = Parent::of(headers);
        let is_sampled = match parent.filter(|_| is_trusted) {
            Some(parent) => parent.is_sampled(),
            None => tracing.sampler.takes(),
        };
        Some(TraceContext::of(parent, is_sampled))
    }

    /// What records a request that has just begun, if it is sampled and its spans have somewhere to go. `route` is the path of
    /// its route.
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

    /// Sends what is queued, but does not take longer than `timeout`.
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
    /// Names the trace.
    pub const fn trace_id(&self) -> u128 {
        self.context.trace_id
    }

    /// Makes the spans of a request that has ended.
    pub fn end(&self, record: &Record) {
        if let Some(exporter) = &self.tracing.exporter {
            exporter.add(span::spans(record, self.context, &self.beginning));
        }
    }
}

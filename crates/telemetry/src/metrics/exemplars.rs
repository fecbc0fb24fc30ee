//! Exemplars: a trace for each bucket of a histogram. OpenMetrics has exemplars, but the text format of Prometheus has none.
//!
//! Only requests with a recorded trace add exemplars, so a lock is cheap enough. The library prometheus-client supports exemplars only for
//! its own histograms. So this module adds them to the text that the library writes.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::durations;

/// The beginning of the lines that may get an exemplar.
const BUCKET: &str = "tidegate_request_duration_seconds_bucket{";

/// The last recorded request of each bucket of each route. Clones share the exemplars.
#[derive(Clone, Debug, Default)]
pub(super) struct Exemplars(Arc<Mutex<HashMap<Arc<str>, Buckets>>>);

type Buckets = [Option<Exemplar>; durations::BUCKETS];

#[derive(Clone, Copy, Debug)]
struct Exemplar {
    trace_id: u128,
    took: Duration,
    ended: SystemTime,
}

impl Exemplars {
    /// Replaces the exemplar of a bucket by the trace of a request that has just ended.
    pub(super) fn add(&self, route: &Arc<str>, took: Duration, trace_id: u128) {
        let exemplar = Exemplar {
            trace_id,
            took,
            ended: SystemTime::now(),
        };
        let routes = &mut *self.0.lock();
        let buckets = routes.entry(route.clone()).or_default();
        buckets[durations::bucket(&durations::BOUNDS, took)] = Some(exemplar);
    }

    /// Adds the exemplars to OpenMetrics text.
    pub(super) fn add_to(&self, open_metrics: String) -> String {
        let routes = &*self.0.lock();
        if routes.is_empty() {
            return open_metrics;
        }
        let mut by_labels = HashMap::new();
        for (route, buckets) in routes {
            for (bound, exemplar) in durations::bounds().zip(buckets) {
                if let Some(exemplar) = exemplar {
                    by_labels.insert(labels(bound, route), exemplar);
                }
            }
        }
        let mut text = String::with_capacity(open_metrics.len() + 128 * by_labels.len());
        for line in open_metrics.lines() {
            text.push_str(line);
            let labels = line
                .strip_prefix(BUCKET)
                .and_then(|rest| rest.rsplit_once("} "));
            if let Some((labels, _)) = labels
                && let Some(exemplar) = by_labels.get(labels)
            {
                exemplar.add_to(&mut text);
            }
            text.push('\n');
        }
        text
    }
}

impl Exemplar {
    fn add_to(&self, text: &mut String) {
        let took = self.took.as_secs_f64();
        let ended = self.ended.duration_since(UNIX_EPOCH).unwrap_or_default();
        // A write to a String cannot fail.
        let _ = write!(
            text,
            " # {{trace_id=\"{:032x}\"}} {took:?} {:.3}",
            self.trace_id,
            ended.as_secs_f64()
        );
    }
}

/// Returns the labels of a bucket, as prometheus-client writes them.
fn labels(bound: f64, route: &str) -> String {
    let route = route
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    match bound.is_infinite() {
        true => format!("le=\"+Inf\",route=\"{route}\""),
        false => format!("le=\"{bound:?}\",route=\"{route}\""),
    }
}

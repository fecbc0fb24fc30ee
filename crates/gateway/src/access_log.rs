//! One structured line per request, formatted by a thread of its own.
//!
//! A request only hands its record over. When the thread cannot keep up, records are dropped and counted, and requests
//! go on.

#[cfg(test)]
pub(crate) mod fields;
mod queue;
mod record;

use std::sync::Arc;
use std::time::{Duration, Instant};

use queue::Queue;
pub(crate) use record::Record;

/// How often the log says, at most, that records were dropped.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Where records go; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog(Option<Arc<Queue>>);

/// The thread that formats; it ends when this is finished or dropped.
#[derive(Debug)]
pub(crate) struct Writer(Arc<Queue>);

impl Writer {
    /// Waits until all that was handed over before is formatted, but not longer than `patience`.
    pub(crate) fn finish(self, patience: Duration) {
        self.0.close(patience);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.close(Duration::ZERO);
    }
}

impl AccessLog {
    /// Starts the thread that formats.
    pub(crate) fn start() -> std::io::Result<(Self, Writer)> {
        let queue = Arc::<Queue>::default();
        let thread = std::thread::Builder::new().name("access-log".into());
        let taken = queue.clone();
        thread.spawn(move || write_all(&taken))?;
        Ok((Self(Some(queue.clone())), Writer(queue)))
    }

    /// A log that nobody wants to read.
    pub(crate) const fn off() -> Self {
        Self(None)
    }

    /// Whether anybody wants to read it.
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn write(&self, record: Box<Record>) {
        if let Some(queue) = &self.0 {
            queue.push(record);
        }
    }

    /// Records that were dropped since start.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |queue| queue.dropped())
    }
}

fn write_all(queue: &Queue) {
    let (mut records, mut reported) = (Vec::new(), (0, None::<Instant>));
    while let Some(dropped) = queue.take(&mut records) {
        for record in records.drain(..) {
            record.write();
        }
        let (before, at) = reported;
        if dropped > before && at.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            report(dropped - before);
            reported = (dropped, Some(Instant::now()));
        }
    }
    let left = queue.dropped() - reported.0;
    if left > 0 {
        report(left);
    }
}

/// Says, in the log, that lines are missing from the access log.
fn report(lines: u64) {
    tracing::warn!(
        lines,
        "access log lines were dropped, because they could not be written in time"
    );
}

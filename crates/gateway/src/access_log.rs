//! The access log: one line per request.
//!
//! The thread that served a request formats its line, into a buffer that few threads share. A thread of its own collects the
//! buffers ten times per second, or when one is long, and hands the lines to the log of the process. Requests wait for neither.
//! If the lines are not taken in time, further ones are dropped and counted.

mod buffers;
mod line;
mod record;
mod timestamp;

use std::sync::Arc;
use std::time::{Duration, Instant};

use buffers::Buffers;
#[cfg(test)]
pub(crate) use record::FIELDS;
pub(crate) use record::Record;

use crate::log::AccessSink;

/// How often the log says, at most, that lines were dropped.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Where records go; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog(Option<Arc<Buffers>>);

/// The thread that collects lines; it ends when this is finished or dropped.
#[derive(Debug)]
pub(crate) struct Collector(Arc<Buffers>);

impl Collector {
    /// Waits until all lines that were written before are handed on, but not longer than `patience`.
    pub(crate) fn finish(self, patience: Duration) {
        self.0.close(patience);
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.0.close(Duration::ZERO);
    }
}

impl AccessLog {
    /// Starts the thread that collects lines for `sink`.
    pub(crate) fn start(sink: AccessSink) -> std::io::Result<(Self, Collector)> {
        let buffers = Arc::new(Buffers::new(sink.format()));
        let thread = std::thread::Builder::new().name("access-log".into());
        let collected = buffers.clone();
        thread.spawn(move || collect_all(&collected, &sink))?;
        Ok((Self(Some(buffers.clone())), Collector(buffers)))
    }

    /// A log that nobody wants to read.
    pub(crate) const fn off() -> Self {
        Self(None)
    }

    /// Whether anybody wants to read it.
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn write(&self, record: &Record) {
        if let Some(buffers) = &self.0 {
            buffers.write(record);
        }
    }

    /// Lines that were dropped since start.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |buffers| buffers.dropped())
    }
}

fn collect_all(buffers: &Buffers, sink: &AccessSink) {
    let (mut reported, mut at) = (0, None::<Instant>);
    buffers.collect(|lines| {
        sink.write(lines);
        let dropped = buffers.dropped();
        if dropped > reported && at.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            report(dropped - reported);
            (reported, at) = (dropped, Some(Instant::now()));
        }
    });
    let left = buffers.dropped() - reported;
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

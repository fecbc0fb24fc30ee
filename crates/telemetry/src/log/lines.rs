//! Queues log lines for standard error: a queue bounded in bytes, and one writing thread.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

use tidegate_net::text::cut;
use tidegate_status::{shown_json, shown_text};

/// Bounds the queue, in bytes. The writing thread may hold the same amount.
const CAPACITY: usize = 2 * 1024 * 1024;
/// The part of the queue that the access log must leave free, in bytes. A flood of requests must not displace warnings.
const RESERVED: usize = 256 * 1024;
/// Bounds a line, in bytes.
const LONGEST: usize = 32 * 1024;
/// Bytes that are kept of a longer line.
const KEPT: usize = 4 * 1024;
/// Buffer that is kept between writes, in bytes.
const IDLE_BUFFER: usize = 64 * 1024;
/// Pause before another write to a non-blocking file or pipe that is full.
const FULL: Duration = Duration::from_millis(20);

/// The treatment of lines that are too long.
#[derive(Clone, Copy, Debug)]
pub(super) enum Overlong {
    /// Cuts off the end.
    Cut,
    /// Puts the beginning into a field of a JSON object, because a cut object is not JSON.
    Quote,
}

/// The queue; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the writing thread has work.
    work: Condvar,
    /// Notified when the queue is emptied, and when the writing thread ends.
    room: Condvar,
    overlong: Overlong,
    dropped: &'static AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    queued: Vec<u8>,
    /// Lines dropped since the last report in the log.
    unreported: u64,
    /// Whether the writing thread must be woken.
    writer_waits: bool,
    /// Whether the writing thread ends when the queue is empty.
    closing: bool,
    /// Whether it has ended.
    ended: bool,
}

impl Lines {
    /// Makes an empty queue, which adds the number of lines that it drops to `dropped`.
    pub(super) fn new(overlong: Overlong, dropped: &'static AtomicU64) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            overlong,
            dropped,
        }))
    }

    /// Starts the thread that writes to `out`. It calls `report` with the number of dropped lines, as soon as `out` accepts lines again.
    pub(super) fn spawn_writer(
        &self,
        out: impl Write + Send + 'static,
        report: impl Fn(u64) + Send + 'static,
    ) -> io::Result<()> {
        let lines = self.clone();
        let thread = std::thread::Builder::new().name("log".into());
        thread.spawn(move || lines.write_all(out, report))?;
        Ok(())
    }

    /// Ends the writing thread once the queue is empty, and waits for its end, but not longer than `timeout`.
    pub(super) fn close(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut state = self.0.state.lock();
        state.closing = true;
        self.0.work.notify_one();
        // A thread that waits for room stops waiting.
        self.0.room.notify_all();
        while !state.ended && !self.0.room.wait_until(&mut state, deadline).timed_out() {}
    }

    /// Queues one or several lines. Without room, the log drops them. An access log waits, but drops them once the log closes.
    fn push(&self, line: &[u8], source: Source) {
        let capacity = match source {
            Source::Log => CAPACITY,
            Source::AccessLog => CAPACITY - RESERVED,
        };
        let mut state = self.0.state.lock();
        while state.queued.len() + line.len() > capacity {
            if source == Source::Log || state.closing {
                let lost = count(line);
                state.unreported += lost;
                drop(state);
                self.0.dropped.fetch_add(lost, Ordering::Relaxed);
                return;
            }
            self.0.room.wait(&mut state);
        }
        state.queued.extend_from_slice(line);
        if std::mem::take(&mut state.writer_waits) {
            drop(state);
            self.0.work.notify_one();
        }
    }

    /// Queues whole lines of an access log. Blocks until there is room.
    pub(super) fn push_access(&self, mut lines: &[u8]) {
        while !lines.is_empty() {
            let part = match lines.get(..LONGEST) {
                // Each line is shorter than this.
                Some(part) => part
                    .iter()
                    .rposition(|byte| *byte == b'\n')
                    .map_or(lines.len(), |end| end + 1),
                None => lines.len(),
            };
            let (now, later) = lines.split_at(part);
            self.push(now, Source::AccessLog);
            lines = later;
        }
    }

    fn write_all(&self, mut out: impl Write, report: impl Fn(u64)) {
        let mut taken = Vec::new();
        while let Some(dropped) = self.take(&mut taken) {
            if write_patiently(&mut out, &taken).is_err() {
                self.0.dropped.fetch_add(count(&taken), Ordering::Relaxed);
            }
            taken.clear();
            taken.shrink_to(IDLE_BUFFER);
            if dropped > 0 {
                report(dropped);
            }
        }
    }

    /// Waits for lines and takes all of them. Returns the number of lines dropped before them; none at the end.
    fn take(&self, taken: &mut Vec<u8>) -> Option<u64> {
        let mut state = self.0.state.lock();
        while state.queued.is_empty() {
            if state.closing {
                state.ended = true;
                self.0.room.notify_all();
                return None;
            }
            state.writer_waits = true;
            self.0.work.wait(&mut state);
        }
        state.writer_waits = false;
        std::mem::swap(&mut state.queued, taken);
        self.0.room.notify_all();
        Some(std::mem::take(&mut state.unreported))
    }
}

/// Writes all bytes, even if `out` is non-blocking. An error has the number of bytes written before it.
pub(crate) fn write_patiently(
    out: &mut impl Write,
    bytes: &[u8],
) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while written < bytes.len() {
        match out.write(&bytes[written..]) {
            Ok(0) => return Err((written, ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(FULL),
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}

/// Counts the lines that end in these bytes.
pub(crate) fn count(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Any thread; it must not block.
    Log,
    /// The thread of an access log; it may block.
    AccessLog,
}

/// A writer of one line: the formatter of events writes each event with one call.
#[derive(Debug)]
pub(super) struct Line<'a>(&'a Lines);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let length = line.len();
        // Clients, Redis or servers may have chosen parts of a line. Most lines are plain ASCII.
        let is_plain = line.iter().all(|byte| *byte < 0x7f);
        let shown = (!is_plain).then(|| {
            let line = String::from_utf8_lossy(line);
            match self.0.0.overlong {
                Overlong::Cut => shown_text(&line).into_owned(),
                Overlong::Quote => shown_json(&line),
            }
        });
        let line = shown.as_ref().map_or(line, |line| line.as_bytes());
        if line.len() > LONGEST {
            let text = String::from_utf8_lossy(&line[..KEPT]);
            let text = cut(&text, KEPT - 1);
            let line = match self.0.0.overlong {
                Overlong::Cut => format!("{text}\n"),
                Overlong::Quote => {
                    let message = "a line was too long, and is cut";
                    let text = text.to_string();
                    format!(
                        "{}\n",
                        serde_json::json!({ "level": "WARN", "message": message, "line": text })
                    )
                }
            };
            self.0.push(line.as_bytes(), Source::Log);
        } else {
            self.0.push(line, Source::Log);
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! A queue of log lines for standard error. It is bounded in bytes, and one thread writes its lines.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

use tidegate_net::text::cut;
use tidegate_status::{shown_json, shown_text};

/// The most bytes of the queue. The writing thread may hold another [`CAPACITY`] bytes.
const CAPACITY: usize = 2 * 1024 * 1024;
/// The bytes of the queue that the access log must leave free, so that a flood of requests does not displace warnings.
const RESERVED: usize = 256 * 1024;
/// The most bytes of a line.
const LONGEST: usize = 32 * 1024;
/// The bytes that are kept of a line above [`LONGEST`].
const KEPT: usize = 4 * 1024;
/// The most bytes of memory that the writing thread keeps between two writes.
const IDLE_BUFFER: usize = 64 * 1024;
/// The pause before the next write to a non-blocking file or pipe that is full.
const FULL: Duration = Duration::from_millis(20);

/// The treatment of a line that is too long.
#[derive(Clone, Copy, Debug)]
pub(super) enum Overlong {
    /// Cuts off the end.
    Cut,
    /// Puts the beginning of the line into a field of a JSON object. A JSON line without its end would not be JSON.
    Quote,
}

/// The queue. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the writing thread has work.
    work: Condvar,
    /// Notified when the queue was emptied, and when the writing thread ends.
    room: Condvar,
    overlong: Overlong,
    dropped: &'static AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    queued: Vec<u8>,
    /// Lines dropped since the last report in the log.
    unreported: u64,
    /// Whether the writing thread waits for a notification.
    writer_waits: bool,
    /// Whether the writing thread ends when the queue is empty.
    closing: bool,
    /// Whether the writing thread has ended.
    ended: bool,
}

impl Lines {
    /// Returns an empty queue, which adds the number of dropped lines to `dropped`.
    pub(super) fn new(overlong: Overlong, dropped: &'static AtomicU64) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            overlong,
            dropped,
        }))
    }

    /// Starts the thread that writes to `out`. If lines were dropped, the thread calls `report` with their number after the next write.
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

    /// Makes the writing thread end when the queue is empty. Waits until the thread has ended, at most for `timeout`.
    pub(super) fn close(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut state = self.0.state.lock();
        state.closing = true;
        self.0.work.notify_one();
        // If an access log's thread waits for room, wakes it. The woken thread sees `closing`, and drops the lines that found no room.
        self.0.room.notify_all();
        while !state.ended && !self.0.room.wait_until(&mut state, deadline).timed_out() {}
    }

    /// Queues one or several lines. If there is no room, lines of the log are dropped. Lines of an access log wait for room until the log
    /// closes, and are then dropped.
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
                // A line is shorter than this part, so the part contains a line end.
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

    /// Waits for lines and takes all of them. Returns the number of lines that were dropped since the last call. `None` if the log is
    /// closed and no lines are queued.
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

/// Writes all bytes, even if `out` is non-blocking. An error contains the number of bytes that were written before it.
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

/// Returns the number of lines that end in these bytes.
pub(crate) fn count(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Any thread. It must not block.
    Log,
    /// The thread of an access log. It may block.
    AccessLog,
}

/// A writer for one line. The formatter of events writes each event by one call.
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
        // Clients, Redis or servers may have chosen parts of the line, so its characters are made safe. Most lines are plain ASCII and need
        // no change.
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

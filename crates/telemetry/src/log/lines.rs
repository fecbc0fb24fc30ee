//! Log lines on their way to standard error: a queue that is bounded in bytes, and the one thread that writes.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

use tidegate_net::text::cut;
use tidegate_status::{shown_json, shown_text};

/// How many bytes may be queued. As many again may be in the hands of the thread that writes.
const CAPACITY: usize = 2 * 1024 * 1024;
/// The part of it that the access log leaves free: a flood of requests must not displace warnings.
const RESERVED: usize = 256 * 1024;
/// The longest line, in bytes.
const LONGEST: usize = 32 * 1024;
/// How much of a line that is longer is kept, in bytes.
const KEPT: usize = 4 * 1024;
/// The buffer that is kept between writes, in bytes.
const IDLE_BUFFER: usize = 64 * 1024;
/// How long to wait for a file or pipe that is set to non-blocking, and full.
const FULL: Duration = Duration::from_millis(20);

/// How a line that is too long is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Overlong {
    /// Its end is missing.
    Cut,
    /// Its beginning is a field of a JSON object: a cut one would not be JSON any more.
    Quote,
}

/// The queue; clones are of the same one.
#[derive(Clone, Debug)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the thread that writes has something to do.
    work: Condvar,
    /// Notified when the queue was emptied, and when nothing will be written any more.
    room: Condvar,
    overlong: Overlong,
    dropped: &'static AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    queued: Vec<u8>,
    /// Lines dropped since this was last reported in the log.
    unreported: u64,
    /// Whether the thread that writes has to be woken.
    writer_waits: bool,
    /// Whether the thread that writes ends when the queue is empty.
    closing: bool,
    /// Whether it has ended.
    ended: bool,
}

impl Lines {
    /// An empty queue, which adds the number of lines that it drops to `dropped`.
    pub(super) fn new(overlong: Overlong, dropped: &'static AtomicU64) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            overlong,
            dropped,
        }))
    }

    /// Starts the thread that writes to `out`. It calls `report` with the number of lines that were dropped, as soon as
    /// `out` takes lines again.
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

    /// Ends the thread that writes once all is written, and waits for that, but not longer than `timeout`.
    pub(super) fn close(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut state = self.0.state.lock();
        state.closing = true;
        self.0.work.notify_one();
        // A thread that waits for room stops waiting.
        self.0.room.notify_all();
        while !state.ended && !self.0.room.wait_until(&mut state, deadline).timed_out() {}
    }

    /// Queues a line, or several. If there is no room, waits for it, or drops them.
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

    /// Queues whole lines of an access log, and waits until there is room.
    pub(super) fn push_access(&self, mut lines: &[u8]) {
        while !lines.is_empty() {
            let part = match lines.get(..LONGEST) {
                // No line is longer.
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

    /// Waits for lines and takes all of them; says how many were dropped before them, or nothing at the end.
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

/// Writes all bytes, also where `out` is set to non-blocking. If that fails, returns how many were written, and the error.
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

/// Where a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Any thread, which must not wait.
    Log,
    /// The thread of an access log, which waits.
    AccessLog,
}

/// Takes one line: what formats events writes each with one call.
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
        // Parts of a line may come from clients, from Redis or from servers. Most lines are plain ASCII.
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

//! The log of the process. One thread writes it to standard error, from a bounded queue.
//!
//! Standard error may be a pipe whose reader has stopped, or a file on a full disk. A thread that serves requests must not block on it. So
//! only the writing thread writes to standard error while the gateway runs.

mod lines;

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal as _, Write as _};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use lines::{Lines, Overlong};
pub(crate) use lines::{count, write_patiently};
use tidegate_net::text::cut;

/// The longest wait for queued lines when the process exits.
const FLUSH: Duration = Duration::from_secs(2);
/// The filter that keeps audit lines at each level except `off`. An audit line names an operator and a change.
const AUDIT: &str = "audit=info";
/// The filter that drops warnings of the HTTP/2 library about late acknowledgements of PINGs. Without this filter, clients could fill the
/// log with these warnings.
const LATE_PINGS: &str = "h2::proto::ping_pong=error";
/// The most bytes of a panic's text.
const MAX_PANIC: usize = 4 * 1024;

/// The number of lines of all logs that were dropped because standard error was not read.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// The running log of this process. This value is not set if the log's level excludes INFO, the level of access log lines.
static RUNNING: OnceLock<AccessSink> = OnceLock::new();

/// A sink for the lines of an access log.
#[derive(Clone, Debug)]
pub struct AccessSink(Lines);

impl AccessSink {
    /// Queues whole lines. Blocks if the queue is full, so only the thread of an access log may call it.
    pub fn write(&self, lines: &[u8]) {
        self.0.push_access(lines);
    }
}

/// Returns the sink for an access log. `None` if the process has no log, or its log has only warnings and errors.
pub fn access_sink() -> Option<AccessSink> {
    RUNNING.get().cloned()
}

/// Returns the number of dropped lines since start, of the log and the access log. A line is dropped if standard error is not read in time.
pub fn dropped_lines() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// Lines for programs: one JSON object per line.
    Json,
}

/// The running log. When this value is dropped, it waits at most two seconds until the queued lines are written.
#[derive(Debug)]
pub struct Log(Lines);

/// The reason why the log cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is not a valid filter.
    #[error(transparent)]
    Level(#[from] tracing_subscriber::filter::ParseError),
    /// The thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// The process has a log already.
    #[error(transparent)]
    Running(#[from] Box<dyn std::error::Error + Send + Sync>),
}

impl Log {
    /// Starts the log of this process. After the start, panics are logged, too, and the access log may write to this log.
    ///
    /// # Errors
    ///
    /// The level is unknown, the thread cannot be started, or the process has a log already.
    pub fn start(level: &str, format: LogFormat) -> Result<Self, LogError> {
        let mut filter = EnvFilter::try_new(level)?;
        if level != "off" {
            // Audit lines are written at every level but `off`.
            filter = filter.add_directive(AUDIT.parse()?);
            filter = filter.add_directive(LATE_PINGS.parse()?);
        }
        let overlong = match format {
            LogFormat::Text => Overlong::Cut,
            LogFormat::Json => Overlong::Quote,
        };
        let lines = Lines::new(overlong, &DROPPED);
        lines.spawn_writer(io::stderr(), report)?;
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(io::stderr().is_terminal() && !has_no_color())
            // Disabled, because the library would write its own errors to standard error from the logging thread.
            .log_internal_errors(false)
            .with_writer(lines.clone());
        match format {
            LogFormat::Text => log.try_init(),
            LogFormat::Json => log.json().flatten_event(true).try_init(),
        }?;
        std::panic::set_hook(Box::new(log_panic));
        if tracing::enabled!(tracing::Level::INFO) {
            // The process has only one log, so the value was not set before.
            let _ = RUNNING.set(AccessSink(lines.clone()));
        }
        Ok(Self(lines))
    }
}

/// Returns whether the environment turns colours off (<https://no-color.org>).
fn has_no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.close(FLUSH);
    }
}

/// Logs the number of dropped lines.
fn report(lines: u64) {
    tracing::warn!(
        lines,
        "log lines were dropped, because standard error was not read in time"
    );
}

/// Logs a panic, in place of the standard library's hook. The standard library's hook writes to standard error directly, so a thread that
/// serves requests could block.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let backtrace =
        Some(Backtrace::capture()).filter(|it| it.status() == BacktraceStatus::Captured);
    tracing::error!(
        thread = thread.name(),
        location = panic.location().map(tracing::field::display),
        backtrace = backtrace.as_ref().map(tracing::field::display),
        "panic: {}",
        cut(text(panic.payload()), MAX_PANIC)
    );
}

fn text(payload: &dyn Any) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    let fixed = || payload.downcast_ref::<&str>().copied();
    owned.or_else(fixed).unwrap_or("no text")
}

/// Writes the last message of a command to standard error. Gives up after two seconds if no program reads standard error.
pub fn last_words(text: String) {
    let (written, ends) = mpsc::channel::<()>();
    let writing = std::thread::Builder::new().spawn(move || {
        // An error is ignored, because there is no place to report it.
        let _ = io::stderr().write_all(text.as_bytes());
        drop(written);
    });
    if writing.is_ok() {
        // The receiver returns when the text is written and the sender is dropped.
        let _ = ends.recv_timeout(FLUSH);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// Collects what is written.
    #[derive(Clone, Default)]
    struct Collected(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Collected {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_is_one_line_of_the_log() {
        let collected = Collected::default();
        let lines = Lines::new(Overlong::Quote, Box::leak(Box::default()));
        lines.spawn_writer(collected.clone(), |_| ()).unwrap();
        let log = tracing_subscriber::fmt().json().flatten_event(true);
        let log = log.with_writer(lines.clone()).finish();
        tracing::subscriber::with_default(log, || {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(log_panic));
            let panicked = std::panic::catch_unwind(|| panic!("it broke: {}", "x".repeat(10_000)));
            std::panic::set_hook(before);
            assert!(panicked.is_err());
        });
        lines.close(Duration::from_secs(60));
        let line = String::from_utf8(collected.0.lock().clone()).unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let message = line["message"].as_str().unwrap();
        assert!(
            message.starts_with("panic: it broke: xxx") && message.ends_with("x…"),
            "{message}"
        );
        assert!(
            line["location"].as_str().unwrap().contains("log.rs"),
            "{line}"
        );
    }

    #[test]
    fn the_text_of_a_panic_is_found() {
        assert_eq!(text(&"fixed"), "fixed");
        assert_eq!(text(&String::from("made")), "made");
        assert_eq!(text(&7), "no text");
    }
}

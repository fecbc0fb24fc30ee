//! Progress on a terminal: the share of the logs that is read, the speed, and the time left.

use std::io::Write as _;
use std::time::{Duration, Instant};

use tidegate_logs::Reader;

use crate::time::number;

const EVERY: Duration = Duration::from_millis(250);

/// A line on standard error, which each update replaces.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    next: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new(is_watched: bool) -> Self {
        let began = Instant::now();
        Self {
            began,
            next: is_watched.then(|| began + EVERY),
            is_shown: false,
        }
    }

    /// Shows the progress of the reader, at most once per `EVERY`.
    pub(crate) fn show(&mut self, reader: &Reader) {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        self.next = Some(now + EVERY);
        let took = now.duration_since(self.began).as_secs_f64();
        let (mut read, mut all) = (0, Some(0));
        for source in reader.sources() {
            read += source.bytes_read();
            all = all.zip(source.bytes()).map(|(sum, bytes)| sum + bytes);
        }
        let mut line = line(reader.report().lines, read, all, took);
        line.insert_str(0, "\r\x1b[K");
        // A failed write is ignored, because only the display of progress suffers.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
        self.is_shown = true;
    }

    /// Erases the line of progress.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = std::io::stderr().lock().write_all(b"\r\x1b[K");
        }
    }
}

/// Formats the progress from the lines read, the bytes read, the bytes of all logs, and the seconds since the start. `all` is `None` if the
/// length of a log is unknown.
fn line(lines: u64, read: u64, all: Option<u64>, took: f64) -> String {
    let rate = (lines as f64 / took.max(0.001)) as u64;
    let so_far = format!("{} lines, {}/s", number(lines), number(rate));
    match all {
        Some(all @ 1..) => {
            let part = (read as f64 / all as f64).min(1.0);
            let left = (took * (1.0 - part) / part.max(0.000_1)) as u64;
            let percent = (part * 100.0) as u64;
            format!("{percent} %, {so_far}, {}:{:02} left", left / 60, left % 60)
        }
        _ => so_far,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_how_long_it_takes_still() {
        let of = |read| line(1_000_000, read, Some(100), 2.0);
        assert_eq!(of(25), "25 %, 1,000,000 lines, 500,000/s, 0:06 left");
        assert_eq!(of(100), "100 %, 1,000,000 lines, 500,000/s, 0:00 left");
        let pipe = line(1_000, 5, None, 1.0);
        assert_eq!(pipe, "1,000 lines, 1,000/s");
    }
}

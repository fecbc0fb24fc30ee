//! Lines of the access log between the threads that serve and the thread that collects.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tidegate_config::LogFormat;

use super::line::{self, Line};
use super::record::Record;
use super::timestamp::Timestamp;

/// How many bytes of lines there may be in all: those that are buffered, those that were collected, and the same merged.
const CAPACITY: usize = 8 * 1024 * 1024;
/// The length at which a buffer is collected at once, in bytes.
const LONG: usize = 64 * 1024;
/// How long a line waits until it is collected, if its buffer stays short.
const COLLECT_EVERY: Duration = Duration::from_millis(100);
/// What of an empty buffer is kept, in bytes.
const KEPT: usize = 2 * LONG;

/// Buffers of lines, and the lines that found no room.
#[derive(Debug)]
pub(super) struct Buffers {
    format: LogFormat,
    /// One per processor: threads that serve at the same time hardly ever meet at one.
    buffers: Box<[Mutex<Buffer>]>,
    /// The most bytes of one.
    most: usize,
    dropped: AtomicU64,
    state: Mutex<State>,
    /// Notified when the collecting thread has something to do.
    work: Condvar,
    /// Notified when it ends.
    end: Condvar,
}

#[derive(Debug, Default)]
struct Buffer {
    lines: Vec<u8>,
    timestamp: Timestamp,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a buffer has lines.
    has_lines: bool,
    /// Whether a buffer is long.
    is_urgent: bool,
    closing: bool,
    ended: bool,
}

impl Buffers {
    /// Empty buffers for lines of this format.
    pub(super) fn new(format: LogFormat) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            format,
            buffers: std::iter::repeat_with(Mutex::default).take(count).collect(),
            most: CAPACITY / 3 / count,
            dropped: AtomicU64::new(0),
            state: Mutex::default(),
            work: Condvar::new(),
            end: Condvar::new(),
        }
    }

    /// Adds the line of a request, or drops it if there is no room.
    pub(super) fn write(&self, record: &Record) {
        let mut buffer = self.buffers[own_number() % self.buffers.len()].lock();
        let before = buffer.lines.len();
        if before >= self.most {
            drop(buffer);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Buffer { lines, timestamp } = &mut *buffer;
        record.format(Line::begin(lines, self.format, timestamp.now()));
        let after = lines.len();
        drop(buffer);
        let is_urgent = before < LONG && after >= LONG;
        if before == 0 || is_urgent {
            let mut state = self.state.lock();
            let wakes = !state.has_lines || is_urgent && !state.is_urgent;
            state.has_lines = true;
            state.is_urgent |= is_urgent;
            drop(state);
            if wakes {
                self.work.notify_one();
            }
        }
    }

    /// Lines that were dropped since start.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Calls `take` with whole lines, in the order of their times, until the end. While `take` waits, lines are buffered, and
    /// dropped when there is no room.
    pub(super) fn collect(&self, mut take: impl FnMut(&[u8])) {
        let mut collected: Vec<Vec<u8>> = self.buffers.iter().map(|_| Vec::new()).collect();
        let mut merged = Vec::new();
        loop {
            let ends = self.wait();
            // All at once: a line that is left for the next time is later than all that are taken.
            let mut buffers: Vec<_> = self.buffers.iter().map(Mutex::lock).collect();
            for (buffer, lines) in buffers.iter_mut().zip(&mut collected) {
                std::mem::swap(&mut buffer.lines, lines);
            }
            drop(buffers);
            merge(&collected, &mut merged);
            if !merged.is_empty() {
                take(&merged);
            }
            for lines in collected.iter_mut().chain([&mut merged]) {
                lines.clear();
                lines.shrink_to(KEPT);
            }
            if ends {
                self.state.lock().ended = true;
                self.end.notify_all();
                return;
            }
        }
    }

    /// Waits until lines are due; whether they are the last.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.has_lines && !state.closing {
            self.work.wait(&mut state);
        }
        let due = Instant::now() + COLLECT_EVERY;
        while !state.is_urgent && !state.closing {
            if self.work.wait_until(&mut state, due).timed_out() {
                break;
            }
        }
        // Before the buffers are looked at: whoever adds a line from here on says so again.
        (state.has_lines, state.is_urgent) = (false, false);
        state.closing
    }

    /// Asks the collecting thread to end, and waits for that, but not longer than `patience`.
    pub(super) fn close(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.state.lock();
        state.closing = true;
        self.work.notify_one();
        while !state.ended && !self.end.wait_until(&mut state, deadline).timed_out() {}
    }
}

/// Appends the lines of several buffers, each in order, in the order of their times.
fn merge(buffers: &[Vec<u8>], merged: &mut Vec<u8>) {
    let mut rests: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
    rests.retain(|rest| !rest.is_empty());
    while let [_, _, ..] = *rests {
        // Of the same time, the first.
        let earliest = (0..rests.len()).min_by_key(|at| line::time_of(rests[*at]));
        let Some(at) = earliest else { break };
        let end = rests[at].iter().position(|byte| *byte == b'\n');
        let (line, rest) = rests[at].split_at(end.map_or(rests[at].len(), |end| end + 1));
        merged.extend_from_slice(line);
        rests[at] = rest;
        if rest.is_empty() {
            rests.remove(at);
        }
    }
    rests.iter().for_each(|rest| merged.extend_from_slice(rest));
}

/// A number of the calling thread. Threads that were started one after the other have consecutive numbers.
fn own_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Request;

    use super::*;
    use crate::request_id::RequestIds;

    fn record(path: &str) -> Record {
        let peer = std::net::Ipv4Addr::LOCALHOST.into();
        let request = Request::get(path).body(()).unwrap();
        Record::new(&request, &RequestIds::default().next(), None, peer, peer)
    }

    #[test]
    fn what_is_buffered_is_bounded_in_bytes() {
        let buffers = Buffers::new(LogFormat::Json);
        let record = record(&format!("/{}", "x".repeat(900)));
        for _ in 0..20_000 {
            buffers.write(&record);
        }
        let sizes = buffers.buffers.iter().map(|one| one.lock().lines.len());
        let bytes: usize = sizes.sum();
        // The line that reaches the bound is whole.
        assert!(bytes <= CAPACITY / 3 + 4_096, "{bytes} bytes");
        let lines = buffers.buffers.iter().map(|one| {
            let buffer = one.lock();
            buffer.lines.iter().filter(|byte| **byte == b'\n').count()
        });
        assert_eq!(lines.sum::<usize>() as u64 + buffers.dropped(), 20_000);
        assert!(buffers.dropped() > 0);
    }

    #[test]
    fn every_line_is_collected_once_and_whole_while_threads_write() {
        const THREADS: usize = 4;
        const LINES: usize = 2_000;
        let buffers = Arc::new(Buffers::new(LogFormat::Text));
        let collecting = {
            let buffers = buffers.clone();
            std::thread::spawn(move || {
                let mut all = Vec::new();
                buffers.collect(|lines| {
                    assert_eq!(lines.last(), Some(&b'\n'));
                    all.extend_from_slice(lines);
                });
                all
            })
        };
        let writing: Vec<_> = (0..THREADS)
            .map(|thread| {
                let buffers = buffers.clone();
                std::thread::spawn(move || {
                    for line in 0..LINES {
                        buffers.write(&record(&format!("/{thread}/{line}")));
                    }
                })
            })
            .collect();
        for thread in writing {
            thread.join().unwrap();
        }
        buffers.close(Duration::from_secs(60));
        let all = String::from_utf8(collecting.join().unwrap()).unwrap();
        let mut paths: Vec<&str> = all
            .lines()
            .map(|line| line.split("path=\"").nth(1).unwrap())
            .collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(
            paths.len() as u64 + buffers.dropped(),
            (THREADS * LINES) as u64
        );
        assert_eq!(all.lines().count(), paths.len());
    }

    #[test]
    fn lines_are_in_the_order_of_their_times() {
        let time = |second: u8| format!("2026-11-22T15:32:{second:02}.000000Z");
        for (before, after) in [("", "  INFO access: x\n"), ("{\"timestamp\":\"", "\"}\n")] {
            let line = |second| format!("{before}{}{after}", time(second));
            let lines = |seconds: &[u8]| {
                seconds
                    .iter()
                    .map(|second| line(*second))
                    .collect::<String>()
            };
            let buffers =
                [&[1, 4, 6][..], &[], &[2, 3, 9]].map(|seconds| lines(seconds).into_bytes());
            let mut merged = Vec::new();
            merge(&buffers, &mut merged);
            assert_eq!(
                String::from_utf8(merged).unwrap(),
                lines(&[1, 2, 3, 4, 6, 9])
            );
        }
    }

    #[test]
    fn the_end_comes_behind_the_last_line() {
        let buffers = Buffers::new(LogFormat::Text);
        buffers.write(&record("/"));
        buffers.close(Duration::ZERO);
        let mut lines = 0;
        buffers.collect(|taken| lines += taken.iter().filter(|byte| **byte == b'\n').count());
        assert_eq!(lines, 1);
        assert!(buffers.state.lock().ended);
    }
}

//! The buffers between the threads that serve requests and the thread that collects their lines.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::format::{Fields, Format};
use super::timestamp::Clock;

/// The most bytes of all lines: buffered lines, collected lines, and the merged copy.
const CAPACITY: usize = 8 * 1024 * 1024;
/// The size of a buffer, in bytes, at which the collecting thread empties it without delay.
const LONG: usize = 64 * 1024;
/// The longest time that a line waits in a buffer with less than [`LONG`] bytes.
const COLLECT_EVERY: Duration = Duration::from_millis(100);
/// The most bytes of memory that an emptied buffer keeps.
const KEPT: usize = 2 * LONG;

/// Buffers of lines, and the number of lost lines.
#[derive(Debug)]
pub(super) struct Buffers {
    format: Format,
    /// One buffer per processor, so that threads which serve at the same time rarely share a buffer.
    buffers: Box<[Mutex<Buffer>]>,
    /// The most bytes of a buffer.
    most: usize,
    lost: AtomicU64,
    state: Mutex<State>,
    /// Notified when the collecting thread has work.
    work: Condvar,
    /// Notified when the collecting thread ends.
    end: Condvar,
}

#[derive(Debug, Default)]
struct Buffer {
    lines: Lines,
    clock: Clock,
}

/// Concatenated lines, and a mark for each line.
#[derive(Debug, Default)]
struct Lines {
    text: Vec<u8>,
    marks: Vec<Mark>,
}

/// The time of a line, in microseconds since the epoch, and the offset of its end.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: u64,
    end: usize,
}

impl Lines {
    /// Returns the memory in use, in bytes.
    fn size(&self) -> usize {
        self.text.len() + self.marks.len() * size_of::<Mark>()
    }

    fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(KEPT);
        self.marks.clear();
        self.marks.shrink_to(KEPT / size_of::<Mark>());
    }
}

/// Lines that were collected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collected<'a> {
    /// Whole lines, in the order of their times.
    pub(super) lines: &'a [u8],
    /// Whether to open the log's file again before the lines are written.
    pub(super) reopens: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a buffer has lines.
    has_lines: bool,
    /// Whether a buffer has at least [`LONG`] bytes.
    is_urgent: bool,
    /// Whether the collecting thread sleeps until a line comes. While lines come, the thread looks for lines by the clock, because each
    /// wake-up costs the request more than its line.
    sleeps: bool,
    /// Whether to open the log's file again.
    reopens: bool,
    closing: bool,
    ended: bool,
}

impl Buffers {
    /// Returns empty buffers for lines of this format.
    pub(super) fn new(format: Format) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            format,
            buffers: std::iter::repeat_with(Mutex::default).take(count).collect(),
            most: CAPACITY / 3 / count,
            lost: AtomicU64::new(0),
            state: Mutex::default(),
            work: Condvar::new(),
            end: Condvar::new(),
        }
    }

    /// Adds the line of a request. If the buffer is full, drops and counts the line.
    pub(super) fn write(&self, fields: &impl Fields) {
        let mut buffer = self.buffers[own_number() % self.buffers.len()].lock();
        let before = buffer.lines.size();
        if before >= self.most {
            // Counts while the buffer is locked, so that the next report includes this line.
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Buffer { lines, clock } = &mut *buffer;
        let at = clock.read();
        self.format.line(&mut lines.text, clock, fields);
        let end = lines.text.len();
        lines.marks.push(Mark { at, end });
        let after = lines.size();
        drop(buffer);
        let is_urgent = before < LONG && after >= LONG;
        if before == 0 || is_urgent {
            let mut state = self.state.lock();
            let wakes = state.sleeps || is_urgent && !state.is_urgent;
            state.has_lines = true;
            state.is_urgent |= is_urgent;
            drop(state);
            if wakes {
                self.work.notify_one();
            }
        }
    }

    /// Returns the number of lines lost since start.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Makes the collecting thread open the file again before it writes further lines.
    pub(super) fn reopen(&self) {
        self.state.lock().reopens = true;
        self.work.notify_one();
    }

    /// Calls `take` with whole lines, in the order of their times, until the buffers are closed. `take` returns the number of lines that it
    /// lost. While `take` blocks, new lines are buffered until the buffers are full, and further lines are dropped. After lines were lost,
    /// adds a line with their number.
    pub(super) fn collect(&self, mut take: impl FnMut(Collected<'_>) -> u64) {
        let mut collected: Vec<Lines> = self.buffers.iter().map(|_| Lines::default()).collect();
        let mut merged = Vec::new();
        let mut clock = Clock::default();
        let mut reported = 0;
        let mut take = |lines: &[u8], reopens| {
            let lost = take(Collected { lines, reopens });
            self.lost.fetch_add(lost, Ordering::Relaxed);
        };
        loop {
            let (reopens, ends) = self.wait();
            // Locks all buffers together, so that each line that is added later has a later time.
            let mut buffers: Vec<_> = self.buffers.iter().map(Mutex::lock).collect();
            for (buffer, lines) in buffers.iter_mut().zip(&mut collected) {
                std::mem::swap(&mut buffer.lines, lines);
            }
            let lost = self.lost();
            drop(buffers);
            let mut filled = collected.iter().filter(|lines| !lines.marks.is_empty());
            let lines = match (filled.next(), filled.next()) {
                // Lines of one buffer are in order, so they are not copied.
                (Some(only), None) if lost == reported => &only.text,
                _ => {
                    merge(&collected, &mut merged);
                    if lost > reported {
                        clock.read();
                        self.format.lost(&mut merged, &mut clock, lost - reported);
                        reported = lost;
                    }
                    &merged
                }
            };
            if !lines.is_empty() || reopens {
                take(lines, reopens);
            }
            collected.iter_mut().for_each(Lines::clear);
            merged.clear();
            merged.shrink_to(KEPT);
            if ends {
                break;
            }
        }
        // Reports the lines that were lost since the last report.
        let lost = self.lost();
        if lost > reported {
            clock.read();
            self.format.lost(&mut merged, &mut clock, lost - reported);
            take(&merged, false);
        }
        self.state.lock().ended = true;
        self.end.notify_all();
    }

    /// Waits until lines are due or the file is to be opened again. Returns whether to open the file again, and whether the buffers are
    /// closed, so that these lines are the last.
    fn wait(&self) -> (bool, bool) {
        let mut state = self.state.lock();
        self.wait_for_more(&mut state);
        if !state.has_lines && !state.closing && !state.reopens {
            state.sleeps = true;
            while !state.has_lines && !state.closing && !state.reopens {
                self.work.wait(&mut state);
            }
            state.sleeps = false;
            self.wait_for_more(&mut state);
        }
        // The flags are cleared before the buffers are read, because each line that is added later must set them again.
        (state.has_lines, state.is_urgent) = (false, false);
        (std::mem::take(&mut state.reopens), state.closing)
    }

    /// Waits for [`COLLECT_EVERY`], or until there is something urgent.
    fn wait_for_more(&self, state: &mut MutexGuard<'_, State>) {
        let due = Instant::now() + COLLECT_EVERY;
        while !state.is_urgent && !state.closing && !state.reopens {
            if self.work.wait_until(state, due).timed_out() {
                break;
            }
        }
    }

    /// Makes the collecting thread write the buffered lines and end. Waits until it has ended, at most for `timeout`.
    pub(super) fn close(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        state.closing = true;
        self.work.notify_one();
        while !state.ended && !self.end.wait_until(&mut state, deadline).timed_out() {}
    }
}

/// Merges the lines of several buffers in the order of their times. Each buffer is already in order.
fn merge(buffers: &[Lines], merged: &mut Vec<u8>) {
    struct Rest<'a> {
        text: &'a [u8],
        marks: &'a [Mark],
        from: usize,
    }
    let rests = buffers.iter().map(|lines| Rest {
        text: &lines.text,
        marks: &lines.marks,
        from: 0,
    });
    let mut rests: Vec<Rest<'_>> = rests.filter(|rest| !rest.marks.is_empty()).collect();
    while let [_, _, ..] = *rests {
        // With equal times, the first buffer comes first.
        let earliest = (0..rests.len()).min_by_key(|at| rests[*at].marks.first().map(|it| it.at));
        let Some(at) = earliest else { break };
        let rest = &mut rests[at];
        let [mark, later @ ..] = rest.marks else {
            break;
        };
        merged.extend_from_slice(&rest.text[rest.from..mark.end]);
        (rest.from, rest.marks) = (mark.end, later);
        if later.is_empty() {
            rests.remove(at);
        }
    }
    for rest in rests {
        merged.extend_from_slice(&rest.text[rest.from..]);
    }
}

/// Returns the calling thread's number. Threads are numbered in the order of their first call.
fn own_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests;

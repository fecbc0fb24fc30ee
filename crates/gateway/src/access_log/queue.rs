//! Records of requests that have ended, on their way to the thread that formats them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::record::Record;

/// How many bytes of records may be queued.
const CAPACITY: usize = 8 * 1024 * 1024;
/// How many records are taken from the queue at once.
const BATCH: usize = 64;

/// A queue that is bounded in bytes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Notified when the thread that formats has something to do.
    work: Condvar,
    /// Notified when it ends.
    end: Condvar,
}

#[derive(Debug, Default)]
struct State {
    records: VecDeque<Box<Record>>,
    bytes: usize,
    /// Records dropped since start.
    dropped: u64,
    /// Whether the thread that formats has to be woken.
    reader_waits: bool,
    closing: bool,
    ended: bool,
}

impl Queue {
    /// Queues a record, or drops it if there is no room.
    pub(super) fn push(&self, record: Box<Record>) {
        let size = record.size();
        let mut state = self.state.lock();
        if state.bytes + size > CAPACITY {
            state.dropped += 1;
            return;
        }
        state.bytes += size;
        state.records.push_back(record);
        if std::mem::take(&mut state.reader_waits) {
            drop(state);
            self.work.notify_one();
        }
    }

    /// Waits for records and takes some of them; says how many were dropped since start, or nothing at the end.
    #[expect(clippy::vec_box, reason = "a record is large, and moves as a pointer")]
    pub(super) fn take(&self, taken: &mut Vec<Box<Record>>) -> Option<u64> {
        let mut state = self.state.lock();
        while state.records.is_empty() {
            if state.closing {
                state.ended = true;
                self.end.notify_all();
                return None;
            }
            state.reader_waits = true;
            self.work.wait(&mut state);
        }
        state.reader_waits = false;
        let count = state.records.len().min(BATCH);
        taken.extend(state.records.drain(..count));
        state.bytes -= taken.iter().map(|record| record.size()).sum::<usize>();
        Some(state.dropped)
    }

    /// Records dropped since start.
    pub(super) fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }

    /// Asks the thread that formats to end once the queue is empty, and waits for that, but not longer than `patience`.
    pub(super) fn close(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.state.lock();
        state.closing = true;
        self.work.notify_one();
        while !state.ended && !self.end.wait_until(&mut state, deadline).timed_out() {}
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::request_id::RequestIds;

    fn record(request: &Request<()>) -> Box<Record> {
        let peer = std::net::Ipv4Addr::LOCALHOST.into();
        Box::new(Record::new(
            request,
            &RequestIds::default().next(),
            None,
            peer,
            peer,
        ))
    }

    #[test]
    fn what_is_queued_is_bounded_in_bytes() {
        let queue = Queue::default();
        let path = format!("/{}", "x".repeat(60_000));
        let request = Request::get(path).body(()).unwrap();
        for _ in 0..20_000 {
            queue.push(record(&request));
        }
        let state = queue.state.lock();
        let bytes: usize = state.records.iter().map(|record| record.size()).sum();
        assert!(bytes == state.bytes && bytes <= CAPACITY, "{bytes} bytes");
        assert_eq!(state.records.len() as u64 + state.dropped, 20_000);
        assert!(state.dropped > 0);
    }

    #[test]
    fn the_end_comes_behind_the_last_record() {
        let queue = Queue::default();
        let request = Request::get("/").body(()).unwrap();
        for _ in 0..BATCH + 1 {
            queue.push(record(&request));
        }
        queue.close(Duration::ZERO);
        let mut taken = Vec::new();
        let counts: Vec<_> = std::iter::from_fn(|| {
            taken.clear();
            queue.take(&mut taken).map(|_| taken.len())
        })
        .collect();
        assert_eq!(counts, [BATCH, 1]);
        assert!(queue.state.lock().ended && queue.state.lock().bytes == 0);
    }
}

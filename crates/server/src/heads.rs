//! Heads of requests on one connection: how many the client sent, and how many became requests. The others were refused by hyper,
//! which answers or resets them by itself.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The length of what an HTTP/2 client sends first, and of what each frame begins with.
const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The heads of one connection.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    read: AtomicUsize,
    begun: AtomicUsize,
    charged: AtomicUsize,
    leaves: AtomicBool,
    gone: AtomicBool,
    end_is_due: AtomicBool,
}

impl Heads {
    /// So many heads came whole.
    pub(crate) fn came(&self, count: usize) {
        self.read.fetch_add(count, Ordering::Relaxed);
    }

    /// One of them became a request.
    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// How many became requests.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// The client has left; of HTTP/2.
    pub(crate) fn left(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// The connection shuts down: heads that still come get no answer, and are not charged.
    pub(crate) fn leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// The end of an HTTP/2 connection was read. Returns whether the protocol has to wait for it until the connection is polled
    /// again. At the end, the protocol forgets the heads that it has read and not handed over.
    pub(crate) fn holds_end(&self) -> bool {
        self.left();
        !self.end_is_due.load(Ordering::Relaxed) && self.unknown() > 0
    }

    /// The client has left, so nobody waits for an answer; of HTTP/2.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// The connection is polled. An end that was read before has waited long enough.
    pub(crate) fn poll(&self) {
        if self.is_gone() {
            self.end_is_due.store(true, Ordering::Relaxed);
        }
    }

    /// How many heads neither became requests nor were taken as refused.
    fn unknown(&self) -> usize {
        let known = self.begun() + self.charged.load(Ordering::Relaxed);
        self.read.load(Ordering::Relaxed).saturating_sub(known)
    }

    /// Whether none was taken that became no request.
    pub(crate) fn none_refused(&self) -> bool {
        self.charged.load(Ordering::Relaxed) == 0
    }

    /// How many became no request, and were not taken here before.
    pub(crate) fn take_refused(&self) -> usize {
        if self.leaves.load(Ordering::Relaxed) {
            return 0;
        }
        let refused = self.unknown();
        if refused > 0 {
            self.charged.fetch_add(refused, Ordering::Relaxed);
        }
        refused
    }
}

/// Counts the heads in what an HTTP/2 client sends. It reads where frames begin and end, and nothing else.
#[derive(Debug)]
pub(crate) struct FrameReader {
    skip: usize,
    head: [u8; FRAME_HEAD],
    length: usize,
    // The latest stream that a client began; trailers are of one that is known.
    last: u32,
    in_head: bool,
    ends_head: bool,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self {
            skip: PREFACE,
            head: [0; FRAME_HEAD],
            length: 0,
            last: 0,
            in_head: false,
            ends_head: false,
        }
    }
}

impl FrameReader {
    /// Reads on, and gives how many heads ended.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> usize {
        let mut heads = 0;
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = &bytes[skipped..];
            } else {
                let more = (FRAME_HEAD - self.length).min(bytes.len());
                let (first, rest) = bytes.split_at(more);
                self.head[self.length..self.length + more].copy_from_slice(first);
                self.length += more;
                bytes = rest;
                if self.length == FRAME_HEAD {
                    self.length = 0;
                    self.begin_frame();
                }
            }
            if self.skip == 0 && std::mem::take(&mut self.ends_head) {
                heads += 1;
            }
        }
        heads
    }

    fn begin_frame(&mut self) {
        let [a, b, c, kind, flags, stream @ ..] = self.head;
        self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        if kind == HEADERS && stream > self.last {
            self.last = stream;
            self.in_head = true;
        }
        let ends = matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0;
        if ends && std::mem::take(&mut self.in_head) {
            self.ends_head = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, length: usize) -> Vec<u8> {
        let size = u32::try_from(length).unwrap().to_be_bytes();
        let head = [&size[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        [head, vec![0xff; length]].concat()
    }

    #[test]
    fn heads_are_counted_however_they_come() {
        const DATA: u8 = 0;
        let bytes = [
            vec![b'x'; PREFACE],
            frame(4, 0, 0, 12),
            frame(HEADERS, END_HEADERS, 1, 20),
            frame(DATA, 0, 1, 100),
            // Trailers.
            frame(HEADERS, END_HEADERS | 1, 1, 5),
            frame(HEADERS, 0, 3, 7),
            frame(CONTINUATION, 0, 3, 7),
            frame(CONTINUATION, END_HEADERS, 3, 0),
            frame(HEADERS, END_HEADERS, 5, 0),
            // Not all of it comes.
            frame(HEADERS, END_HEADERS, 7, 9)[..12].to_vec(),
        ]
        .concat();
        for size in 1..bytes.len() {
            let mut reader = FrameReader::default();
            let heads: usize = bytes.chunks(size).map(|part| reader.read(part)).sum();
            assert_eq!(heads, 3, "in parts of {size}");
        }
    }

    #[test]
    fn what_became_no_request_is_taken_once() {
        let heads = Heads::default();
        heads.came(3);
        heads.begin();
        assert_eq!([heads.take_refused(), heads.take_refused()], [2, 0]);
        heads.came(1);
        heads.leave();
        assert_eq!(heads.take_refused(), 0);
    }
}

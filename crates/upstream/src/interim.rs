//! Bounds on interim answers (1xx). hyper drops interim answers and reads until the final answer, without a bound. So a server could send
//! interim answers without end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::watched::Watch;

/// The most bytes that are read for an HTTP/1 request until hyper returns the head of its answer. The bound leaves room for the head, which
/// has its own bound, and for two buffers that hyper may read beyond the head.
const MOST_BEFORE_ANSWER: u64 = 256 * 1024;

/// The number of HEADERS frames that a server may send for each request on an HTTP/2 connection: interim answers, the answer and trailers.
/// If the server sends fewer frames, it may send the remaining frames for later requests.
const HEADS_PER_REQUEST: u64 = 256;

/// The most HEADERS frames that a server may send on an HTTP/2 connection without a further request.
const MOST_HEADS: u64 = 100 * HEADS_PER_REQUEST;

/// The type of a HEADERS frame (RFC 9113, 6.2).
const HEADERS: u8 = 1;
/// The length of a frame's head in bytes (RFC 9113, 4.1).
const FRAME_HEAD: usize = 9;

/// The value of [`Unanswered`] while no request waits for its answer: the bytes have no bound.
const NO_BOUND: u64 = u64::MAX;

/// The number of bytes that an HTTP/1 server may still send before it answers.
#[derive(Debug)]
pub(crate) struct Unanswered(AtomicU64);

impl Unanswered {
    /// Returns the state of a connection without a request.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(NO_BOUND)))
    }

    /// Records that a request is sent.
    pub(crate) fn begin(&self) {
        self.0.store(MOST_BEFORE_ANSWER, Ordering::Relaxed);
    }

    /// Lifts the bound, because the answer has begun.
    pub(crate) fn end(&self) {
        self.0.store(NO_BOUND, Ordering::Relaxed);
    }
}

impl Watch for Arc<Unanswered> {
    fn read(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        if left == NO_BOUND {
            return Ok(());
        }
        let left = left.checked_sub(bytes.len() as u64);
        let left = left.ok_or_else(|| too_much("too much came before the answer"))?;
        // If the answer has begun in the meantime, the bound is not set again.
        let next = |now| (now != NO_BOUND).then_some(left);
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        Ok(())
    }
}

/// The number of HEADERS frames that an HTTP/2 server may still send.
#[derive(Debug, Default)]
pub(crate) struct Heads(AtomicU64);

impl Heads {
    /// Records that a request is sent.
    pub(crate) fn request(&self) {
        let more = |heads: u64| Some((heads + HEADS_PER_REQUEST).min(MOST_HEADS));
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    fn head(&self) -> io::Result<()> {
        let less = |heads: u64| heads.checked_sub(1);
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.map_err(|_| too_much("too many heads came"))?;
        Ok(())
    }
}

/// Reads the types of the frames that a server sends. A frame may arrive in several parts.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    head: [u8; FRAME_HEAD],
    // The number of bytes of `head` that were read.
    length: usize,
    // The number of bytes of the previous frame's payload that have not come yet.
    left: usize,
}

impl Frames {
    /// Reads the next bytes of the stream, and counts their HEADERS frames.
    pub(crate) fn read(&mut self, mut bytes: &[u8], heads: &Heads) -> io::Result<()> {
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
            let taken = (FRAME_HEAD - self.length).min(bytes.len());
            self.head[self.length..][..taken].copy_from_slice(&bytes[..taken]);
            self.length += taken;
            bytes = &bytes[taken..];
            if self.length == FRAME_HEAD {
                let [a, b, c, kind, ..] = self.head;
                self.length = 0;
                self.left = u32::from_be_bytes([0, a, b, c]) as usize;
                if kind == HEADERS {
                    heads.head()?;
                }
            }
        }
        Ok(())
    }
}

fn too_much(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_an_answer_is_bounded() {
        let mut unanswered = Unanswered::new();
        let part = vec![0; 100 * 1024];
        for _ in 0..9 {
            unanswered.read(&part).unwrap();
        }
        for _ in 0..2 {
            unanswered.begin();
            unanswered.read(&part).unwrap();
            unanswered.read(&part).unwrap();
            unanswered.read(&part).unwrap_err();
            unanswered.end();
            unanswered.read(&part).unwrap();
        }
    }

    #[test]
    fn heads_are_counted_however_frames_are_cut() {
        let frame = |kind: u8, length: u8| {
            let mut frame = vec![0, 0, length, kind, 0, 0, 0, 0, 1];
            frame.resize(FRAME_HEAD + usize::from(length), HEADERS);
            frame
        };
        let all = [frame(4, 0), frame(1, 20), frame(0, 200), frame(1, 0)].concat();
        for size in 1..all.len() {
            let (heads, mut frames) = (Heads(AtomicU64::new(5)), Frames::default());
            for part in all.chunks(size) {
                frames.read(part, &heads).unwrap();
            }
            assert_eq!(heads.0.load(Ordering::Relaxed), 3, "parts of {size}");
        }
    }

    #[test]
    fn each_request_may_have_so_many_heads() {
        let heads = Heads::default();
        heads.head().unwrap_err();
        heads.request();
        for _ in 0..HEADS_PER_REQUEST {
            heads.head().unwrap();
        }
        heads.head().unwrap_err();
        for _ in 0..1_000 {
            heads.request();
        }
        assert_eq!(heads.0.load(Ordering::Relaxed), MOST_HEADS);
    }
}

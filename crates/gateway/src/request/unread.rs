//! A part of an answer's body that was passed to the connection, but in which the gateway has not yet looked for the request's cost.
//!
//! To read the cost, a part may have to be decompressed, which can take longer than all other work on the part. So the part is sent first,
//! and read afterwards.

use std::pin::pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::task::yield_now;

/// A buffer for one part. The next part is taken only after this part has been read.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    part: Bytes,
    /// Whether the connection has had time to send the part.
    has_left: bool,
}

impl Unread {
    /// Stores a part that was passed to the connection.
    pub(crate) fn put(&mut self, part: &Bytes) {
        self.part = part.clone();
        self.has_left = false;
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.part.is_empty()
    }

    /// Reads the part, one step per poll. The first poll reads no bytes, so that the connection can send the part. `read` returns the
    /// number of bytes that its step read.
    pub(crate) fn poll_read(
        &mut self,
        read: impl FnOnce(&[u8]) -> usize,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if self.is_empty() {
            return Poll::Ready(());
        }
        if self.has_left {
            self.read_step(read);
            if self.is_empty() {
                return Poll::Ready(());
            }
        }
        self.has_left = true;
        // Uses `yield_now`, because `wake_by_ref` would wake another thread, and that thread would use a core that a client on the same
        // machine needs.
        pin!(yield_now()).poll(context)
    }

    /// Reads all bytes that are left.
    pub(crate) fn read_all(&mut self, mut read: impl FnMut(&[u8]) -> usize) {
        while !self.is_empty() {
            self.read_step(&mut read);
        }
    }

    fn read_step(&mut self, read: impl FnOnce(&[u8]) -> usize) {
        let step = read(&self.part);
        self.part.advance(step);
        if self.part.is_empty() {
            // The part is replaced, because an empty slice can keep a large buffer in memory.
            self.part = Bytes::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_part_is_read_in_steps_after_it_has_left() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut context = Context::from_waker(&waker);
        let mut unread = Unread::default();
        let mut poll = |unread: &mut Unread, step: usize| {
            let mut read = Vec::new();
            let done = unread.poll_read(
                |part| {
                    read.extend_from_slice(&part[..step]);
                    step
                },
                &mut context,
            );
            let read = String::from_utf8(read).unwrap();
            (done, read, wakes.0.swap(0, Ordering::Relaxed))
        };
        let result = |done, read: &str, wakes| (done, read.to_owned(), wakes);
        assert_eq!(poll(&mut unread, 9), result(Poll::Ready(()), "", 0));
        for _ in 0..2 {
            unread.put(&"abcdef".into());
            assert_eq!(poll(&mut unread, 9), result(Poll::Pending, "", 1));
            assert_eq!(poll(&mut unread, 4), result(Poll::Pending, "abcd", 1));
            assert_eq!(poll(&mut unread, 2), result(Poll::Ready(()), "ef", 0));
            assert_eq!(poll(&mut unread, 9), result(Poll::Ready(()), "", 0));
        }
        unread.put(&"abcdef".into());
        unread.read_all(|part| part.len().min(4));
        assert!(unread.is_empty());
    }
}

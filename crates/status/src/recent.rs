//! The last items of a stream. The number of items that are added in a second is bounded.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::ring::push;

/// The last items of a stream. Items above the bound per second are counted, but not kept.
#[derive(Debug)]
pub struct Recent<T> {
    items: Mutex<VecDeque<T>>,
    most: usize,
    per_second: u32,
    // The number of items that may still be added in this second.
    left: AtomicU32,
    left_out: AtomicU64,
}

impl<T: Clone> Recent<T> {
    /// Returns an empty list. It keeps the last `most` items, and takes at most `per_second` items between two calls of
    /// [`refill`](Self::refill).
    pub const fn new(most: usize, per_second: u32) -> Self {
        Self {
            items: Mutex::new(VecDeque::new()),
            most,
            per_second,
            left: AtomicU32::new(per_second),
            left_out: AtomicU64::new(0),
        }
    }

    /// Adds an item. Calls `item` only if the bound of this second is not reached.
    #[inline]
    pub fn add(&self, item: impl FnOnce() -> T) {
        // At high rates most items are above the bound. This check spares them an atomic update of `left`, which would fail.
        if self.left.load(Ordering::Relaxed) == 0 {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        } else {
            self.try_add(item);
        }
    }

    #[cold]
    #[inline(never)]
    fn try_add(&self, item: impl FnOnce() -> T) {
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1));
        if taken.is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let item = item();
        push(&mut self.items.lock(), item, self.most);
    }

    /// Begins the next second, in which up to `per_second` items may be added.
    pub fn refill(&self) {
        self.left.store(self.per_second, Ordering::Relaxed);
    }

    /// Returns the number of items since the start that were not kept because of the bound per second.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Returns the latest item for which `is_it` returns true.
    pub fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let items = self.items.lock();
        items.iter().rev().find(|item| is_it(item)).cloned()
    }

    /// Returns the items, the latest first.
    pub fn list(&self) -> Vec<T> {
        self.items.lock().iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_last_and_counts_what_is_too_much() {
        let recent = Recent::new(3, 2);
        for second in 0..3 {
            for item in 0..5 {
                recent.add(|| second * 10 + item);
            }
            recent.refill();
        }
        assert_eq!(recent.list(), [21, 20, 11]);
        assert_eq!(recent.find(|item| *item > 19), Some(21));
        assert_eq!(recent.find(|item| *item < 11), None);
        assert_eq!(recent.left_out(), 9);
    }
}

//! A boolean that the tasks of a connection share.

use std::sync::atomic::{AtomicBool, Ordering};

/// A boolean that is read without a lock. Its accesses do not order accesses to other memory (`Relaxed`).
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.put(true);
    }

    pub(crate) fn put(&self, value: bool) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Clears the flag. Returns whether it was set.
    pub(crate) fn take(&self) -> bool {
        self.is_set() && self.0.swap(false, Ordering::Relaxed)
    }
}

//! The bound on the memory for parts of bodies that wait in the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most bytes of waiting bodies in one [`BufferMemory`]. Each upstream has three of these memories: for replays, for first parts and
/// for answers.
const MAX_BUFFERED: usize = 16 * 1024 * 1024;

/// The number of bytes of bodies that wait in the gateway.
#[derive(Debug, Default)]
pub struct BufferMemory(AtomicUsize);

/// Bytes that were reserved in a [`BufferMemory`]. A drop frees them.
#[derive(Debug)]
pub struct Buffered {
    memory: Arc<BufferMemory>,
    bytes: usize,
}

impl BufferMemory {
    /// Reserves `bytes` bytes of the memory, if there is room for them.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Buffered> {
        let mut buffered = Buffered::none(self);
        buffered.grow(bytes).then_some(buffered)
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Buffered {
    /// Returns a `Buffered` without bytes.
    pub(crate) fn none(memory: &Arc<BufferMemory>) -> Self {
        let memory = memory.clone();
        Self { memory, bytes: 0 }
    }

    /// Reserves more bytes, if there is room for them. Returns whether there was room.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let more = |taken: usize| Some(taken + bytes).filter(|taken| *taken <= MAX_BUFFERED);
        let taken = &self.memory.0;
        let grown = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        self.bytes += if grown.is_ok() { bytes } else { 0 };
        grown.is_ok()
    }

    /// Frees all bytes.
    pub(crate) fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.memory.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_for_all_bodies_is_bounded_and_comes_back() {
        let memory = Arc::new(BufferMemory::default());
        let most = memory.take(MAX_BUFFERED - 1);
        assert!(most.is_some());
        assert!(memory.take(2).is_none());
        let last = memory.take(1);
        assert!(last.is_some());
        assert!(memory.take(1).is_none());
        drop((most, last));
        assert!(memory.take(MAX_BUFFERED).is_some());
    }
}

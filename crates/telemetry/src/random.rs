//! Random numbers that cost only a few instructions. They may be predictable, so they must not be used as secrets.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};

/// Returns a random number. Each thread has a sequence of its own.
pub(crate) fn next() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0) | 1);
    }
    STATE.with(|state| {
        // The algorithm is xorshift64*.
        let mut x = state.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    })
}

/// Returns true with the given probability, in millionths.
pub(crate) fn happens(of_a_million: u32) -> bool {
    (((next() >> 32) * 1_000_000) >> 32) < u64::from(of_a_million)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certain_happens_and_what_is_impossible_does_not() {
        assert!((0..10_000).all(|_| happens(1_000_000)));
        assert!(!(0..10_000).any(|_| happens(0)));
    }

    #[test]
    fn numbers_of_threads_differ() {
        let first = next();
        let second = std::thread::spawn(next).join().unwrap();
        assert_ne!(first, second);
    }
}

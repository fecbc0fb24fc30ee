//! Estimates the number of different clients that a limit has seen in the last minute. The estimate is a HyperLogLog (Flajolet, Fusy,
//! Gandouet, Meunier, 2007), which needs a fixed number of bytes for any number of clients. Requests add to it without a lock.

#[cfg(test)]
mod tests;

use std::array::from_fn;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The first bits of a hash, which choose its register.
const INDEX_BITS: u32 = 9;
/// The registers of a time slice. The standard error of an estimate is 1.04 / sqrt(512) = 4.6 %.
const REGISTERS: usize = 1 << INDEX_BITS;
/// The time slices of a minute. A time slice takes ten seconds.
const SLICES: usize = 6;
/// The factor that corrects the raw estimate, for 512 registers.
const ALPHA: f64 = 0.7213 / (1.0 + 1.079 / REGISTERS as f64);

/// The clients that a limit has seen in the last minute, as an estimate of their number.
#[derive(Debug)]
pub(super) struct SeenClients {
    /// The slice of the current ten seconds.
    current: AtomicUsize,
    slices: Box<[Slice; SLICES]>,
}

/// The registers of ten seconds. A register has the highest rank of its hashes, and 0 without a hash.
type Slice = [AtomicU8; REGISTERS];

impl Default for SeenClients {
    fn default() -> Self {
        Self {
            current: AtomicUsize::new(0),
            slices: Box::new(from_fn(|_| from_fn(|_| AtomicU8::new(0)))),
        }
    }
}

impl SeenClients {
    /// Adds the client with this hash.
    #[inline]
    pub(super) fn add(&self, hash: u64) {
        let slice = &self.slices[self.current.load(Ordering::Relaxed)];
        let register = &slice[(hash >> (u64::BITS - INDEX_BITS)) as usize];
        // The rank is the position of the first 1 after the index. The last bit is set, so that there is a 1.
        let rank = (hash << INDEX_BITS | 1).leading_zeros() as u8 + 1;
        // Most requests find their client in the register, and do not write.
        if register.load(Ordering::Relaxed) < rank {
            register.fetch_max(rank, Ordering::Relaxed);
        }
    }

    /// Ends a slice of ten seconds. Returns the estimated number of clients in the six slices that ended last.
    pub(super) fn turn(&self) -> u64 {
        let registers = from_fn(|index| {
            let ranks = self.slices.iter().map(|slice| &slice[index]);
            let ranks = ranks.map(|rank| rank.load(Ordering::Relaxed));
            ranks.max().unwrap_or_default()
        });
        let next = (self.current.load(Ordering::Relaxed) + 1) % SLICES;
        for register in &self.slices[next] {
            register.store(0, Ordering::Relaxed);
        }
        self.current.store(next, Ordering::Relaxed);
        estimate(&registers)
    }
}

/// Returns the estimated number of different hashes.
fn estimate(registers: &[u8; REGISTERS]) -> u64 {
    let count = REGISTERS as f64;
    let sum: f64 = registers
        .iter()
        .map(|rank| (-f64::from(*rank)).exp2())
        .sum();
    let raw = ALPHA * count * count / sum;
    let empty = registers.iter().filter(|rank| **rank == 0).count();
    let number = match empty {
        // For small numbers, the number of empty registers gives a better estimate (linear counting).
        1.. if raw <= 2.5 * count => count * (count / empty as f64).ln(),
        _ => raw,
    };
    number.round() as u64
}

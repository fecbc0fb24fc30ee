//! Random numbers that are the same for the same seed (SplitMix64, Steele et al. 2014).

/// A sequence of random numbers.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// Returns the next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// Returns a random element of the values.
    pub const fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }

    /// Returns true with a probability of 1 in `times`.
    pub const fn one_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }
}

//! Random numbers that can be had again from their seed (SplitMix64, Steele et al. 2014).

/// A sequence of random numbers.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub(crate) const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) const fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }

    /// True once in so many times.
    pub(crate) const fn one_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }
}

//! Maps keys to their places in a list. A search compares few keys.

/// The value of a slot without a place.
const EMPTY: u16 = u16::MAX;
/// A multiplier that spreads keys which differ in few bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// An item of a list. Its key is a hash.
pub(crate) trait Keyed {
    fn key(&self) -> u64;
}

/// A map from the keys of a list to their places. A search goes from slot to slot (linear probing). It is short while less than half of the
/// slots are in use. `SLOTS` is a power of two.
#[derive(Clone, Debug)]
pub(crate) struct Index<const SLOTS: usize> {
    slots: Box<[u16; SLOTS]>,
}

/// The slot for a key that is not in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot(usize);

impl<const SLOTS: usize> Default for Index<SLOTS> {
    fn default() -> Self {
        Self {
            slots: Box::new([EMPTY; SLOTS]),
        }
    }
}

impl<const SLOTS: usize> Index<SLOTS> {
    /// The memory of an index, in bytes.
    #[cfg(test)]
    pub(crate) const BYTES: usize = size_of::<[u16; SLOTS]>();

    /// Returns the place of a key in the list. If the list does not have the key, returns the slot for it.
    #[inline]
    pub(crate) fn find(&self, list: &[impl Keyed], key: u64) -> Result<usize, Slot> {
        let mut slot = Self::home(key);
        loop {
            let place = usize::from(self.slots[slot]);
            match list.get(place) {
                Some(known) if known.key() == key => return Ok(place),
                Some(_) => slot = (slot + 1) % SLOTS,
                None => return Err(Slot(slot)),
            }
        }
    }

    /// Stores the place of a key that `find` did not find. The place must be below 65,535.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, place: usize) {
        self.slots[slot.0] = place as u16;
    }

    /// Stores the places of all keys again, after the list has changed.
    pub(crate) fn rebuild(&mut self, list: &[impl Keyed]) {
        self.slots.fill(EMPTY);
        for (place, keyed) in list.iter().enumerate() {
            let mut slot = Self::home(keyed.key());
            while self.slots[slot] != EMPTY {
                slot = (slot + 1) % SLOTS;
            }
            self.slots[slot] = place as u16;
        }
    }

    /// Returns the slot where a key's search begins.
    #[inline]
    const fn home(key: u64) -> usize {
        (key.wrapping_mul(SPREAD) >> (u64::BITS - SLOTS.trailing_zeros())) as usize
    }
}

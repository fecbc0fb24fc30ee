//! The places of keys in a list, so that a key is found without a look at the others.

/// A slot without a place.
const EMPTY: u16 = u16::MAX;
/// The golden ratio spreads keys that differ in few bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is found by its key, a hash.
pub(crate) trait Keyed {
    fn key(&self) -> u64;
}

/// From the keys of a list to their places. A search goes from slot to slot (linear probing). It is short if there are more than twice as
/// many slots as places. `SLOTS` is a power of two.
#[derive(Clone, Debug)]
pub(crate) struct Index<const SLOTS: usize> {
    slots: Box<[u16; SLOTS]>,
}

/// Where a key belongs that the list does not have.
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
    /// The bytes that it takes.
    #[cfg(test)]
    pub(crate) const BYTES: usize = size_of::<[u16; SLOTS]>();

    /// The place of a key in the list of this index, or the slot where it belongs.
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

    /// The key that was looked for gets this place, which is below 65,535.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, place: usize) {
        self.slots[slot.0] = place as u16;
    }

    /// Takes the places of all keys anew.
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

    /// Where a key's search begins.
    #[inline]
    const fn home(key: u64) -> usize {
        (key.wrapping_mul(SPREAD) >> (u64::BITS - SLOTS.trailing_zeros())) as usize
    }
}

//! Maps the keys of a list to their positions in this list. A search compares few keys.

/// The value of an empty cell.
const EMPTY: u16 = u16::MAX;
/// A multiplier that spreads keys which differ in few bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// An item of a list. Its key is a hash.
pub(crate) trait Keyed {
    fn key(&self) -> u64;
}

/// A map from the keys of a list to their positions in this list. A search goes from cell to cell (linear probing). Searches are short
/// while less than half of the cells are in use. `CELLS` is a power of two.
#[derive(Clone, Debug)]
pub(crate) struct Index<const CELLS: usize> {
    cells: Box<[u16; CELLS]>,
}

/// The cell for a key that is not in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeCell(usize);

impl<const CELLS: usize> Default for Index<CELLS> {
    fn default() -> Self {
        Self {
            cells: Box::new([EMPTY; CELLS]),
        }
    }
}

impl<const CELLS: usize> Index<CELLS> {
    /// The memory of an index, in bytes.
    #[cfg(test)]
    pub(crate) const BYTES: usize = size_of::<[u16; CELLS]>();

    /// Returns the position of a key in the list. If the list does not have the key, returns the free cell for this key.
    #[inline]
    pub(crate) fn find(&self, list: &[impl Keyed], key: u64) -> Result<usize, FreeCell> {
        let mut cell = Self::home(key);
        loop {
            let place = usize::from(self.cells[cell]);
            match list.get(place) {
                Some(entry) if entry.key() == key => return Ok(place),
                Some(_) => cell = (cell + 1) % CELLS,
                None => return Err(FreeCell(cell)),
            }
        }
    }

    /// Stores the position of a new key in `cell`, the free cell that `find` returned for this key. The position must be below 65,535.
    #[inline]
    pub(crate) fn set(&mut self, cell: FreeCell, place: usize) {
        self.cells[cell.0] = place as u16;
    }

    /// Stores the positions of all keys again, after items of the list were removed or moved.
    pub(crate) fn rebuild(&mut self, list: &[impl Keyed]) {
        self.cells.fill(EMPTY);
        for (place, keyed) in list.iter().enumerate() {
            let mut cell = Self::home(keyed.key());
            while self.cells[cell] != EMPTY {
                cell = (cell + 1) % CELLS;
            }
            self.cells[cell] = place as u16;
        }
    }

    /// Returns the cell where a key's search begins.
    #[inline]
    const fn home(key: u64) -> usize {
        (key.wrapping_mul(SPREAD) >> (u64::BITS - CELLS.trailing_zeros())) as usize
    }
}

//! Lists of the last items of a stream.

use std::collections::VecDeque;

/// Adds an item, in place of the first one if there are `most`.
pub(crate) fn push<T>(ring: &mut VecDeque<T>, item: T, most: usize) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(item);
}

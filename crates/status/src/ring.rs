//! Lists of the last items of a stream.

use std::collections::VecDeque;

/// Adds an item at the end. If the list has `most` items, removes the first item.
pub(crate) fn push<T>(ring: &mut VecDeque<T>, item: T, most: usize) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(item);
}

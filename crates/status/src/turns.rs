//! Picks items of several kinds in turn, so that many items of one kind do not displace the items of other kinds.

use std::collections::HashMap;
use std::hash::Hash;

/// Selects at most `most` items in rounds. Each round selects one further item of each kind. Returns the selected items in the order of
/// `items`.
pub fn by_turns<T, K: Eq + Hash>(
    items: Vec<T>,
    most: usize,
    kind: impl Fn(&T) -> K,
) -> impl Iterator<Item = T> {
    let mut turns: HashMap<K, usize> = HashMap::new();
    let mut turn_of = Vec::with_capacity(items.len());
    for item in &items {
        let turn = turns.entry(kind(item)).or_default();
        *turn += 1;
        turn_of.push(*turn);
    }
    let mut first: Vec<usize> = (0..items.len()).collect();
    first.sort_by_key(|at| turn_of[*at]);
    let mut is_taken = vec![false; items.len()];
    for at in first.into_iter().take(most) {
        is_taken[at] = true;
    }
    let items = items.into_iter().zip(is_taken);
    items.filter_map(|(item, is_taken)| is_taken.then_some(item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_of_one_kind_leave_room_for_others() {
        let of = |kind, count| (0..count).map(move |at| (kind, at));
        let items: Vec<_> = of('a', 200).chain(of('b', 3)).chain(of('c', 90)).collect();
        let taken: Vec<_> = by_turns(items.clone(), 100, |(kind, _)| *kind).collect();
        let expected: Vec<_> = of('a', 49).chain(of('b', 3)).chain(of('c', 48)).collect();
        assert_eq!(taken, expected);
        let all: Vec<_> = by_turns(items.clone(), 293, |(kind, _)| *kind).collect();
        assert_eq!(all, items);
    }
}

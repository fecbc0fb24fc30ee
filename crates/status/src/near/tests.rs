use super::*;

#[test]
fn who_has_less_left_takes_the_place_of_others_and_who_was_not_seen_makes_place() {
    let mut table = NearTable::default();
    let nearness = |left| Nearness {
        limit: 0,
        left,
        of: 100,
    };
    let names = |table: &NearTable<u64>| -> Vec<u64> {
        let mut names: Vec<u64> = table.seen(1).map(|(_, it)| it.name).collect();
        names.sort_unstable();
        names
    };
    let add = |table: &mut NearTable<u64>, key, nearness, tick, name: fn(u64) -> u64| {
        let near = [nearness].into_iter().collect();
        table.note(key, &near, tick, || name(key));
    };
    // More keys than the table has places.
    (0..100_000).for_each(|key| add(&mut table, key, nearness(10), 1, |key| key));
    let first = names(&table);
    assert!((KEYS..KEYS + SPARE).contains(&first.len()));
    // Other keys with the same units left change nothing, and no name is made for them.
    (100_000..200_000).for_each(|key| add(&mut table, key, nearness(10), 1, |_| unreachable!()));
    assert_eq!(names(&table), first);
    add(&mut table, 200_000, nearness(9), 1, |key| key);
    assert!(names(&table).contains(&200_000));
    // Keys with the most units left make room.
    (400_000..500_000).for_each(|key| add(&mut table, key, nearness(8), 1, |key| key));
    let left = |table: &NearTable<u64>| -> Vec<u64> {
        let left = table.seen(1).map(|(_, it)| it.nearness.left);
        left.collect()
    };
    assert!(left(&table).iter().all(|left| *left == 8));
    // A known key that has more units left again stays, until other keys have fewer.
    let name = names(&table)[0];
    add(&mut table, name, nearness(15), 1, |_| unreachable!());
    assert!(left(&table).contains(&15));
    (500_000..500_100).for_each(|key| add(&mut table, key, nearness(7), 1, |key| key));
    assert!(!names(&table).contains(&name));
    // If all keys of this turn have no units left, other keys get no place.
    (0..100_000).for_each(|key| add(&mut table, key, nearness(0), 1, |key| key));
    let first = names(&table);
    assert_eq!(left(&table).iter().filter(|left| **left > 0).count(), 0);
    (700_000..800_000).for_each(|key| add(&mut table, key, nearness(0), 1, |_| unreachable!()));
    assert_eq!(names(&table), first);
    // The table has not allocated more places.
    assert!(table.keys.capacity() <= KEYS + SPARE);
    // One turn later, the keys of this turn are old, and make room.
    (300_000..400_000).for_each(|key| add(&mut table, key, nearness(20), 2, |key| key));
    assert!(table.seen(2).count() >= KEYS);
    assert!(names(&table).iter().all(|name| *name >= 300_000));
}

#[test]
fn a_fifth_of_a_limit_is_near_it() {
    for (left, of, is_near) in [
        (0, 1, true),
        (1, 1, false),
        (1, 5, true),
        (1, 4, false),
        (20, 100, true),
        (21, 100, false),
        ((1 << 53) / 5, 1 << 53, true),
        ((1 << 53) / 5 + 1, 1 << 53, false),
    ] {
        assert_eq!(Nearness::is_near(left, of), is_near, "{left} of {of}");
    }
}

#[test]
fn a_key_is_near_a_few_limits_at_once() {
    let mut table = NearTable::default();
    let near = |limit, left| Nearness {
        limit,
        left,
        of: 100,
    };
    let limits = |near: &[Nearness]| near.iter().copied().collect();
    let seen = |table: &NearTable<()>| -> Vec<(u32, u64, u32)> {
        let seen = table.seen(1);
        let mut seen: Vec<_> = seen
            .map(|(tick, it)| (it.nearness.limit, it.nearness.left, tick))
            .collect();
        seen.sort_unstable();
        seen
    };
    table.note(7, &limits(&[near(0, 20), near(1, 10)]), 1, || ());
    assert_eq!(seen(&table), [(0, 20, 1), (1, 10, 1)]);
    // Requests with fewer or other limits are stored in the same places.
    table.note(7, &limits(&[near(1, 12)]), 2, || ());
    table.note(7, &limits(&[near(2, 5), near(0, 19)]), 2, || ());
    assert_eq!(seen(&table), [(0, 19, 2), (1, 12, 2), (2, 5, 2)]);
    // A fifth limit replaces the limit that was not seen for longest.
    table.note(7, &limits(&[near(3, 1), near(1, 11)]), 3, || ());
    table.note(7, &limits(&[near(4, 2), near(2, 4)]), 4, || ());
    assert_eq!(seen(&table), [(1, 11, 3), (2, 4, 4), (3, 1, 3), (4, 2, 4)]);
    // Of more limits than places, the limits with the fewest units left are kept.
    let many = [3, 9, 8, 7, 2, 6, 1, 9];
    let many: Vec<_> = (10..)
        .zip(many)
        .map(|(limit, left)| near(limit, left))
        .collect();
    for near in many.chunks(LIMITS) {
        table.note(7, &limits(near), 5, || ());
    }
    let nearest = [(10, 3, 5), (14, 2, 5), (15, 6, 5), (16, 1, 5)];
    assert_eq!(seen(&table), nearest);
    table.note(8, &many.into_iter().collect(), 5, || ());
    let of_8: Vec<_> = table.seen(5).filter(|(_, it)| it.key == 8).collect();
    assert_eq!(of_8.len(), LIMITS);
}

//! Every figure is within its error, and no error is above N/m, whatever the stream and however it is split and merged.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_status::{Hitters, Measure, NearLimits, SpaceSaving, Summary};

/// The counters of a table.
const M: u64 = 1_024;

type Stream = Vec<(u64, u64)>;

/// Streams of keys and weights: few keys that make up most, many alike, and one that replaces every counter again and again.
fn streams() -> impl Strategy<Value = Stream> {
    let skewed = prop::collection::vec((any::<u32>(), 1_u64..5), 0..20_000).prop_map(|draws| {
        // Zipf: the key r comes in proportion to 1/r.
        let key = |draw: u32| (f64::from(u32::MAX) / (f64::from(draw) + 1.0)) as u64;
        let draws = draws.into_iter();
        draws.map(|(draw, weight)| (key(draw), weight)).collect()
    });
    let uniform = prop::collection::vec((0_u64..5_000, 1_u64..100), 0..20_000);
    // All counters are taken, then each newcomer comes as often as the smallest counter, plus one.
    let adversarial = (1_u64..20_000, 1_u64..9, any::<u64>()).prop_map(|(length, weight, salt)| {
        let keys = (0..length).map(|n| n.wrapping_mul(0x9e37_79b9).wrapping_add(salt));
        keys.enumerate()
            .map(|(n, key)| {
                (
                    key,
                    if n as u64 > M {
                        weight
                    } else {
                        1 + n as u64 % 3
                    },
                )
            })
            .collect()
    });
    prop_oneof![skewed, uniform, adversarial]
}

fn exact(stream: &Stream) -> HashMap<u64, u64> {
    let mut counts = HashMap::new();
    for (key, weight) in stream {
        *counts.entry(*key).or_insert(0) += weight;
    }
    counts
}

fn holds(summary: &Summary<Arc<u64>>, counts: &HashMap<u64, u64>) -> Result<(), TestCaseError> {
    let total: u64 = counts.values().sum();
    prop_assert_eq!(summary.total(), total);
    prop_assert!(
        summary.floor() <= total / M,
        "{} > {total}/{M}",
        summary.floor()
    );
    for (key, count) in counts {
        match summary.get(*key) {
            Some(entry) => {
                prop_assert!(
                    entry.low <= *count && *count <= entry.high,
                    "{entry:?}, not {count}"
                );
                prop_assert!(entry.high - entry.low <= total / M, "{entry:?} of {total}");
                prop_assert!(entry.name.as_deref().is_none_or(|name| name == key));
                prop_assert!(
                    entry.name.is_some() || *count <= total / M,
                    "{entry:?} of {total} has no name, and has {count}"
                );
            }
            None => prop_assert!(*count <= summary.floor(), "{count} is not listed"),
        }
    }
    Ok(())
}

/// A table of all of a stream.
fn table(stream: &Stream) -> SpaceSaving<u64> {
    let mut table = SpaceSaving::default();
    for (key, weight) in stream {
        table.add(*key, *weight, || *key);
    }
    table
}

/// Counts units of a client that is near no limit.
fn count<N: Clone>(hitters: &Hitters<N>, key: u64, added: (Measure, u64), name: impl FnMut() -> N) {
    hitters.count(key, Some(added), &NearLimits::default(), name);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn one_stream_is_known_to_the_mth_part(stream in streams()) {
        holds(&table(&stream).summary(), &exact(&stream))?;
    }

    #[test]
    fn merged_streams_are_known_to_the_mth_part_of_all(
        streams in prop::collection::vec(streams(), 1..6),
        prunes in any::<bool>(),
    ) {
        let mut merged = Summary::default();
        let mut all = Stream::new();
        for stream in streams {
            merged.merge(table(&stream).summary());
            if prunes {
                merged.prune(M as usize);
                prop_assert!(merged.top(usize::MAX).len() < M as usize);
            }
            all.extend(stream);
        }
        holds(&merged, &exact(&all))?;
    }
}

#[test]
fn a_million_single_clients_do_not_hide_one_with_a_hundredth() {
    let hitters = Hitters::new(4);
    let (singles, greedy) = (1_000_000_u64, u64::MAX);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let hitters = &hitters;
            scope.spawn(move || {
                for n in (thread..singles).step_by(4) {
                    count(hitters, n, (Measure::Admitted, 1), || n);
                    if n % 99 == 0 {
                        count(hitters, greedy, (Measure::Admitted, 1), || greedy);
                    }
                }
            });
        }
    });
    let expected = singles.div_ceil(99);
    for turns in 0..8 {
        let top = hitters.top();
        let found = &top.start[Measure::Admitted as usize];
        let (key, entry) = found.top(1)[0];
        assert_eq!((key, entry.name.as_deref()), (greedy, Some(&greedy)));
        assert!((entry.low..=entry.high).contains(&expected), "{entry:?}");
        assert!(entry.high - entry.low <= found.total() / M, "{entry:?}");
        // A minute after, it is in nobody's last minute any more.
        let minute = top.minute[Measure::Admitted as usize].top(1).len();
        assert_eq!(minute, usize::from(turns < 6), "after {turns} turns");
        hitters.turn();
    }
}

#[test]
fn clients_that_are_alike_keep_names_to_be_listed_by() {
    let hitters = Hitters::new(1);
    for key in 0..1_000 {
        count(&hitters, key, (Measure::Admitted, 1), || key);
    }
    hitters.turn();
    let top = hitters.top();
    for summary in [&top.minute[0], &top.start[0]] {
        let listed = summary.top(usize::MAX);
        let named = listed.iter().filter(|(_, entry)| entry.name.is_some());
        assert_eq!(named.count(), 112);
    }
}

#[test]
fn a_key_that_was_removed_has_its_name_when_it_is_large_again() {
    for weight in [1, 1_000] {
        let mut table = SpaceSaving::default();
        let mut counts = HashMap::new();
        let mut add = |key, weight| {
            table.add(key, weight, || key);
            *counts.entry(key).or_insert(0) += weight;
        };
        // As many as all counters together are alike, and go together.
        (0..300 / weight.min(300)).for_each(|_| (0..=M).for_each(|key| add(key, weight)));
        (0..=M).for_each(|key| add(key, weight));
        (M + 1..M + 512).for_each(|key| add(key, 1));
        add(0, weight + 1);
        let (total, summary) = (table.total(), table.summary());
        assert!(counts[&0] > total / M, "{} of {total}", counts[&0]);
        let found = summary.get(0).unwrap();
        assert_eq!(found.name.as_deref(), Some(&0), "{found:?} of {total}");
    }
}

#[test]
fn a_client_that_is_never_among_the_largest_of_ten_seconds_may_be_the_largest_since_the_start() {
    let hitters = Hitters::new(1);
    let count = |key, weight| count(&hitters, key, (Measure::Admitted, weight), || key);
    for slice in 1..=60 {
        (0..200).for_each(|n| count(1_000 * slice + n, 50));
        count(7, 40);
        hitters.turn();
    }
    let start = &hitters.top().start[Measure::Admitted as usize];
    let (key, largest) = start.top(1)[0];
    assert_eq!((key, largest.name.as_deref()), (7, Some(&7)), "{largest:?}");
}

#[test]
fn names_are_copied_with_a_new_key_only() {
    let hitters = Hitters::new(1);
    let mut copies = 0;
    for _ in 0..3 {
        for key in 0..100 {
            count(&hitters, key, (Measure::Refused, 1), || copies += 1);
        }
    }
    assert_eq!(copies, 100);
}

#[test]
fn clients_that_come_once_are_not_named_where_there_are_many() {
    let hitters = Hitters::new(1);
    let mut copies = 0;
    for key in 0..100_000 {
        count(&hitters, key, (Measure::Refused, 1), || copies += 1);
    }
    // Only the first: each of them may still have more than one in M of all.
    let first = copies;
    assert!((M..2 * M).contains(&first), "{first}");
    // Whoever comes a third time has a name, and so has at once who costs much.
    for named in [0, 0, 1] {
        count(&hitters, 1 << 40, (Measure::Refused, 1), || copies += 1);
        assert_eq!(copies, first + named);
    }
    count(&hitters, 1 << 41, (Measure::Refused, 1_000), || copies += 1);
    assert_eq!(copies, first + 2);
    let top = hitters.top();
    let refused = &top.start[Measure::Refused as usize];
    for (key, count) in [(1 << 40, 3), (1 << 41, 1_000)] {
        let entry = refused.get(key).unwrap();
        assert_eq!((entry.low, entry.name.is_some()), (count, true));
    }
}

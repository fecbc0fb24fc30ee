use tidegate_tower::OverrideAction;

use super::*;
use crate::change::{Expected, Intent, Wish};
use crate::name::{Subject, read_name};

fn subject(name: &str) -> Subject {
    read_name(name, 64).unwrap()
}

fn table() -> Table {
    Table::new(Duration::from_micros(1_000))
}

fn entry(version: u64, ends: Option<Micros>, intent: Intent) -> Entry {
    let wish = Wish {
        intent,
        ..Wish::clear(subject("1.2.3.4"), Expected::Any, Clearing::default())
    };
    Entry::new(version, ends, &wish.content())
}

fn set(version: u64, ends: Option<Micros>) -> Entry {
    let setting = Setting::new(OverrideAction::Block, "why", "").unwrap();
    entry(version, ends, Intent::Set(setting))
}

fn cleared(version: u64, at: Micros) -> Entry {
    entry(version, Some(at), Intent::Clear(Clearing::default()))
}

#[test]
fn the_highest_version_wins_in_any_order() {
    let entries = [set(3, None), cleared(5, 5), set(4, Some(50))];
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    let name = subject("user_id:42");
    for order in orders {
        let mut table = table();
        table.advance(10);
        for index in order {
            table.merge(&name, entries[index].clone());
        }
        assert_eq!(table.entries().get(&name), Some(&entries[1]), "{order:?}");
        assert_eq!((table.version(), table.holding()), (5, 0), "{order:?}");
        assert_eq!(table.next_end(), None, "{order:?}");
    }
}

/// Two servers that ran apart may have used the same version.
#[test]
fn of_two_entries_with_one_version_all_take_the_same() {
    let name = subject("user_id:42");
    let entries = [set(3, None), cleared(3, 5)];
    for (first, second) in [(0, 1), (1, 0)] {
        let mut table = table();
        table.merge(&name, entries[first].clone());
        table.merge(&name, entries[second].clone());
        assert_eq!(table.entries().get(&name), Some(&entries[1]));
    }
}

#[test]
fn changes_have_the_overrides_that_were_in_force_before_and_after() {
    let name = subject("10.0.0.0/8");
    let mut table = table();
    let versions = |change: Option<Change>| {
        let version = |it: Option<Override>| it.map(|it| it.version);
        change.map(|change| (version(change.before), version(change.after)))
    };
    let mut merge = |entry, now| {
        table.advance(now);
        versions(table.merge(&name, entry))
    };
    assert_eq!(merge(set(1, Some(100)), 10), Some((None, Some(1))));
    assert_eq!(merge(set(1, Some(100)), 10), None);
    assert_eq!(merge(set(2, Some(200)), 50), Some((Some(1), Some(2))));
    // The override before it has ended.
    assert_eq!(merge(set(3, None), 200), Some((None, Some(3))));
    assert_eq!(merge(cleared(4, 300), 300), Some((Some(3), None)));
    assert_eq!(merge(cleared(5, 300), 300), None);
    assert_eq!(merge(set(6, Some(250)), 300), None);
}

#[test]
fn overrides_end_and_return_by_the_clock() {
    let mut table = table();
    for (at, ends) in [(1, 30), (2, 10), (3, 20)] {
        table.merge(&subject(&format!("10.0.0.{at}")), set(at, Some(ends)));
    }
    table.merge(&subject("api_key:a"), set(4, None));
    table.merge(&subject("api_key:b"), cleared(5, 15));
    let in_force = |table: &Table| {
        let mut all: Vec<u64> = table.in_force(None).map(|it| it.version).collect();
        all.sort_unstable();
        all
    };
    // The new time, the changed overrides, whether they end, the overrides in force, the number of ended overrides, and the next end.
    for (now, changed, is_end, all, over, next) in [
        (9, &[][..], true, &[1, 2, 3, 4][..], 0, Some(10)),
        (10, &[2], true, &[1, 3, 4], 1, Some(15)),
        (25, &[3], true, &[1, 4], 2, Some(30)),
        (19, &[3], false, &[1, 3, 4], 1, Some(20)),
        (30, &[3, 1], true, &[4], 3, None),
        (5, &[2, 3, 1], false, &[1, 2, 3, 4], 0, Some(10)),
    ] {
        let changes = table.advance(now).into_iter();
        let changes = changes.map(|change| match is_end {
            true => change.before.unwrap().version,
            false => change.after.unwrap().version,
        });
        assert_eq!(changes.collect::<Vec<_>>(), changed, "{now}");
        assert_eq!(in_force(&table), all, "{now}");
        assert_eq!(
            (table.holding(), table.next_end()),
            (4 - over, next),
            "{now}"
        );
    }
}

#[test]
fn entries_that_have_been_over_for_long_are_dropped() {
    let mut table = table();
    table.merge(&subject("user_id:1"), set(1, Some(30)));
    table.merge(&subject("user_id:2"), cleared(2, 40));
    table.merge(&subject("user_id:3"), set(3, None));
    for (now, left) in [(1_029, 3), (1_030, 2), (1_040, 1), (9_000, 1)] {
        table.advance(now);
        assert_eq!(table.entries().len(), left, "{now}");
    }
    assert_eq!(table.version(), 3);
}

#[test]
fn of_too_many_entries_the_longest_over_are_dropped() {
    let mut table = table();
    let name = |at: usize| subject(&format!("user_id:{at}"));
    for at in 1..=MAX_ENTRIES {
        table.merge(&name(at), set(at as u64, None));
    }
    for (at, ends) in [
        (MAX_ENTRIES + 1, 70),
        (MAX_ENTRIES + 2, 60),
        (MAX_ENTRIES + 3, 90),
    ] {
        table.merge(&name(at), set(at as u64, Some(ends)));
    }
    for (now, left) in [(59, 3), (65, 2), (80, 1), (85, 1), (90, 0)] {
        table.advance(now);
        assert_eq!(table.entries().len(), MAX_ENTRIES + left, "{now}");
    }
}

#[test]
fn entries_are_read_as_they_are_written() {
    for entry in [set(7, None), set(7, Some(9)), cleared(8, 10)] {
        assert_eq!(Entry::read(&entry.written()), Some(entry));
    }
    let clearing = Clearing::new("it is \"over\"", "ops").unwrap();
    let by = entry(8, Some(10), Intent::Clear(clearing.clone()));
    assert_eq!(
        by.written(),
        r#"8 10 -{"reason":"it is \"over\"","by":"ops"}"#
    );
    assert_eq!(
        Entry::read(&by.written()).unwrap().clearing(),
        Some(Arc::new(clearing))
    );
    // These clearings have no author.
    for text in ["8 10 ", "8 10 -{}", "8 10 -", "8 10 -x"] {
        let read = Entry::read(text).unwrap();
        assert_eq!(read.clearing(), Some(Arc::default()), "{text}");
        assert!(!read.is_set(), "{text}");
    }
    let foreign = Entry::read("7 0 {\"action\":\"dance\"}").unwrap();
    assert_eq!(foreign.written(), "7 0 {\"action\":\"dance\"}");
    let mut table = table();
    assert_eq!(table.merge(&subject("1.2.3.4"), foreign), None);
    assert_eq!((table.holding(), table.in_force(None).count()), (1, 0));
    for text in ["", "7", "7 0", "x 0 {}", "7 -1 ", "99999999999999999999 0 "] {
        assert_eq!(Entry::read(text), None, "{text:?}");
    }
}

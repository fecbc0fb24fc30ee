use super::*;
use crate::setting::Action;

fn subject(name: &str) -> Subject {
    Subject::parse(name, 64).unwrap()
}

fn set(version: u64, ends: Option<Micros>) -> Record {
    let setting = Setting::new(Action::Block, "why", "").unwrap();
    Record {
        version,
        ends,
        content: Content::Set(Arc::new(setting)),
    }
}

fn cleared(version: u64, ends: Micros) -> Record {
    Record {
        version,
        ends: Some(ends),
        content: Content::Cleared(Arc::default()),
    }
}

#[test]
fn the_highest_version_wins_in_any_order() {
    let records = [set(3, None), cleared(5, 1_000), set(4, Some(50))];
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
        let mut replica = Replica::default();
        for index in order {
            replica.merge(name.clone(), records[index].clone(), 10);
        }
        assert_eq!(replica.record(&name), Some(&records[1]), "{order:?}");
        assert_eq!((replica.version(), replica.set()), (5, 0), "{order:?}");
        assert_eq!(replica.cleared(), 1);
        assert_eq!(replica.next_end(0), Some(1_000), "{order:?}");
    }
}

#[test]
fn changes_say_what_was_in_force_before_and_after() {
    let name = subject("10.0.0.0/8");
    let mut replica = Replica::default();
    let versions = |change: Option<Change>| {
        let version = |it: Option<Override>| it.map(|it| it.version);
        change.map(|change| (version(change.before), version(change.after)))
    };
    let mut merge = |record, now| versions(replica.merge(name.clone(), record, now));
    assert_eq!(merge(set(1, Some(100)), 10), Some((None, Some(1))));
    assert_eq!(merge(set(1, Some(100)), 10), None);
    assert_eq!(merge(set(2, Some(200)), 50), Some((Some(1), Some(2))));
    // The one before is over.
    assert_eq!(merge(set(3, None), 200), Some((None, Some(3))));
    assert_eq!(merge(cleared(4, 900), 300), Some((Some(3), None)));
    assert_eq!(merge(cleared(5, 900), 300), None);
    assert_eq!(merge(set(6, Some(250)), 300), None);
}

#[test]
fn overrides_end_by_the_clock() {
    let mut replica = Replica::default();
    for (at, ends) in [(1, 30), (2, 10), (3, 20)] {
        replica.merge(subject(&format!("10.0.0.{at}")), set(at, Some(ends)), 0);
    }
    replica.merge(subject("api_key:a"), set(4, None), 0);
    replica.merge(subject("api_key:b"), cleared(5, 15), 0);
    let in_force = |replica: &Replica, now| {
        let all = replica.in_force(now).map(|it| it.version);
        let mut all: Vec<u64> = all.collect();
        all.sort_unstable();
        all
    };
    assert_eq!(in_force(&replica, 9), [1, 2, 3, 4]);
    assert_eq!(in_force(&replica, 10), [1, 3, 4]);
    assert_eq!(replica.next_end(9), Some(10));
    assert_eq!(replica.next_end(10), Some(15));
    let ended = |since, now| -> Vec<u64> {
        let ended = replica.ended(since, now);
        ended.iter().map(|it| it.version).collect()
    };
    assert_eq!(ended(0, 9), [0; 0]);
    assert_eq!(ended(9, 20), [2, 3]);
    assert_eq!(ended(20, 20), [0; 0]);
    let over = replica.over(20, 2);
    assert_eq!(over, [(subject("10.0.0.2"), 2), (subject("api_key:b"), 5)]);
    for (name, _) in replica.over(20, 9) {
        replica.forget(&name);
    }
    assert_eq!(in_force(&replica, 20), [1, 4]);
    assert_eq!((replica.set(), replica.cleared()), (2, 0));
}

#[test]
fn records_are_read_as_they_are_written() {
    for record in [set(7, None), set(7, Some(9)), cleared(8, 10)] {
        assert_eq!(Record::read(&record.written()), Some(record));
    }
    let clearing = Clearing::new("it is \"over\"", "ops").unwrap();
    let told = Record {
        content: Content::Cleared(Arc::new(clearing)),
        ..cleared(8, 10)
    };
    assert_eq!(
        told.written(),
        r#"8 10 -{"reason":"it is \"over\"","by":"ops"}"#
    );
    assert_eq!(Record::read(&told.written()), Some(told));
    // Whoever cleared these is not known.
    for text in ["8 10 ", "8 10 -{}", "8 10 -", "8 10 -x"] {
        assert_eq!(Record::read(text), Some(cleared(8, 10)), "{text}");
    }
    let foreign = Record::read("7 0 {\"action\":\"dance\"}").unwrap();
    assert!(matches!(foreign.content, Content::Unreadable(_)));
    assert_eq!(foreign.written(), "7 0 {\"action\":\"dance\"}");
    let mut replica = Replica::default();
    assert_eq!(replica.merge(subject("1.2.3.4"), foreign, 0), None);
    assert_eq!((replica.set(), replica.in_force(0).count()), (1, 0));
    for text in ["", "7", "7 0", "x 0 {}", "7 -1 ", "99999999999999999999 0 "] {
        assert_eq!(Record::read(text), None, "{text:?}");
    }
}

#[test]
fn the_earliest_cleared_ones_are_the_first_to_be_forgotten() {
    let mut replica = Replica::default();
    for at in [3, 1, 2] {
        replica.merge(subject(&format!("user_id:{at}")), cleared(at, 100), 0);
    }
    replica.merge(subject("user_id:0"), set(4, None), 0);
    let earliest = replica.earliest_cleared(2);
    assert_eq!(
        earliest,
        [(subject("user_id:1"), 1), (subject("user_id:2"), 2)]
    );
}

#[test]
fn one_that_cannot_be_read_is_none_of_the_latest() {
    let mut replica = Replica::default();
    for at in 1..=3 {
        replica.merge(subject(&format!("user_id:{at}")), set(at, None), 0);
    }
    let foreign = Record::read("4 0 {\"action\":\"dance\"}").unwrap();
    replica.merge(subject("user_id:4"), foreign, 0);
    let latest = replica.latest(2, 0);
    let versions: Vec<u64> = latest.iter().map(|it| it.version).collect();
    assert_eq!(versions, [3, 2]);
}

//! A gateway without Redis.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_overrides::{Ends, Expected, MAX_OVERRIDES, Outcome, Overrides, Wish};
use tidegate_tower::OverrideAction::{Block, Exempt};

use crate::support::{
    Told, action, block, blocks, change, changes_of_one_name_follow_each_other, clear, clearing,
    is_conflict, is_set, one_that_ended_is_none, one_that_ends_at_once_is_set, plan, set,
    wait_until, wish,
};

fn open(file: Option<&Path>) -> (Arc<Overrides>, Told) {
    let told = Told::default();
    let overrides = Overrides::in_memory(file, Box::new(told.clone())).unwrap();
    (overrides, told)
}

#[tokio::test]
async fn changes_are_in_force_at_once_and_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("overrides");
    let (one, told) = open(Some(&file));
    let version = set(&one, "user_id:1", plan("gold")).await;
    set(&one, "user_id:2", Exempt).await;
    set(&one, "10.0.0.0/8", Block).await;
    change(&one, clear("user_id:2")).await;
    assert_eq!(told.cleared(), [("user_id:2".to_owned(), clearing())]);
    assert_eq!(told.in_force(), 2);
    let expecting = |version| Wish {
        expected: Expected::Version(version),
        ..block("user_id:1")
    };
    assert!(is_conflict(&change(&one, expecting(version + 1)).await));
    assert!(is_set(&change(&one, expecting(version)).await));
    assert!(is_conflict(&change(&one, expecting(version)).await));
    let listed = one.list();
    drop(one);
    let (again, told) = open(Some(&file));
    assert_eq!((told.in_force(), again.list()), (2, listed));
    assert_eq!(action(&again, "user_id:2"), None);
    // Without a file they end with the process.
    let (one, _) = open(None);
    set(&one, "user_id:1", plan("gold")).await;
    assert_eq!(open(None).0.list(), []);
}

#[tokio::test]
async fn their_number_is_bounded() {
    let (one, told) = open(None);
    let name = |index| format!("user_id:{index}");
    let mut outcomes = one.change(blocks(MAX_OVERRIDES + 1)).await.unwrap();
    assert_eq!(outcomes.pop(), Some(Outcome::Full));
    assert!(outcomes.iter().all(is_set));
    assert_eq!(told.in_force(), MAX_OVERRIDES);
    change(&one, clear(&name(0))).await;
    set(&one, &name(MAX_OVERRIDES), Block).await;
    // Of one name twice, one takes room.
    for index in [1, 2] {
        change(&one, clear(&name(index))).await;
    }
    let wishes = [0, 0, 1].map(|index| block(&name(index)));
    let outcomes = one.change(wishes.to_vec()).await.unwrap();
    assert!(outcomes.iter().all(is_set), "{outcomes:?}");
    assert_eq!(change(&one, block(&name(2))).await, Outcome::Full);
}

#[tokio::test]
async fn overrides_end_by_themselves() {
    let (one, told) = open(None);
    let short = Ends::After(Duration::from_millis(200));
    change(&one, wish("user_id:1", Block, short)).await;
    set(&one, "user_id:2", Block).await;
    let kept = one.clone();
    let keeper = tokio::spawn(async move { kept.keep().await });
    wait_until("it ends", || told.in_force() == 1).await;
    keeper.abort();
    let changes = told.changes();
    let last = ("user_id:1".to_owned(), Some(Block), None);
    assert_eq!(changes.last(), Some(&last));
    let over = wish("user_id:1", Block, Ends::At(1));
    assert_eq!(change(&one, over).await, Outcome::Over);
    assert_eq!(change(&one, clear("user_id:1")).await, Outcome::Nothing);
}

#[tokio::test]
async fn one_that_ends_at_once_is_set_all_the_same() {
    one_that_ends_at_once_is_set(&open(None).0).await;
}

#[tokio::test]
async fn one_that_ended_is_none_for_any_condition() {
    one_that_ended_is_none(&open(None).0).await;
}

#[tokio::test]
async fn each_change_of_a_name_sees_those_before_it() {
    changes_of_one_name_follow_each_other(&open(None).0).await;
}

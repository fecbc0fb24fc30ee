//! A Redis that takes its time.

use std::time::Duration;

use tidegate_overrides::Timing;
use tidegate_testkit::{CallFault, RedisProxy, RedisServer};
use tidegate_tower::OverrideAction::Block;

use crate::support::{
    HASH, action, blocks, change, clear, connect, connect_through, connect_timed, is_set, lose,
    plan, scripts, set, synced, until, wait_until, write,
};

/// Several times what decisions wait for.
const LATE: Duration = Duration::from_millis(300);

/// No request waits for these scripts, so they have a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_may_come_later_than_decisions_wait() {
    let server = RedisServer::start().await;
    let proxy = RedisProxy::start(server.addr());
    let (one, _) = connect_through(&proxy).await;
    let late = || proxy.strike(0, CallFault::AnsweredLate(LATE));
    // A look at what is newer, and the change.
    late();
    late();
    set(&one, "user_id:1", plan("gold")).await;
    late();
    late();
    change(&one, clear("user_id:1")).await;
    set(&one, "user_id:2", Block).await;
    server.command(&["FLUSHALL"]).await;
    // What changed, all of it, and the call that gives it back.
    for _ in 0..3 {
        late();
    }
    one.sync().await.unwrap();
    assert_eq!(proxy.struck().len(), 7);
    let (other, _) = synced(&server).await;
    assert_eq!(action(&other, "user_id:2"), Some(Block));
}

/// What was changed before an answer is lost is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_changes_the_first_are_told_though_a_later_one_failed() {
    let server = RedisServer::start().await;
    let proxy = RedisProxy::start(server.addr());
    let (one, told) = connect_through(&proxy).await;
    // Each part is written after a look at what is newer.
    proxy.strike(5, CallFault::Unanswered);
    let unfinished = one.change(blocks(450)).await.unwrap_err();
    assert_eq!(unfinished.outcomes.len(), 200);
    assert!(unfinished.outcomes.iter().all(is_set));
    assert_eq!(told.in_force(), 200);
}

/// Many changes and long comparisons take a while. Requests see the first parts before the last is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_part_is_in_force_at_once() {
    let timing = Timing {
        poll: Duration::ZERO,
        ..Timing::default()
    };
    let server = RedisServer::start().await;
    let (one, told) = connect_timed(&server.url(), timing).await;
    one.change(blocks(1_200)).await.unwrap();
    assert_eq!((told.times(), told.in_force()), (12, 1_200));
    let (fresh, told) = connect_timed(&server.url(), timing).await;
    fresh.sync().await.unwrap();
    assert_eq!((told.times(), told.in_force()), (3, 1_200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_is_in_force_before_entries_are_given_back() {
    let timing = Timing {
        patience: Duration::from_secs(60),
        ..Timing::default()
    };
    let server = RedisServer::start().await;
    let proxy = RedisProxy::start(server.addr());
    let (one, told) = connect_timed(&format!("redis://{}", proxy.addr()), timing).await;
    let (other, _) = connect(&server.url()).await;
    set(&one, "user_id:1", Block).await;
    server.command(&["FLUSHALL"]).await;
    set(&other, "user_id:2", Block).await;
    // The call that reads all entries passes. The call that gives back waits.
    proxy.strike(1, CallFault::AnsweredLate(timing.patience));
    let syncing = tokio::spawn({
        let one = one.clone();
        async move { one.sync().await }
    });
    wait_until("it is in force", || told.in_force() == 2).await;
    assert!(!syncing.is_finished());
    syncing.abort();
}

/// What another gateway restores behind the part that was read is known in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_restored_between_two_parts_is_read() {
    let server = RedisServer::start().await;
    let (one, _) = connect(&server.url()).await;
    set(&one, "user_id:first", Block).await;
    let record = server.command(&["HGET", HASH, "user_id:first"]).await;
    one.change(blocks(600)).await.unwrap();
    lose(&server, "user_id:first").await;
    let proxy = RedisProxy::start(server.addr());
    let (other, told) = connect_through(&proxy).await;
    let calls = scripts(&server).await;
    proxy.strike(0, CallFault::AnsweredLate(LATE));
    let reading = tokio::spawn({
        let other = other.clone();
        async move { other.sync().await }
    });
    // Redis has answered the first part, which does not arrive yet.
    until("the first part is read", async || {
        scripts(&server).await > calls
    })
    .await;
    write(&server, ["user_id:first", "=", record.as_str(), ""]).await;
    reading.await.unwrap().unwrap();
    other.sync().await.unwrap();
    assert_eq!(action(&other, "user_id:first"), Some(Block));
    assert_eq!(told.in_force(), 601);
}

//! What one gateway changes, others know.

use std::time::{Duration, Instant};

use tidegate_overrides::{Ends, Expected, Outcome, Previous, Wish};
use tidegate_testkit::{RedisCluster, RedisProxy, RedisServer};
use tidegate_tower::OverrideAction::{Block, Exempt};

use crate::support::{
    HASH, action, change, changes_of_one_name_follow_each_other, clear, clearing, connect,
    connect_through, is_set, keeping, one_that_ended_is_none, one_that_ends_at_once_is_set, plan,
    set, subject, synced, until, wait_until, wish, write,
};

/// So soon all gateways know of a change.
const PROMISED: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_known_to_all_gateways_in_time() {
    let server = RedisServer::start().await;
    let (one, other) = (keeping(&server).await, keeping(&server).await);
    for round in 0..10 {
        let gold = plan(&format!("gold-{round}"));
        set(&one.overrides, "user_id:42", gold.clone()).await;
        let answered = Instant::now();
        // On this one at once.
        assert_eq!(action(&one.overrides, "user_id:42"), Some(gold.clone()));
        wait_until("the other one", || {
            action(&other.overrides, "user_id:42").as_ref() == Some(&gold)
        })
        .await;
        assert!(answered.elapsed() < PROMISED);
    }
    change(&other.overrides, clear("user_id:42")).await;
    assert_eq!(other.told.in_force(), 0);
    wait_until("the first one", || one.told.in_force() == 0).await;
    let changes = one.told.changes();
    let last = ("user_id:42".to_owned(), Some(plan("gold-9")), None);
    assert_eq!((changes.len(), changes.last()), (11, Some(&last)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrides_survive_restarts_of_gateways_and_of_an_empty_redis() {
    let server = RedisServer::start().await;
    let (one, other) = (keeping(&server).await, keeping(&server).await);
    set(&one.overrides, "api_key:acme", plan("gold")).await;
    set(&one.overrides, "10.0.0.0/8", Block).await;
    change(&one.overrides, clear("10.0.0.0/8")).await;
    // Gateways that are started anew have it from Redis.
    drop((one, other));
    let (one, other) = (keeping(&server).await, keeping(&server).await);
    for gateway in [&one, &other] {
        wait_until("a new gateway", || gateway.told.in_force() == 1).await;
    }
    // Redis without data has it from them, and new gateways from Redis.
    server.restart().await;
    let fresh = keeping(&server).await;
    wait_until("a gateway after Redis", || fresh.told.in_force() == 1).await;
    assert_eq!(action(&fresh.overrides, "api_key:acme"), Some(plan("gold")));
    assert_eq!(action(&fresh.overrides, "10.0.0.0/8"), None);
    // What is changed then is later than all before.
    set(&fresh.overrides, "api_key:acme", Exempt).await;
    for gateway in [&one, &other] {
        wait_until("all agree", || {
            action(&gateway.overrides, "api_key:acme") == Some(Exempt)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cleared_override_does_not_come_back_with_the_data() {
    let server = RedisServer::start().await;
    let (one, _) = connect(&server.url()).await;
    let (away, _) = connect(&server.url()).await;
    set(&one, "user_id:1", Exempt).await;
    set(&one, "user_id:2", Exempt).await;
    away.sync().await.unwrap();
    // The other one does not hear of this.
    change(&one, clear("user_id:1")).await;
    server.command(&["FLUSHALL"]).await;
    away.sync().await.unwrap();
    assert_eq!(action(&away, "user_id:1"), Some(Exempt));
    one.sync().await.unwrap();
    away.sync().await.unwrap();
    let (fresh, _) = synced(&server).await;
    for overrides in [&one, &away, &fresh] {
        assert_eq!(action(overrides, "user_id:1"), None);
        assert_eq!(action(overrides, "user_id:2"), Some(Exempt));
    }
}

/// A gateway that starts right after the loss writes before anybody has restored anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_after_a_loss_hides_nothing_and_is_not_overwritten() {
    let server = RedisServer::start().await;
    let (one, _) = connect(&server.url()).await;
    set(&one, "user_id:1", plan("old")).await;
    set(&one, "user_id:2", plan("old")).await;
    server.command(&["FLUSHALL"]).await;
    let (fresh, _) = connect(&server.url()).await;
    set(&fresh, "user_id:1", plan("new")).await;
    one.sync().await.unwrap();
    fresh.sync().await.unwrap();
    for overrides in [&one, &fresh] {
        assert_eq!(action(overrides, "user_id:1"), Some(plan("new")));
        assert_eq!(action(overrides, "user_id:2"), Some(plan("old")));
    }
    // One that knows of the loss only by its own change restores first.
    server.command(&["FLUSHALL"]).await;
    set(&one, "user_id:3", plan("new")).await;
    fresh.sync().await.unwrap();
    assert_eq!(fresh.list().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_changes_at_once_the_second_is_refused() {
    let server = RedisServer::start().await;
    let (one, _) = connect(&server.url()).await;
    let (other, _) = connect(&server.url()).await;
    let version = set(&one, "user_id:1", plan("a")).await;
    let expecting = |expected, action| Wish {
        expected,
        ..wish("user_id:1", action, Ends::Never)
    };
    let nothing = expecting(Expected::Nothing, plan("b"));
    let same = expecting(Expected::Version(version), plan("c"));
    let Outcome::Conflict(Some(current)) = change(&other, nothing.clone()).await else {
        panic!("an override is in force");
    };
    assert_eq!(
        (current.version, &current.setting.action),
        (version, &plan("a"))
    );
    let Outcome::Set { before, .. } = change(&other, same.clone()).await else {
        panic!("it is set");
    };
    assert!(before.is_some());
    // This one has not heard of it.
    let late = change(&one, same).await;
    assert!(matches!(late, Outcome::Conflict(Some(_))), "{late:?}");
    let clears = Wish {
        expected: Expected::Version(version),
        ..clear("user_id:1")
    };
    assert!(matches!(change(&one, clears).await, Outcome::Conflict(_)));
    one.sync().await.unwrap();
    assert_eq!(action(&one, "user_id:1"), Some(plan("c")));
    change(&one, clear("user_id:1")).await;
    assert_eq!(change(&one, clear("user_id:1")).await, Outcome::Nothing);
    assert!(is_set(&change(&other, nothing).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_override_ends_on_all_gateways_by_the_clock_of_redis() {
    // Ten minutes behind: by its own clock a gateway would end it at once, or much too late.
    for ahead in [-600_000, 600_000] {
        let server = RedisServer::start_with_clock(&[]).await;
        server.step_clock(ahead);
        let (one, other) = (keeping(&server).await, keeping(&server).await);
        let short = Ends::After(Duration::from_secs(2));
        let made = change(&one.overrides, wish("10.0.0.0/8", Block, short)).await;
        assert!(is_set(&made), "{made:?}");
        wait_until("the other one knows", || other.told.in_force() == 1).await;
        wait_until("one ends it", || one.told.in_force() == 0).await;
        let ended = Instant::now();
        wait_until("the other one ends it", || other.told.in_force() == 0).await;
        assert!(ended.elapsed() < Duration::from_secs(1));
        let last = ("10.0.0.0/8".to_owned(), Some(Block), None);
        for gateway in [&one, &other] {
            assert_eq!(gateway.told.changes().last(), Some(&last));
            assert_eq!(gateway.overrides.get(&subject("10.0.0.0/8")), None);
        }
        let past = wish("user_id:1", Block, Ends::At(1));
        assert_eq!(change(&one.overrides, past).await, Outcome::Over);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_known_stays_in_force_without_redis() {
    let server = RedisServer::start().await;
    let one = keeping(&server).await;
    set(&one.overrides, "user_id:1", Exempt).await;
    server.stop();
    let failed = one.overrides.change(vec![clear("user_id:1")]).await;
    assert!(failed.is_err());
    assert!(one.overrides.sync().await.is_err());
    assert_eq!(action(&one.overrides, "user_id:1"), Some(Exempt));
    assert_eq!(one.told.in_force(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_shared_over_a_cluster() {
    let cluster = RedisCluster::start().await;
    let (one, _) = connect(&cluster.url()).await;
    let (other, _) = connect(&cluster.url()).await;
    for gateway in [&one, &other] {
        until("the cluster answers", async || gateway.sync().await.is_ok()).await;
    }
    set(&one, "user_id:1", plan("gold")).await;
    other.sync().await.unwrap();
    assert_eq!(action(&other, "user_id:1"), Some(plan("gold")));
}

/// Also after it was restored, and to those who have it from Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_gateways_know_who_cleared_an_override() {
    let server = RedisServer::start().await;
    let (one, told) = connect(&server.url()).await;
    let (other, other_told) = connect(&server.url()).await;
    let (away, away_told) = connect(&server.url()).await;
    set(&one, "user_id:1", Block).await;
    other.sync().await.unwrap();
    away.sync().await.unwrap();
    change(&one, clear("user_id:1")).await;
    other.sync().await.unwrap();
    server.command(&["FLUSHALL"]).await;
    one.sync().await.unwrap();
    away.sync().await.unwrap();
    let expected = ("user_id:1".to_owned(), clearing());
    for told in [told, other_told, away_told] {
        assert_eq!(told.cleared(), std::slice::from_ref(&expected));
    }
    // Without any of it.
    set(&one, "user_id:2", Block).await;
    write(&server, ["user_id:2", "*", "0", ""]).await;
    other.sync().await.unwrap();
    assert_eq!(action(&other, "user_id:2"), None);
}

/// Also where Redis was not there when the gateway started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_force_at_the_start_is_no_news() {
    let server = RedisServer::start().await;
    let (one, told) = synced(&server).await;
    set(&one, "user_id:1", Block).await;
    assert_eq!(told.news(), 1);
    let proxy = RedisProxy::start(server.addr());
    proxy.refuse().await;
    let (other, told) = connect_through(&proxy).await;
    assert!(other.sync().await.is_err());
    proxy.accept();
    until("Redis is there", async || other.sync().await.is_ok()).await;
    assert_eq!((told.in_force(), told.news()), (1, 0));
    set(&one, "user_id:2", Block).await;
    other.sync().await.unwrap();
    assert_eq!((told.in_force(), told.news()), (2, 1));
    // A change may be the first call of a gateway.
    let (fresh, told) = connect(&server.url()).await;
    set(&fresh, "user_id:3", Block).await;
    assert_eq!((told.in_force(), told.news()), (3, 1));
    set(&one, "user_id:4", Block).await;
    set(&fresh, "user_id:5", Block).await;
    assert_eq!((told.in_force(), told.news()), (5, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_that_is_made_is_told() {
    let server = RedisServer::start().await;
    let (one, _) = connect(&server.url()).await;
    one_that_ends_at_once_is_set(&one).await;
    // Another version of the program has set this one.
    for (record, previous) in [
        ("7 0 {\"action\":\"dance\"}", (7, None)),
        (
            "8 9000000000000000 {\"action\":\"dance\"}",
            (8, Some(9_000_000_000_000_000)),
        ),
        ("99999999999999999999 0 {}", (0, None)),
    ] {
        let (version, ends) = previous;
        server.command(&["HSET", HASH, "user_id:2", record]).await;
        let before = Previous::Unreadable { version, ends };
        let cleared = change(&one, clear("user_id:2")).await;
        assert!(
            matches!(&cleared, Outcome::Cleared { before: it, .. } if *it == before),
            "{cleared:?}"
        );
    }
    server
        .command(&["HSET", HASH, "user_id:3", "7 0 {\"action\":\"dance\"}"])
        .await;
    let Outcome::Set { before, .. } =
        change(&one, wish("user_id:3", plan("gold"), Ends::Never)).await
    else {
        panic!("it is set");
    };
    let unreadable = Previous::Unreadable {
        version: 7,
        ends: None,
    };
    assert_eq!(before, Some(unreadable));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_ended_is_none_for_any_condition() {
    let server = RedisServer::start().await;
    let (one, _) = connect(&server.url()).await;
    one_that_ended_is_none(&one).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_of_a_name_sees_those_before_it() {
    let server = RedisServer::start().await;
    let (one, _) = connect(&server.url()).await;
    changes_of_one_name_follow_each_other(&one).await;
}

//! Many overrides, and what a hostile hand writes into Redis.

use std::time::Duration;

use tidegate_overrides::{Ends, MAX_OVERRIDES, Outcome, Timing};
use tidegate_testkit::RedisServer;
use tidegate_tower::OverrideAction::Block;

use crate::support::{
    HASH, action, block, blocks, change, clear, connect, connect_timed, is_set, lose, plan, set,
    subject, sync_all, synced, until, wish, write,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_are_loaded_and_one_more_is_refused() {
    let server = RedisServer::start().await;
    let (one, told) = connect(&server.url()).await;
    let name = |index: usize| match index % 2 {
        0 => format!("user_id:{index}"),
        _ => format!("10.{}.{}.{}", index >> 16, index >> 8 & 255, index & 255),
    };
    let short = Ends::After(Duration::from_secs(600));
    let wishes = (0..MAX_OVERRIDES).map(|index| wish(&name(index), plan("gold"), short));
    let outcomes = one.change(wishes.collect()).await.unwrap();
    assert!(outcomes.iter().all(is_set));
    assert_eq!(told.in_force(), MAX_OVERRIDES);
    let more = wish("user_id:more", plan("gold"), short);
    assert_eq!(change(&one, more.clone()).await, Outcome::Full);
    // One that is there may change, and one that goes makes room.
    assert!(is_set(&change(&one, wish(&name(0), Block, short)).await));
    change(&one, clear(&name(1))).await;
    // Of changes that are made together, each takes its room, and a name twice takes it once.
    let other = wish("user_id:other", plan("gold"), short);
    let wishes = vec![more.clone(), more, other.clone(), clear(&name(3)), other];
    let outcomes = one.change(wishes).await.unwrap();
    let made = outcomes.iter().map(|it| !matches!(it, Outcome::Full));
    assert_eq!(made.collect::<Vec<_>>(), [true, true, false, true, true]);
    let (other, told) = synced(&server).await;
    assert_eq!(told.in_force(), MAX_OVERRIDES);
    assert_eq!(other.list(), one.list());
    // All of it is restored.
    server.command(&["FLUSHALL"]).await;
    other.sync().await.unwrap();
    let (fresh, told) = synced(&server).await;
    assert_eq!(told.in_force(), MAX_OVERRIDES);
    assert_eq!(action(&fresh, &name(1)), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrides_that_are_over_make_room() {
    let server = RedisServer::start().await;
    let (one, told) = connect(&server.url()).await;
    let short = Ends::After(Duration::from_millis(300));
    let wishes = (0..MAX_OVERRIDES).map(|index| wish(&format!("user_id:{index}"), Block, short));
    one.change(wishes.collect()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let outcome = change(&one, block("user_id:more")).await;
    assert!(is_set(&outcome), "{outcome:?}");
    assert_eq!(told.in_force(), 1);
    // Also for a gateway that has dropped them, while Redis still has them.
    let more = (0..600).map(|index| block(&format!("user_id:more{index}")));
    one.change(more.collect()).await.unwrap();
    let timing = Timing {
        remembered: Duration::ZERO,
        ..Timing::default()
    };
    let (forgetful, told) = connect_timed(&server.url(), timing).await;
    forgetful.sync().await.unwrap();
    set(&forgetful, "user_id:last", Block).await;
    assert_eq!(told.in_force(), 602);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_records_are_passed_over() {
    let server = RedisServer::start().await;
    let (one, _) = connect(&server.url()).await;
    set(&one, "user_id:1", plan("gold")).await;
    let version = set(&one, "user_id:2", plan("gold")).await;
    let foreign: [(&[u8], &[u8]); 6] = [
        (b"user_id:3", b"1 0 not JSON"),
        (b"10.1.2.3/8", b"1 0 "),
        (b"user_id:4", b"no record"),
        (b"\xff\xfe", b"1 0 "),
        (b"user_id:5", b"\xff 0 "),
        (b"user_id:6", b""),
    ];
    for (at, (name, record)) in (1..).zip(foreign) {
        server
            .command(&[b"HSET", HASH.as_bytes(), name, record])
            .await;
        let score = (version + at).to_string();
        let versions = format!("{HASH}:versions");
        server
            .command(&[b"ZADD", versions.as_bytes(), score.as_bytes(), name])
            .await;
    }
    let head = format!("1 {}", version + 9);
    server.command(&["HSET", HASH, "=", &head]).await;
    let (other, told) = synced(&server).await;
    assert_eq!(told.in_force(), 2);
    set(&other, "user_id:7", Block).await;
    one.sync().await.unwrap();
    assert_eq!(one.list().len(), 3);
    // Keys of another type are no reason to forget anything.
    server.command(&["SET", HASH, "x"]).await;
    assert!(one.sync().await.is_err());
    assert_eq!(one.list().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_reasons_are_only_text() {
    let server = RedisServer::start().await;
    let (one, _) = connect(&server.url()).await;
    let names = [
        "user_id:1 0 {}",
        "user_id:=",
        "user_id:' .. redis.call('FLUSHALL') .. '",
        "user_id:%d+",
        "api_key:\u{202e}üñ🦀",
        "user_id:../../etc/passwd",
    ];
    for name in names {
        set(&one, name, plan("a\"b\\c' 7 0 ")).await;
    }
    let (other, _) = synced(&server).await;
    assert_eq!(other.list(), one.list());
    for name in names {
        let found = other.get(&subject(name)).unwrap();
        assert_eq!(found.subject.to_string(), name);
        assert_eq!(found.setting.action, plan("a\"b\\c' 7 0 "));
    }
}

/// A Redis that drops keys may drop one of the two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_key_may_be_lost() {
    for key in [HASH.to_owned(), format!("{HASH}:versions")] {
        let server = RedisServer::start().await;
        let (one, _) = connect(&server.url()).await;
        for wish in blocks(1_200) {
            change(&one, wish).await;
        }
        sync_all(&one).await;
        server.command(&["DEL", &key]).await;
        let (fresh, _) = synced(&server).await;
        assert_eq!(fresh.list().len(), 0);
        // Without another connection, too.
        one.sync().await.unwrap();
        let (other, _) = connect(&server.url()).await;
        for gateway in [&fresh, &other] {
            gateway.sync().await.unwrap();
            assert_eq!(gateway.list().len(), 1_200, "{key}");
        }
    }
}

/// Two gateways restore at once: what the slower one knows does not take the place of what is newer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_restored_is_never_older() {
    let server = RedisServer::start().await;
    let (one, _) = connect(&server.url()).await;
    let first = set(&one, "user_id:1", plan("gold")).await;
    let old = server.command(&["HGET", HASH, "user_id:1"]).await;
    let second = set(&one, "user_id:1", Block).await;
    assert!(second > first);
    write(&server, ["user_id:1", "=", old.as_str(), ""]).await;
    let (other, _) = synced(&server).await;
    assert_eq!(action(&other, "user_id:1"), Some(Block));
}

/// Two servers that ran apart may have given one version twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_entries_with_one_version_redis_keeps_the_greater_bytes() {
    let server = RedisServer::start().await;
    // In the order of bytes. A server's language may order letters otherwise, or ignore signs.
    let texts = [
        r#"7 0 -{}"#,
        r#"7 0 {"action":"B"}"#,
        r#"7 0 {"action":"a"}"#,
        r#"7 0 {"action":"a"} "#,
        r#"7 0 {"action":"ä"}"#,
    ];
    for (at, pair) in texts.windows(2).enumerate() {
        for (order, entries) in [[pair[0], pair[1]], [pair[1], pair[0]]].iter().enumerate() {
            let name = format!("user_id:{at}-{order}");
            for entry in entries {
                write(&server, [&name, "=", entry, ""]).await;
            }
            let kept = server.command(&["HGET", HASH, &name]).await;
            assert_eq!(kept.as_str(), pair[1]);
        }
    }
}

/// A server that took over may lack the latest changes and have others: its versions are as high, and it began with the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_another_connection_all_is_compared() {
    let server = RedisServer::start().await;
    let (one, _) = connect(&server.url()).await;
    set(&one, "user_id:1", Block).await;
    set(&one, "user_id:2", Block).await;
    sync_all(&one).await;
    lose(&server, "user_id:1").await;
    one.sync().await.unwrap();
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    until("it is given back", async || {
        let _ = one.sync().await;
        let found = server.command(&["HEXISTS", HASH, "user_id:1"]).await;
        found.as_int() == 1
    })
    .await;
    assert_eq!(action(&one, "user_id:1"), Some(Block));
}

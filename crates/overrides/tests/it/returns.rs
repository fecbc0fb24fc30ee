//! Nothing that was replaced, shortened, cleared or has ended comes back.

use std::sync::Arc;
use std::time::Duration;

use tidegate_overrides::{Ends, Outcome, Overrides, Timing};
use tidegate_testkit::{CallFault, RedisProxy, RedisSentinels, RedisServer};
use tidegate_tower::OverrideAction::{Block, Exempt};

use crate::support::{
    HASH, action, block, change, clear, connect, connect_through, connect_timed, keeping,
    keeping_at, scripts, set, until, wait_until, wish,
};

/// Names whose override is set for ever at first. Each name then has another history.
const NAMES: [&str; 5] = [
    "user_id:1",
    "user_id:2",
    "user_id:3",
    "user_id:4",
    "user_id:5",
];
/// The last change of each name holds for this long.
const SHORT: Ends = Ends::After(Duration::from_millis(300));

async fn block_all(overrides: &Arc<Overrides>) {
    for name in NAMES {
        set(overrides, name, Block).await;
    }
}

/// Replaces, shortens, clears and sets again, clears after the end, clears. Returns when all of it has ended.
async fn end_all(overrides: &Arc<Overrides>) {
    change(overrides, wish(NAMES[0], Exempt, SHORT)).await;
    change(overrides, wish(NAMES[1], Block, SHORT)).await;
    change(overrides, clear(NAMES[2])).await;
    change(overrides, wish(NAMES[2], Exempt, SHORT)).await;
    change(overrides, wish(NAMES[3], Exempt, SHORT)).await;
    change(overrides, clear(NAMES[4])).await;
    until("the last one has ended", async || {
        change(overrides, clear(NAMES[3])).await == Outcome::Nothing
    })
    .await;
    wait_until("all have ended here", || overrides.list().is_empty()).await;
    // Longer than a gateway needs to drop what it may drop.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Checks that none of the gateways has an override, now and after several exchanges.
async fn none_is_in_force(gateways: &[&Arc<Overrides>]) {
    for _ in 0..3 {
        for (at, overrides) in gateways.iter().enumerate() {
            until("Redis answers", async || overrides.sync().await.is_ok()).await;
            assert_eq!(overrides.list(), [], "gateway {at}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_after_a_failover_to_a_replica_that_is_behind() {
    let servers = RedisSentinels::start().await;
    let (one, other) = (
        keeping_at(&servers.url(0)).await,
        keeping_at(&servers.url(1)).await,
    );
    block_all(&one.overrides).await;
    wait_until("the other knows", || other.told.in_force() == NAMES.len()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let ending = async {
        // The replicas are cut off by now.
        tokio::time::sleep(Duration::from_millis(500)).await;
        end_all(&one.overrides).await;
    };
    tokio::join!(ending, servers.fail_over_behind(Duration::from_secs(3)));
    none_is_in_force(&[&one.overrides, &other.overrides]).await;
    // The gateways may be connected with the old primary for a while.
    let fresh = keeping_at(&servers.url(2)).await;
    until("the replica has the ends", async || {
        fresh.overrides.sync().await.is_ok() && fresh.overrides.list().is_empty()
    })
    .await;
    none_is_in_force(&[&fresh.overrides, &one.overrides, &other.overrides]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_with_older_data() {
    for writer_is_gone in [false, true] {
        let server = RedisServer::start().await;
        let (one, other) = (keeping(&server).await, keeping(&server).await);
        block_all(&one.overrides).await;
        server.command(&["SAVE"]).await;
        end_all(&one.overrides).await;
        other.overrides.sync().await.unwrap();
        let mut gateways = vec![other];
        if writer_is_gone {
            drop(one);
        } else {
            gateways.push(one);
        }
        server.restart().await;
        for starts_another in [false, true] {
            if starts_another {
                gateways.push(keeping(&server).await);
            }
            let all = gateways.iter().map(|it| &it.overrides);
            none_is_in_force(&all.collect::<Vec<_>>()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_by_a_gateway_that_was_cut_off() {
    let server = RedisServer::start().await;
    let proxy = RedisProxy::start(server.addr());
    let one = keeping(&server).await;
    let away = keeping_at(&format!("redis://{}", proxy.addr())).await;
    block_all(&one.overrides).await;
    wait_until("it is known", || away.told.in_force() == NAMES.len()).await;
    proxy.reset();
    proxy.refuse().await;
    end_all(&one.overrides).await;
    assert_eq!(away.told.in_force(), NAMES.len());
    proxy.accept();
    none_is_in_force(&[&away.overrides, &one.overrides]).await;
}

/// Its connection stays alive, as that of a process that is stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_by_a_gateway_that_was_paused() {
    let server = RedisServer::start().await;
    let one = keeping(&server).await;
    let (paused, told) = connect(&server.url()).await;
    block_all(&one.overrides).await;
    paused.sync().await.unwrap();
    assert_eq!(told.in_force(), NAMES.len());
    end_all(&one.overrides).await;
    none_is_in_force(&[&paused, &one.overrides]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_listed_is_in_force_when_the_clock_was_ahead() {
    let server = RedisServer::start_with_clock(&[]).await;
    let (one, other) = (keeping(&server).await, keeping(&server).await);
    let long = Ends::After(Duration::from_secs(60));
    change(&one.overrides, wish("user_id:1", Block, long)).await;
    wait_until("the other knows", || other.told.in_force() == 1).await;
    for ahead in [120_000, 3_600_000] {
        server.step_clock(ahead);
        for gateway in [&one, &other] {
            wait_until("it has ended", || gateway.told.in_force() == 0).await;
            assert_eq!(gateway.overrides.list(), []);
        }
        server.step_clock(0);
        for gateway in [&one, &other] {
            wait_until("it is in force again", || gateway.told.in_force() == 1).await;
            assert_eq!(action(&gateway.overrides, "user_id:1"), Some(Block));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_refused_is_not_made_later() {
    // The connection stalls before all calls of the change, and between them.
    for between in [false, true] {
        let server = RedisServer::start().await;
        let proxy = RedisProxy::start(server.addr());
        let (one, _) = connect_through(&proxy).await;
        let (other, _) = connect(&server.url()).await;
        one.sync().await.unwrap();
        let calls = scripts(&server).await;
        let changing = tokio::spawn({
            proxy.strike(0, CallFault::AnsweredLate(Duration::from_millis(200)));
            proxy.hold(!between);
            let one = one.clone();
            async move { one.change(vec![block("user_id:1")]).await }
        });
        if between {
            until("the first call has run", async || {
                scripts(&server).await > calls
            })
            .await;
            proxy.hold(true);
        }
        let refused = changing.await.unwrap();
        assert!(refused.is_err(), "{refused:?}");
        set(&other, "user_id:1", Exempt).await;
        proxy.hold(false);
        for overrides in [&one, &other, &one] {
            until("Redis answers", async || overrides.sync().await.is_ok()).await;
            assert_eq!(action(overrides, "user_id:1"), Some(Exempt), "{between}");
        }
    }
}

/// An entry that has been over for long is dropped, and no gateway brings back an older one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_by_a_gateway_that_was_away_for_longer_than_ends_are_remembered() {
    let timing = Timing {
        remembered: Duration::from_millis(200),
        ..Timing::default()
    };
    let server = RedisServer::start().await;
    let (one, _) = connect_timed(&server.url(), timing).await;
    let (away, told) = connect_timed(&server.url(), timing).await;
    block_all(&one).await;
    set(&one, "user_id:stays", Block).await;
    away.sync().await.unwrap();
    assert_eq!(told.in_force(), NAMES.len() + 1);
    for name in NAMES {
        change(&one, clear(name)).await;
    }
    until("all are dropped", async || {
        set(&one, "user_id:other", Block).await;
        server.command(&["HLEN", HASH]).await.as_int() == 3
    })
    .await;
    for overrides in [&away, &one, &away] {
        overrides.sync().await.unwrap();
        let names = overrides
            .list()
            .into_iter()
            .map(|it| it.subject.to_string());
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["user_id:other", "user_id:stays"]
        );
    }
    assert_eq!(told.in_force(), 2);
    let versions = format!("{HASH}:versions");
    assert_eq!(server.command(&["ZCARD", &versions]).await.as_int(), 2);
}

/// Two servers that ran apart: each change is in force, unless a newer one of its name is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_agree_after_two_servers_ran_apart() {
    let servers = [RedisServer::start().await, RedisServer::start().await];
    let (one, _) = connect(&servers[0].url()).await;
    let (other, _) = connect(&servers[1].url()).await;
    set(&one, "user_id:1", Block).await;
    set(&other, "user_id:1", Exempt).await;
    set(&other, "user_id:2", Block).await;
    change(&other, clear("user_id:2")).await;
    set(&one, "user_id:2", Exempt).await;
    set(&one, "user_id:3", Block).await;
    // The gateway of the second server goes on with the first.
    let data = servers[0].dir().join("dump.rdb");
    servers[0].command(&["SAVE"]).await;
    servers[1].stop();
    std::fs::copy(data, servers[1].dir().join("dump.rdb")).unwrap();
    servers[1].restart().await;
    until("Redis answers", async || other.sync().await.is_ok()).await;
    let (fresh, _) = connect(&servers[1].url()).await;
    for overrides in [&other, &fresh] {
        overrides.sync().await.unwrap();
        for (name, expected) in [
            ("user_id:1", Exempt),
            ("user_id:2", Exempt),
            ("user_id:3", Block),
        ] {
            assert_eq!(action(overrides, name), Some(expected), "{name}");
        }
    }
}

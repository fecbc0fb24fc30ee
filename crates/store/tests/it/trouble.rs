//! Lost scripts, values of the wrong type, a Redis that refuses to run scripts, and URLs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::Quota;
use tidegate_store::redis::check_url;
use tidegate_store::{Charge, Decision, Limit, OnFailure, Outcome, RedisStore, Via};
use tidegate_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::support::{
    calls, charge, code_of, connect, error_of, every_algorithm, exact_store, limit, quiet_window,
    state_key, wait_for,
};

/// How often the scripts are lost, every 100 ms.
const FLUSHES: u64 = 30;
/// What each client may, however often scripts are lost meanwhile.
const LIMIT: u64 = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_script_heals_without_an_error_or_a_request_too_many() {
    let server = RedisServer::start().await;
    let store = Arc::new(exact_store(&server).await);
    let quotas = every_algorithm(LIMIT, quiet_window());
    let limits = Arc::new(quotas.map(|quota| limit("lost", quota)));
    let (flushes, over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );

    let mut tasks = JoinSet::new();
    for task in 0..32_u64 {
        let (store, limits) = (store.clone(), limits.clone());
        let (flushes, over) = (flushes.clone(), over.clone());
        tasks.spawn(async move {
            let mut admitted = HashMap::<u64, u64>::new();
            let mut turn = task;
            while !over.load(Ordering::Relaxed) {
                // With each flush comes a new client, so that someone is admitted all the time.
                let client = flushes.load(Ordering::Relaxed);
                *admitted.entry(client).or_default() += ask(&store, &limits, turn, client).await;
                turn += 1;
            }
            admitted
        });
    }
    let mut redis = server.connect().await;
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    for flush in 1..=FLUSHES {
        tick.tick().await;
        let reply = redis.command(&["SCRIPT", "FLUSH"]).await.unwrap();
        assert!(!reply.is_error(), "{reply:?}");
        flushes.store(flush, Ordering::Relaxed);
    }
    tick.tick().await;
    over.store(true, Ordering::Relaxed);

    let mut admitted = HashMap::<u64, u64>::new();
    for of_task in tasks.join_all().await {
        for (client, count) in of_task {
            *admitted.entry(client).or_default() += count;
        }
    }
    // Who did not use all of it up does so now; more than all, nobody did.
    for client in 0..=FLUSHES {
        let count = admitted.entry(client).or_default();
        for turn in 0..=LIMIT {
            *count += ask(&store, &limits, turn, client).await;
        }
        assert_eq!(*count, LIMIT, "client {client}");
    }

    let calls = calls(&server).await;
    let of = |command: &str| calls.get(command).copied().unwrap_or(0);
    // One load at a time: one per script, at the start and after each flush. There are two for each limit, for one decision
    // and for many.
    assert!(
        of("script|flush") == FLUSHES && of("eval") <= 4 * (FLUSHES + 1),
        "{calls:?}"
    );
    assert!(of("evalsha") > 10 * of("eval"), "{calls:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_many_miss_at_once_is_loaded_once() {
    let server = RedisServer::start().await;
    let store = Arc::new(exact_store(&server).await);
    let limit = Arc::new(limit("many", every_algorithm(10, quiet_window())[0]));
    for round in 1..=20 {
        server.command(&["SCRIPT", "FLUSH"]).await;
        let mut tasks = JoinSet::new();
        for _ in 0..64 {
            let (store, limit) = (store.clone(), limit.clone());
            tasks.spawn(async move { store.decide(&[charge(&limit, round, 1)]).await });
        }
        let decisions = tasks.join_all().await;
        assert!(
            decisions
                .iter()
                .all(|decision| error_of(decision).is_none())
        );
        let admitted = |decision: &&Decision| decision.outcome == Outcome::Admitted;
        assert_eq!(decisions.iter().filter(admitted).count(), 10);
        // There are two, for one decision and for many.
        let loads = calls(&server).await["eval"];
        assert!((round..=2 * round).contains(&loads), "{loads} in {round}");
    }
}

#[tokio::test]
async fn a_value_of_another_type_is_an_error_and_not_a_panic() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let mut redis = server.connect().await;
    for (client, quota) in (0..).zip(every_algorithm(5, quiet_window())) {
        let broken = Limit::new("broken", quota, OnFailure::Closed);
        let key = state_key(&charge(&broken, client, 1));
        let values: &[&[&str]] = match quota {
            Quota::SlidingWindowLog(_) => &[
                &["SET", &key, "1 2 3"],
                &["HSET", &key, "a", "1"],
                &["RPUSH", &key, "noon"],
            ],
            _ => &[
                &["RPUSH", &key, "1"],
                &["HSET", &key, "a", "1"],
                &["SET", &key, "1"],
                &["SET", &key, "1 2 3 x"],
            ],
        };
        for (value, nth) in values.iter().zip(0..) {
            redis.command(&["DEL", &key]).await.unwrap();
            assert!(!redis.command(value).await.unwrap().is_error());
            let before = redis.command(&["DUMP", &key]).await.unwrap();
            follows_on_failure(&store, &broken, client, nth).await;
            assert_eq!(redis.command(&["DUMP", &key]).await.unwrap(), before);
        }
        // Whoever is not concerned is decided by Redis as before, over the same connection.
        let decision = store.decide(&[charge(&broken, 100 + client, 1)]).await;
        assert_eq!(
            (decision.outcome, decision.via),
            (Outcome::Admitted, Via::Store)
        );
    }
}

#[tokio::test]
async fn a_redis_without_memory_or_permission_says_so_and_changes_nothing() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), Duration::from_secs(5)).await;
    let closed = limit("closed", every_algorithm(5, quiet_window())[0]);
    let code = |decision: &Decision| {
        error_of(decision).and_then(|error| code_of(&error).map(str::to_owned))
    };
    let set = async |name: &str, value: &str| {
        let reply = server.command(&["CONFIG", "SET", name, value]).await;
        assert!(!reply.is_error(), "{reply:?}");
    };
    set("maxmemory", "1").await;
    let decision = store.decide(&[charge(&closed, 1, 1)]).await;
    assert_eq!(decision.outcome, Outcome::Unavailable);
    assert_eq!(code(&decision).as_deref(), Some("OOM"));
    set("maxmemory", "0").await;
    assert_eq!(store.decide(&[charge(&closed, 1, 1)]).await.via, Via::Store);

    server
        .command(&["ACL", "SETUSER", "default", "-evalsha", "-eval"])
        .await;
    let decision = store.decide(&[charge(&closed, 1, 1)]).await;
    assert_eq!(decision.outcome, Outcome::Unavailable);
    assert_eq!(code(&decision).as_deref(), Some("NOPERM"));
    server
        .command(&["ACL", "SETUSER", "default", "+@all"])
        .await;
    wait_for("permission", async || {
        let decision = store.decide(&[charge(&closed, 1, 1)]).await;
        (decision.via == Via::Store).then_some(())
    })
    .await;
}

#[test]
fn urls_are_understood_or_refused_without_being_repeated() {
    let good = [
        "redis://127.0.0.1:6379",
        "redis://127.0.0.1",
        "redis://redis.example.com:6380/3",
        "redis://:hunter2@redis:6379",
        "redis://user:hunter2@[::1]:6379/0",
        "rediss://:hunter2@127.0.0.1:6379",
        "redis-cluster://a:1,b:2",
        "redis-sentinel://a:1,b:2?sentinelServiceName=main",
        "unix:///run/redis.sock",
    ];
    for url in good {
        assert!(check_url(url).is_ok(), "{url}");
    }
    let bad = [
        "",
        "redis://",
        "127.0.0.1:6379",
        "redis:6379",
        "http://127.0.0.1:6379",
        "redis://127.0.0.1:hunter2",
        "redis://:hunter2@127.0.0.1:99999",
        "redis://:hunter2@127.0.0.1:6379/one",
        "redis://:hunter2@:x",
        // Whatever this is, it may not be TLS.
        "valkeys://:hunter2@127.0.0.1:6379",
        "redis-ish://:hunter2@127.0.0.1:6379",
        // What nobody reads, and a password that ends the host's name early.
        "redis://127.0.0.1:6379?password=hunter2",
        "redis://hunter2#more@127.0.0.1:6379",
    ];
    for url in bad {
        let error = check_url(url).expect_err(url);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}");
    }
}

/// Asks under one of two scripts, for one limit of an algorithm that they share, and says how many got through.
async fn ask(store: &RedisStore, limits: &[Limit; 7], turn: u64, client: u64) -> u64 {
    let beside = if turn.is_multiple_of(2) { 3 } else { 4 };
    let charges = [
        charge(&limits[2], client, 1),
        // Counted elsewhere, and never the one that refuses.
        charge(&limits[beside], client << 32 | turn << 8, 1),
    ];
    let decision = store.decide(&charges).await;
    assert_eq!((decision.via, error_of(&decision)), (Via::Store, None));
    assert!(decision.verdicts[1].is_some_and(|verdict| verdict.allowed));
    u64::from(decision.outcome == Outcome::Admitted)
}

/// The key is broken, and Redis says so: each policy does what it does without a Redis.
async fn follows_on_failure(store: &RedisStore, broken: &Limit, client: u64, nth: u64) {
    let with = |on_failure| Limit::new(broken.name(), *broken.quota(), on_failure);
    let beside = limit(&format!("beside-{nth}"), *broken.quota());
    for (on_failure, outcome) in [
        (OnFailure::Closed, Outcome::Unavailable),
        (OnFailure::Open, Outcome::Admitted),
        (OnFailure::Local, Outcome::Admitted),
    ] {
        let limit = with(on_failure);
        let decision = store.decide(&[charge(&limit, client, 1)]).await;
        assert_eq!((decision.outcome, decision.via), (outcome, Via::Fallback));
        let error = error_of(&decision);
        let code = error.as_ref().and_then(code_of);
        assert!(matches!(code, Some("WRONGTYPE" | "ERR")), "{error:?}");
    }
    // All or none: a limit that comes before the broken one is not charged either.
    let charges: [Charge<'_>; 2] = [charge(&beside, client, 5), charge(broken, client, 1)];
    assert_eq!(store.decide(&charges).await.outcome, Outcome::Unavailable);
    assert_eq!(
        store.decide(&charges[..1]).await.outcome,
        Outcome::Admitted,
        "{beside:?}"
    );
    let refunded = store.decide(&[charge(&beside, client, 1)]).await;
    assert_eq!(refunded.outcome, Outcome::Refused);
}

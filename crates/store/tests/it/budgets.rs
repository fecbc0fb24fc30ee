//! One client's budgets: looked at without being charged, and forgotten for good.

use std::time::{Duration, Instant};

use tidegate_core::FixedWindow;
use tidegate_store::redis::NodeInfo;
use tidegate_store::{
    Charge, Limit, MAX_CHARGES, Mode, OnFailure, Outcome, Store, StoreError, Via,
};
use tidegate_testkit::{CallFault, RedisProxy, RedisServer};

use crate::support::{
    PATIENCE, calls, charge, code_of, connect, every_algorithm, limit, memory_store, options,
    quiet_window, ready, redis_store, wait_for,
};

async fn on_both_stores(case: impl AsyncFn(Store)) {
    case(memory_store()).await;
    let server = RedisServer::start().await;
    case(redis_store(&server).await).await;
}

/// What is left of each, by looking.
async fn left(store: &Store, charges: &[Charge<'_>]) -> Vec<u64> {
    let outlooks = store.peek(charges).await.unwrap();
    assert_eq!(outlooks.len(), charges.len());
    outlooks.iter().map(|it| it.verdict.remaining).collect()
}

async fn admitted(store: &Store, charges: &[Charge<'_>]) -> bool {
    store.decide(charges).await.outcome == Outcome::Admitted
}

#[tokio::test]
async fn a_look_says_what_the_next_request_would_meet_and_charges_nothing() {
    on_both_stores(async |store| {
        let limits = every_algorithm(4, quiet_window()).map(|quota| limit("each", quota));
        let charges = limits.each_ref().map(|limit| charge(limit, 1, 1));
        for used in 0..=4 {
            for _ in 0..3 {
                assert_eq!(left(&store, &charges).await, [4 - used; 7]);
            }
            let outlooks = store.peek(&charges).await.unwrap();
            let decision = store.decide(&charges).await;
            for (outlook, verdict) in outlooks.iter().zip(decision.verdicts.iter().flatten()) {
                assert!(outlook.now <= decision.now);
                assert_eq!(outlook.verdict.allowed, verdict.allowed);
                assert_eq!(outlook.verdict.retry_after == 0, verdict.retry_after == 0);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn each_is_looked_at_on_its_own_however_many_there_are() {
    on_both_stores(async |store| {
        let quota = |most| FixedWindow::new(most, quiet_window()).unwrap();
        let limits: Vec<Limit> = (1..=40)
            .map(|most| limit(&format!("of-{most}"), quota(most)))
            .collect();
        assert!(limits.len() > 2 * MAX_CHARGES);
        // The last ones are another client's.
        let clients = (0..).map(|index| u64::from(index >= 30));
        let charges: Vec<_> = limits
            .iter()
            .zip(clients)
            .map(|(limit, client)| charge(limit, client, 1))
            .collect();
        assert!(admitted(&store, &charges[..1]).await);
        assert!(!admitted(&store, &charges[..1]).await);
        let full: Vec<u64> = (1..=40).collect();
        assert_eq!(left(&store, &charges).await[0], 0);
        assert_eq!(left(&store, &charges).await[1..], full[1..]);
    })
    .await;
}

#[tokio::test]
async fn after_a_reset_each_begins_anew_and_nobody_else_does() {
    on_both_stores(async |store| {
        let limits = every_algorithm(3, quiet_window()).map(|quota| limit("each", quota));
        let of = |client| limits.each_ref().map(|limit| charge(limit, client, 1));
        for client in [1, 2] {
            for _ in 0..3 {
                assert!(admitted(&store, &of(client)).await);
            }
        }
        store.reset(&of(1)[1..]).await.unwrap();
        assert_eq!(left(&store, &of(1)).await, [0, 3, 3, 3, 3, 3, 3]);
        assert_eq!(left(&store, &of(2)).await, [0; 7]);
        for _ in 0..3 {
            assert!(admitted(&store, &of(1)[1..]).await);
        }
        assert!(!admitted(&store, &of(1)[1..]).await);
        // Of what was never used there is nothing to forget.
        store.reset(&of(3)).await.unwrap();
        assert_eq!(left(&store, &of(3)).await, [3; 7]);
    })
    .await;
}

/// Each gateway shows what it has counted itself, and resets that alone.
#[tokio::test]
async fn a_local_limit_is_shown_and_reset_by_the_gateway_that_counts_it() {
    let server = RedisServer::start().await;
    let stores = [redis_store(&server).await, redis_store(&server).await];
    let of = every_algorithm(3, quiet_window());
    let shared = limit("shared", of[2]);
    for quota in of {
        let local = limit("local", quota).in_mode(Mode::Local);
        let charges = [charge(&shared, 9, 1), charge(&local, 9, 1)];
        for store in &stores {
            assert!(admitted(store, &charges[1..]).await);
        }
        assert!(admitted(&stores[0], &charges[1..]).await);
        for (store, expected) in stores.iter().zip([1, 2]) {
            let outlooks = store.peek(&charges).await.unwrap();
            let seen: Vec<(u64, bool)> = outlooks
                .iter()
                .map(|outlook| (outlook.verdict.remaining, outlook.here))
                .collect();
            assert_eq!(seen, [(3, false), (expected, true)], "{local:?}");
        }
        stores[0].reset(&charges).await.unwrap();
        for (store, expected) in stores.iter().zip([3, 2]) {
            assert_eq!(left(store, &charges[1..]).await, [expected], "{local:?}");
        }
        stores[1].reset(&charges).await.unwrap();
    }
    // Nobody else is asked.
    drop(server);
    let local = limit("local", of[2]).in_mode(Mode::Local);
    assert!(admitted(&stores[0], &[charge(&local, 9, 1)]).await);
    assert_eq!(left(&stores[0], &[charge(&local, 9, 1)]).await, [2]);
    stores[0].reset(&[charge(&local, 9, 1)]).await.unwrap();
    assert_eq!(left(&stores[0], &[charge(&local, 9, 1)]).await, [3]);
}

#[tokio::test]
async fn a_refusal_that_is_remembered_ends_with_a_reset_here_and_within_a_second_elsewhere() {
    let server = RedisServer::start().await;
    let here = connect(&server.url(), Duration::from_secs(5)).await;
    let there = connect(&server.url(), Duration::from_secs(5)).await;
    let limit = limit("once", FixedWindow::new(1, quiet_window()).unwrap());
    let charges = [charge(&limit, 1, 1)];
    assert_eq!(here.decide(&charges).await.outcome, Outcome::Admitted);
    for store in [&here, &there] {
        assert_eq!(store.decide(&charges).await.outcome, Outcome::Refused);
        assert_eq!(store.decide(&charges).await.via, Via::Remembered);
    }
    here.reset(&charges).await.unwrap();
    let start = Instant::now();
    let decision = here.decide(&charges).await;
    assert_eq!(
        (decision.outcome, decision.via),
        (Outcome::Admitted, Via::Store)
    );
    here.reset(&charges).await.unwrap();
    while there.decide(&charges).await.outcome == Outcome::Refused {
        assert!(start.elapsed() < Duration::from_secs(2), "still refused");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The way to Redis stands still before the reset, or under it, for longer than the reset takes to fail.
#[tokio::test]
async fn a_reset_that_failed_is_not_made_later() {
    let server = RedisServer::start().await;
    let proxy = RedisProxy::start(server.addr());
    let url = format!("redis://{}", proxy.addr());
    let behind = connect(&url, Duration::from_millis(200)).await;
    let beside = redis_store(&server).await;
    let scripts = async || calls(&server).await.get("eval").copied();
    for mode in [Mode::Exact, Mode::Leased, Mode::Synced] {
        let name = format!("it-{mode:?}");
        let exact = limit(&name, FixedWindow::new(5, quiet_window()).unwrap());
        let shared = exact.clone().in_mode(mode);
        let (exact, shared) = (charge(&exact, 1, 3), charge(&shared, 1, 1));
        assert!(admitted(&beside, &[exact]).await);
        proxy.hold(true);
        let error = behind.reset(&[shared]).await.unwrap_err();
        assert_eq!(error, StoreError::Timeout, "{mode:?}");
        proxy.hold(false);
        wait_for("Redis", async || behind.peek(&[shared]).await.ok()).await;
        assert_eq!(left(&beside, &[exact]).await, [2], "{mode:?}");
        // Behind the call that returns a slice.
        let before = usize::from(mode == Mode::Leased);
        proxy.strike(before, CallFault::SentLate(Duration::from_millis(1_500)));
        let ran = scripts().await;
        let error = behind.reset(&[shared]).await.unwrap_err();
        assert_eq!(error, StoreError::Timeout, "{mode:?}");
        assert_eq!(scripts().await, ran, "{mode:?}: it is on its way");
        wait_for("the late call", async || {
            (scripts().await != ran).then_some(())
        })
        .await;
        assert_eq!(left(&beside, &[exact]).await, [2], "{mode:?}");
        wait_for("Redis", async || behind.reset(&[shared]).await.ok()).await;
        assert_eq!(left(&beside, &[exact]).await, [5], "{mode:?}");
    }
}

#[tokio::test]
async fn a_reset_reaches_what_an_outage_left_in_this_process() {
    let server = RedisServer::start().await;
    let quota = FixedWindow::new(1, quiet_window()).unwrap();
    let limit = Limit::new("once", quota, OnFailure::Local);
    let store = connect(&server.url(), Duration::from_secs(5)).await;
    let charges = [charge(&limit, 1, 1)];
    server.stop();
    while ready(&store).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(store.decide(&charges).await.outcome, Outcome::Admitted);
    assert_eq!(store.decide(&charges).await.outcome, Outcome::Refused);
    // What Redis does not know cannot be told, nor taken back.
    assert!(store.peek(&charges).await.is_err());
    assert!(store.reset(&charges).await.is_err());
    assert_eq!(store.fallback().peek(&charges)[0].verdict.remaining, 0);
    server.restart().await;
    let deadline = Instant::now() + PATIENCE;
    while store.reset(&charges).await.is_err() {
        assert!(Instant::now() < deadline, "Redis is back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(store.fallback().peek(&charges)[0].verdict.remaining, 1);
}

/// A look here says what the next request meets in an outage, and charges nothing.
#[tokio::test]
async fn without_redis_a_look_here_says_what_the_next_request_meets() {
    let server = RedisServer::start().await;
    let store = redis_store(&server).await;
    let modes = [Mode::Exact, Mode::Leased, Mode::Synced, Mode::Local];
    let mut limits = Vec::new();
    for (number, mode) in modes.into_iter().enumerate() {
        let quotas = every_algorithm(6, quiet_window()).into_iter();
        for quota in quotas.filter(|quota| quota.modes().contains(&mode)) {
            let named = Limit::new(format!("it-{number}"), quota, OnFailure::Local);
            limits.push(named.in_mode(mode));
        }
    }
    let charges: Vec<_> = limits.iter().map(|limit| charge(limit, 1, 1)).collect();
    for charge in &charges {
        for _ in 0..3 {
            assert!(admitted(&store, std::slice::from_ref(charge)).await);
        }
    }
    server.stop();
    while store.ready(std::iter::empty()).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for charge in &charges {
        let what = format!("{:?}", charge.limit);
        // A slice may be spent beside the share.
        for _ in 0..20 {
            let look = || store.peek_here(std::slice::from_ref(charge)).remove(0);
            let view = look();
            assert_eq!((view.capacity, view.outlook.here), (6, true), "{what}");
            let again = look().outlook.verdict.remaining;
            assert_eq!(again, view.outlook.verdict.remaining, "{what}");
            let has_slice = view.leased.is_some_and(|left| left > 0);
            let decision = store.decide(std::slice::from_ref(charge)).await;
            let verdict = decision.verdicts[0].unwrap();
            let expected = view.outlook.verdict.allowed || has_slice;
            assert_eq!(verdict.allowed, expected, "{what}: {view:?}, {verdict:?}");
            if verdict.allowed && !has_slice {
                let left = view.outlook.verdict.remaining;
                assert_eq!(verdict.remaining + 1, left, "{what}");
            }
        }
        let verdict = store.peek_here(std::slice::from_ref(charge))[0]
            .outlook
            .verdict;
        assert!(!verdict.allowed, "{what}: {verdict:?}");
    }
}

#[tokio::test]
async fn what_redis_said_last_is_known_for_as_long_as_it_is_remembered() {
    let server = RedisServer::start().await;
    let store = redis_store(&server).await;
    let limit = limit("once", FixedWindow::new(1, quiet_window()).unwrap());
    let charges = [charge(&limit, 1, 1)];
    let last = || store.peek_here(&charges)[0].last;
    assert_eq!(last(), None);
    assert!(admitted(&store, &charges).await);
    let said = last().unwrap();
    assert_eq!((said.remaining, said.retry_after), (0, 0));
    assert!(!admitted(&store, &charges).await);
    assert!(last().unwrap().retry_after > 0);
    store.reset(&charges).await.unwrap();
    assert_eq!(last(), None);
}

#[tokio::test]
async fn a_redis_tells_what_it_is_like_or_that_it_may_not_be_asked() {
    let limits = ["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"];
    let server = RedisServer::start_with(&limits).await;
    let store = connect(&server.url(), Duration::from_secs(5)).await;
    let limit = limit("many", FixedWindow::new(100, quiet_window()).unwrap());
    for _ in 0..10 {
        store.decide(&[charge(&limit, 1, 1)]).await;
    }
    let nodes = store.info().await.unwrap();
    let [NodeInfo { node: None, info }] = &nodes[..] else {
        panic!("{nodes:?}");
    };
    assert_eq!(info.memory_max, Some(64 << 20));
    assert!(
        info.memory
            .is_some_and(|bytes| (1 << 18..64 << 20).contains(&bytes))
    );
    assert_eq!((info.evicted_keys, info.expired_keys), (Some(0), Some(0)));
    // The first is sent with its text, and found to be missing before, which may count as a call.
    assert!(
        info.script_calls
            .is_some_and(|calls| (10..=11).contains(&calls))
    );
    assert!(info.cpu.is_some_and(|cpu| !cpu.is_zero()));
    assert!(info.script_time.is_some_and(|time| !time.is_zero()));
    assert_eq!(info.drops_limits(), Some("allkeys-lru"));

    let denied = ["ACL", "SETUSER", "default", "-info"];
    server.command(&denied).await;
    let error = store.info().await.unwrap_err();
    assert_eq!(code_of(&error), Some("NOPERM"));
    assert!(admitted(&Store::Redis(store.into()), &[charge(&limit, 1, 1)]).await);
}

#[tokio::test]
async fn what_changed_numbers_leave_is_seen_by_looking() {
    let server = RedisServer::start().await;
    let store = Store::Redis(
        tidegate_store::RedisStore::connect(options(&server.url(), Duration::from_secs(5)))
            .await
            .unwrap()
            .into(),
    );
    for (small, large) in every_algorithm(5, quiet_window())
        .into_iter()
        .zip(every_algorithm(50, quiet_window()))
    {
        let (small, large) = (limit("same", small), limit("same", large));
        for _ in 0..3 {
            assert!(admitted(&store, &[charge(&small, 1, 1)]).await);
        }
        assert_eq!(left(&store, &[charge(&small, 1, 1)]).await, [2]);
        assert_eq!(left(&store, &[charge(&large, 1, 1)]).await, [47]);
        for _ in 0..17 {
            assert!(admitted(&store, &[charge(&large, 1, 1)]).await);
        }
        assert_eq!(left(&store, &[charge(&small, 1, 1)]).await, [0]);
    }
}

use std::time::{Duration, Instant};

use tidegate_core::{FixedWindow, Rate, TokenBucket};
use tidegate_redis::{Identity, Shards, Wait};
use tidegate_testkit::RedisServer;

use super::super::access::Access;
use super::super::script;
use super::super::script::caller::Caller;
use super::lender::Ask;
use super::*;
use crate::{Key, Limit, OnFailure};

const TIMEOUT: Duration = Duration::from_secs(5);

async fn leases(server: &RedisServer, capacity: usize) -> Arc<Leased> {
    let shards = Shards::start(&server.url(), None, TIMEOUT, script::all()).unwrap();
    shards.tried().await;
    let lender = Lender {
        access: Access {
            caller: Caller::new(shards, "tidegate"),
            secret: Arc::default(),
            cache: Arc::default(),
            timeout: TIMEOUT,
        },
        identity: Arc::new(Identity::new()),
    };
    Leased::with_capacity(lender, capacity)
}

/// The last units are lent to others, so the wait is longer than the period. That is no debt of the key.
#[tokio::test]
async fn slices_of_others_are_no_debt() {
    let server = RedisServer::start().await;
    let rate = Rate {
        count: 10,
        per: 60_000_000,
    };
    let quota = TokenBucket::new(10, rate).unwrap();
    let limit = Limit::new("limit", quota, OnFailure::Local);
    let (tag, rest) = ([1; 16], [0; 16]);
    let charge = |cost| Charge {
        limit: &limit,
        key: Key { tag, rest },
        cost,
        origin: None,
    };
    let ask = async |gateway: &Arc<Leased>, cost, wanted| {
        let lender = &gateway.lender;
        let (session, call) = (1, 1);
        let ask = Ask {
            cost,
            session,
            call,
            wanted,
            ..Ask::default()
        };
        let budget = lender.budget(&charge(cost));
        let answer = lender.ask(&budget, &ask, Wait::new(TIMEOUT, None)).await;
        answer.unwrap().content
    };
    for _ in 0..2 {
        ask(&leases(&server, 64).await, 0, 10).await;
    }
    let gateway = leases(&server, 64).await;
    let lent = ask(&gateway, 10, 0).await;
    let (quota, now) = (limit.quota(), crate::now());
    assert!(!lent.admitted && lent.retry_after > quota.period());
    let cache = &gateway.lender.access.cache;
    let mut state = cache.state(&charge(10), quota, now).unwrap();
    assert!(quota.check(&mut state, 1, now).reset <= quota.period());
}

/// Keys that find no place are decided by Redis, one request at a time, and exactly; slices that others hold count.
#[tokio::test]
async fn a_full_table_is_exact_and_grows_no_further() {
    let server = RedisServer::start().await;
    let leases = leases(&server, 64).await;
    let limit = Limit::new(
        "limit",
        FixedWindow::new(30, 31 * 86_400_000_000).unwrap(),
        OnFailure::Closed,
    );
    let charge = |client: u64| Charge {
        limit: &limit,
        key: Key {
            tag: u128::from(client).to_be_bytes(),
            rest: [0; 16],
        },
        cost: 1,
        origin: None,
    };
    let wait = || Wait::new(TIMEOUT, None);
    let mut calls = 0;
    for client in 0..150 {
        let (mut admitted, mut own) = (0, 0);
        for _ in 0..33 {
            let taken = leases
                .reserve(&charge(client), false, wait())
                .await
                .unwrap();
            admitted += u64::from(taken.verdict.allowed);
            own += u64::from(taken.was_called);
        }
        assert_eq!(admitted, 30, "client {client}");
        // Without a place each of 30 is asked for; with one, a few are. A slow machine frees places meanwhile.
        let has_place = leases.knows(&charge(client));
        assert!(has_place || own >= 30, "client {client} asked {own} times");
        calls += own;
    }
    assert!(leases.len() <= 64, "{}", leases.len());
    // Each of 30, and one refusal.
    assert!(calls < 150 * 31, "{calls}");
}

/// Redis's clock has gone on while the machine slept: the slice has lapsed there, and may be another's by now.
#[tokio::test]
async fn a_slice_is_not_spent_after_the_machine_has_slept() {
    let server = RedisServer::start().await;
    let leases = leases(&server, 64).await;
    let quota = FixedWindow::new(1_000, 31 * 86_400_000_000).unwrap();
    let limit = Limit::new("slept", quota, OnFailure::Closed);
    let charge = Charge {
        limit: &limit,
        key: Key {
            tag: [7; 16],
            rest: [0; 16],
        },
        cost: 1,
        origin: None,
    };
    let reserve = async || {
        let wait = Wait::new(TIMEOUT, None);
        let taken = leases.reserve(&charge, false, wait).await.unwrap();
        assert!(taken.verdict.allowed);
        taken.was_called
    };
    let deadline = Instant::now() + TIMEOUT;
    while reserve().await {
        assert!(Instant::now() < deadline, "no slice is lent");
    }
    clock::sleep(super::lender::TERM);
    assert!(reserve().await, "it was spent from the slice");
}

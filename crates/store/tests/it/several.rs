//! Requests that several limits refuse: which limits a refusal names, how long it asks the client to wait, and which blocks start.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{Block, FixedWindow, Rate, TokenBucket};
use tidegate_store::{Charge, Decision, Limit, Mode, OnFailure, Outcome, Store, Via};
use tidegate_testkit::RedisServer;

use crate::modes::no_redis;
use crate::refusals::scripts_run;
use crate::support::{
    DAY, HOUR, MS, Random, SECOND, charge, connect, error_of, limit, memory_store, quiet_window,
    redis_store,
};

const TIMEOUT: Duration = Duration::from_secs(5);

/// The modes in which a gateway decides without asking Redis for each request.
const KEPT: [Mode; 3] = [Mode::Local, Mode::Leased, Mode::Synced];

/// One unit until the end of the test.
fn one(name: &str) -> Limit {
    limit(name, FixedWindow::new(1, quiet_window()).unwrap())
}

/// One unit an hour; a key that exceeds it is refused for a day.
fn blocks(name: &str) -> Limit {
    let rate = Rate {
        count: 1,
        per: HOUR,
    };
    let block = Block {
        span: DAY,
        extend: false,
    };
    limit(name, TokenBucket::new(1, rate).unwrap()).blocking(block)
}

/// A store that remembers refusals.
async fn remembering(server: &RedisServer) -> Store {
    Store::Redis(Arc::new(connect(&server.url(), TIMEOUT).await))
}

/// Whether each limit refuses this request, which is refused.
fn refusing(decision: &Decision) -> Vec<bool> {
    assert_eq!(decision.outcome, Outcome::Refused);
    let verdicts = decision.verdicts.iter();
    verdicts
        .map(|verdict| verdict.is_some_and(|verdict| !verdict.allowed))
        .collect()
}

async fn use_up(store: &Store, limit: &Limit) {
    let decision = store.decide(&[charge(limit, 1, 1)]).await;
    assert_eq!(decision.outcome, Outcome::Admitted, "{}", limit.name());
}

async fn is_blocked(store: &Store, limit: &Limit) -> bool {
    let outlooks = store.peek(&[charge(limit, 1, 1)]).await.unwrap();
    outlooks[0].verdict.retry_after > HOUR
}

#[tokio::test]
async fn a_refusal_in_the_gateway_names_the_limits_that_redis_would_refuse() {
    let server = RedisServer::start().await;
    let (store, other) = (remembering(&server).await, redis_store(&server).await);
    for mode in KEPT {
        let here = one(&format!("here-{}", mode.word())).in_mode(mode);
        let exact = one(&format!("exact-{}", mode.word()));
        use_up(&store, &here).await;
        use_up(&other, &exact).await;
        let both = [charge(&here, 1, 1), charge(&exact, 1, 1)];
        for charges in [both, [both[1], both[0]]] {
            let decision = store.decide(&charges).await;
            assert_eq!(refusing(&decision), [true, true], "{mode:?}");
            assert_eq!(error_of(&decision), None);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_requests_refused_in_the_gateway_costs_a_call_a_second() {
    let server = RedisServer::start().await;
    let store = remembering(&server).await;
    let here = one("here").in_mode(Mode::Local);
    let exact = limit("exact", FixedWindow::new(9, quiet_window()).unwrap());
    use_up(&store, &here).await;
    let charges = [charge(&here, 1, 1), charge(&exact, 1, 1)];
    // Redis has the script from here on.
    assert_eq!(refusing(&store.decide(&charges).await), [true, false]);
    let (before, started) = (scripts_run(&server).await, Instant::now());
    let mut refused = 0;
    while started.elapsed() < Duration::from_millis(2_500) {
        let (one, other) = tokio::join!(store.decide(&charges), store.decide(&charges));
        for decision in [one, other] {
            assert_eq!(refusing(&decision), [true, false]);
            refused += 1;
        }
    }
    let seconds = started.elapsed().as_secs() + 1;
    let calls = scripts_run(&server).await - before;
    assert!(refused > 1_000, "{refused}");
    assert!(
        (1..=seconds).contains(&calls),
        "{calls} calls for {refused} refusals in {seconds} s"
    );
    // None of them was charged.
    let decision = store.decide(&charges[1..]).await;
    assert_eq!(decision.verdicts[0].unwrap().remaining, 8);
}

/// Each client's own limit has an old refusal, and would get a call a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_many_refused_clients_costs_some_hundred_calls_a_second() {
    let server = RedisServer::start().await;
    let store = remembering(&server).await;
    let (own, here) = (one("own"), one("here").in_mode(Mode::Local));
    let shared = one("shared").shared();
    let clients = 1_001..3_001;
    for first in [&here, &shared] {
        use_up(&store, first).await;
        for client in clients.clone() {
            for _ in 0..2 {
                store.decide(&[charge(&own, client, 1)]).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let decision = store.decide(&[charge(first, 1, 1)]).await;
        assert_eq!(refusing(&decision), [true]);
        let (before, started) = (scripts_run(&server).await, Instant::now());
        for client in clients.clone() {
            let charges = [charge(first, 1, 1), charge(&own, client, 1)];
            assert_eq!(refusing(&store.decide(&charges).await), [true, true]);
        }
        let seconds = started.elapsed().as_secs() + 1;
        let calls = scripts_run(&server).await - before;
        // The calls of a quiet second, and those of each second since then.
        let most = 400 * (seconds + 1);
        assert!(
            (1..=most).contains(&calls),
            "{calls} calls in {seconds} s beside {}",
            first.name()
        );
    }
}

#[tokio::test]
async fn a_block_starts_although_another_limit_refuses() {
    let server = RedisServer::start().await;
    let memory = memory_store();
    let redis = redis_store(&server).await;
    let stores = [
        ("memory", &memory, &memory),
        ("exact", &redis_store(&server).await, &redis),
        ("remembering", &remembering(&server).await, &redis),
    ];
    for (name, store, other) in stores {
        for mode in Mode::ALL {
            let first = one(&format!("first-{name}-{}", mode.word())).in_mode(mode);
            let second = blocks(&format!("second-{name}-{}", mode.word()));
            use_up(store, &first).await;
            // From here on the refusal may be remembered.
            let decision = store.decide(&[charge(&first, 1, 1)]).await;
            assert_eq!(refusing(&decision), [true]);
            use_up(other, &second).await;
            assert!(!is_blocked(store, &second).await);
            let charges = [charge(&first, 1, 1), charge(&second, 1, 1)];
            let decision = store.decide(&charges).await;
            assert_eq!(refusing(&decision), [true, true], "{name}, {mode:?}");
            assert!(is_blocked(store, &second).await, "{name}, {mode:?}");
        }
    }
}

#[tokio::test]
async fn a_remembered_refusal_names_a_limit_that_was_used_up_since() {
    let server = RedisServer::start().await;
    let store = remembering(&server).await;
    let (first, second) = (one("first"), one("second"));
    use_up(&store, &first).await;
    let decision = store.decide(&[charge(&first, 1, 1)]).await;
    assert_eq!(refusing(&decision), [true]);
    use_up(&store, &second).await;
    let charges = [charge(&first, 1, 1), charge(&second, 1, 1)];
    for via in [Via::Store, Via::Remembered] {
        let decision = store.decide(&charges).await;
        assert_eq!((refusing(&decision), decision.via), (vec![true, true], via));
    }
}

#[tokio::test]
async fn a_remembered_refusal_hides_no_limit_of_the_gateway() {
    let server = RedisServer::start().await;
    let store = remembering(&server).await;
    let exact = one("exact");
    use_up(&store, &exact).await;
    let decision = store.decide(&[charge(&exact, 1, 1)]).await;
    assert_eq!(refusing(&decision), [true]);
    for mode in KEPT {
        let here = one(mode.word()).in_mode(mode);
        use_up(&store, &here).await;
        let decision = store.decide(&[charge(&here, 1, 1)]).await;
        assert_eq!(refusing(&decision), [true]);
        let decision = store
            .decide(&[charge(&exact, 1, 1), charge(&here, 1, 1)])
            .await;
        assert_eq!(refusing(&decision), [true, true], "{mode:?}");
    }
    // A block starts only if the request itself exceeds the limit.
    let here = blocks("blocks").in_mode(Mode::Local);
    let charges = [charge(&here, 1, 1), charge(&exact, 1, 1)];
    for _ in 0..3 {
        assert_eq!(refusing(&store.decide(&charges).await), [false, true]);
    }
    use_up(&store, &here).await;
    assert_eq!(refusing(&store.decide(&charges).await), [true, true]);
    assert!(is_blocked(&store, &here).await);
}

#[tokio::test]
async fn a_leased_limit_that_refuses_hides_no_other_one() {
    let server = RedisServer::start().await;
    let (store, other) = (remembering(&server).await, redis_store(&server).await);
    let leased = |name| one(name).in_mode(Mode::Leased);
    let (first, second) = (leased("first"), leased("second"));
    use_up(&store, &first).await;
    use_up(&other, &second).await;
    let charges = [charge(&first, 1, 1), charge(&second, 1, 1)];
    for _ in 0..3 {
        assert_eq!(refusing(&store.decide(&charges).await), [true, true]);
    }
}

#[tokio::test]
async fn without_redis_a_refusal_in_the_gateway_names_limits_whose_share_is_used_up() {
    let store = Store::Redis(Arc::new(no_redis().await));
    let here = one("here").in_mode(Mode::Local);
    let share = Limit::new("share", *one("share").quota(), OnFailure::Local);
    use_up(&store, &here).await;
    use_up(&store, &share).await;
    let charges = [charge(&here, 1, 1), charge(&share, 1, 1)];
    for _ in 0..3 {
        assert_eq!(refusing(&store.decide(&charges).await), [true, true]);
    }
    // The call about the slice has failed before the limit of the gateway refuses.
    let leased = one("leased").in_mode(Mode::Leased);
    let charges = [charge(&leased, 1, 1), charge(&here, 1, 1)];
    let decision = store.decide(&charges).await;
    assert_eq!(refusing(&decision), [false, true]);
    assert!(error_of(&decision).is_some());
}

/// The call about the slice succeeds, and the check of the exact limit fails.
#[tokio::test]
async fn a_refusal_keeps_the_error_of_any_call() {
    let server = RedisServer::start().await;
    let store = remembering(&server).await;
    let (here, exact) = (one("here").in_mode(Mode::Local), one("exact"));
    let leased = one("leased").in_mode(Mode::Leased);
    use_up(&store, &here).await;
    let key = charge(&exact, 1, 1).redis_key("tidegate");
    server.command(&["HSET", &key, "a", "1"]).await;
    let charges = [&leased, &here, &exact].map(|limit| charge(limit, 1, 1));
    let decision = store.decide(&charges).await;
    assert_eq!(decision.outcome, Outcome::Refused);
    assert!(error_of(&decision).is_some());
}

/// A store that remembers refusals names the same limits as counting does: whatever their modes, and whichever refuse.
#[tokio::test]
async fn random_requests_name_all_limits_that_refuse() {
    let server = RedisServer::start().await;
    let stores = [memory_store(), remembering(&server).await];
    for store in &stores {
        for seed in 0..20 {
            let mut random = Random(seed);
            let limits: Vec<Limit> = (0..4)
                .map(|nth| {
                    let most = random.between(2, 12);
                    let quota = FixedWindow::new(most, quiet_window()).unwrap();
                    let mode = random.pick(&[Mode::Exact, Mode::Exact, Mode::Local, Mode::Synced]);
                    limit(&format!("{seed}-{nth}"), quota).in_mode(mode)
                })
                .collect();
            let mut left: Vec<u64> = limits.iter().map(|it| it.quota().capacity()).collect();
            for turn in 0..60 {
                let nths: Vec<usize> = (0..4).filter(|_| random.between(0, 2) > 0).collect();
                let costs: Vec<u64> = nths.iter().map(|_| random.pick(&[1, 1, 2])).collect();
                let asked = nths.iter().zip(&costs);
                let charges: Vec<Charge<'_>> = asked
                    .map(|(nth, cost)| charge(&limits[*nth], 1, *cost))
                    .collect();
                if charges.is_empty() {
                    continue;
                }
                let asked = nths.iter().zip(&costs);
                let exceeds: Vec<bool> = asked.map(|(nth, cost)| left[*nth] < *cost).collect();
                let decision = store.decide(&charges).await;
                if exceeds.contains(&true) {
                    let named = refusing(&decision);
                    assert_eq!(named, exceeds, "seed {seed}, turn {turn}: {charges:?}");
                    continue;
                }
                assert_eq!(decision.outcome, Outcome::Admitted);
                for (nth, cost) in nths.iter().zip(&costs) {
                    left[*nth] -= cost;
                }
            }
        }
    }
}

/// Requests without a pause; after a pause of this test itself the case begins anew.
#[tokio::test]
async fn refused_requests_extend_a_block_on_either_store() {
    let server = RedisServer::start().await;
    let pause = Duration::from_millis(400);
    for store in [memory_store(), remembering(&server).await] {
        let mut client = 0;
        'anew: loop {
            client += 1;
            let rate = Rate {
                count: 5,
                per: SECOND,
            };
            let block = Block {
                span: SECOND,
                extend: true,
            };
            let bucket = limit("bucket", TokenBucket::new(5, rate).unwrap()).blocking(block);
            let charges = [charge(&bucket, client, 1)];
            let first = Instant::now();
            let (mut last, mut refused) = (first, false);
            let before = scripts_run(&server).await;
            while first.elapsed() < Duration::from_secs(3) {
                let decision = store.decide(&charges).await;
                if last.elapsed() > pause {
                    continue 'anew;
                }
                last = Instant::now();
                let is_refused = decision.outcome == Outcome::Refused;
                assert!(is_refused || !refused, "the block has ended");
                refused |= is_refused;
                tokio::time::sleep(Duration::from_micros(MS)).await;
            }
            assert!(refused);
            // Four calls in the time of a block, and those before it.
            let calls = scripts_run(&server).await - before;
            assert!(calls <= 30, "{calls} calls");
            break;
        }
    }
}

#[tokio::test]
async fn a_refusal_that_starts_or_extends_a_block_is_made_in_full() {
    let server = RedisServer::start().await;
    for store in [memory_store(), remembering(&server).await] {
        let (first, second) = (one("first"), blocks("second"));
        use_up(&store, &first).await;
        use_up(&store, &second).await;
        let charges = [charge(&first, 1, 1), charge(&second, 1, 1)];
        let decision = store.decide(&charges[..1]).await;
        assert_eq!(refusing(&decision), [true]);
        assert!(store.known_refusal(&charges[..1]).is_some());
        assert_eq!(store.known_refusal(&charges), None);
        assert_eq!(refusing(&store.decide(&charges).await), [true, true]);
        let known = store.known_refusal(&charges).unwrap();
        assert_eq!(refusing(&known), [true, true]);
    }
}

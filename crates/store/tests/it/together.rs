//! Decisions that are asked for at the same moment, in one call, are what they would have been alone.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Block;
use tidegate_store::{Decision, Limit, OnFailure, Outcome, RedisStore, Via};
use tidegate_testkit::{RedisServer, Reply};
use tokio::task::JoinSet;

use crate::support::{
    DAY, charge, code_of, connect_exact, error_of, every_algorithm, limit, quiet_window,
};

/// The script that decides many, for one algorithm.
const MANY: &str = concat!(
    "#!lua\nlocal algorithms = {}\n",
    include_str!("../../../../lua/record.lua"),
    include_str!("../../../../lua/window.lua"),
    include_str!("../../../../lua/fixed_window.lua"),
    "local charging, blocking = true, true\n",
    include_str!("../../../../lua/decide.lua"),
    include_str!("../../../../lua/decide_many.lua"),
);
const PATIENCE: Duration = Duration::from_secs(5);

/// How often Redis was sent a script, and how often it ran one.
async fn calls(store: &RedisStore) -> u64 {
    store.info().await.unwrap()[0].info.script_calls.unwrap()
}

/// Asks for all of these at once; what came of each, in their order.
async fn at_once(store: &Arc<RedisStore>, asked: Vec<(Arc<Limit>, u64)>) -> Vec<Decision> {
    let mut tasks = JoinSet::new();
    for (nth, (limit, client)) in asked.into_iter().enumerate() {
        let store = store.clone();
        tasks.spawn(async move { (nth, store.decide(&[charge(&limit, client, 1)]).await) });
    }
    let mut all = tasks.join_all().await;
    all.sort_by_key(|(nth, _)| *nth);
    all.into_iter().map(|(_, decision)| decision).collect()
}

#[tokio::test]
async fn they_cost_one_call_and_each_counts() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect_exact(&server.url(), PATIENCE).await);
    for quota in every_algorithm(7, quiet_window()) {
        let seven = Arc::new(limit("seven", quota));
        // Once for the text, so that what follows is not its loading.
        at_once(&store, vec![(seven.clone(), 1_000); 2]).await;
        let before = calls(&store).await;
        let asked = (0..60).map(|nth| (seven.clone(), nth % 5)).collect();
        let decisions = at_once(&store, asked).await;
        assert_eq!(calls(&store).await - before, 1, "{}", quota.algorithm());
        for client in 0..5 {
            let own = decisions.iter().skip(client).step_by(5);
            let own: Vec<_> = own
                .map(|decision| (decision.outcome, decision.via))
                .collect();
            let expected = |nth| match nth < 7 {
                true => (Outcome::Admitted, Via::Store),
                false => (Outcome::Refused, Via::Store),
            };
            let expected: Vec<_> = (0..12).map(expected).collect();
            assert_eq!(own, expected, "{}, client {client}", quota.algorithm());
            // Each knows of those before it.
            let left = decisions.iter().skip(client).step_by(5);
            let left: Vec<_> = left.map(|one| one.verdicts[0].unwrap().remaining).collect();
            let expected = [6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0];
            assert_eq!(left, expected, "{}, client {client}", quota.algorithm());
        }
        // And what all have used stands there afterwards.
        let next = at_once(
            &store,
            (0..5).map(|client| (seven.clone(), client)).collect(),
        )
        .await;
        let refused = |one: &Decision| one.outcome == Outcome::Refused;
        assert!(next.iter().all(refused), "{}: {next:?}", quota.algorithm());
        assert_eq!(calls(&store).await - before, 2, "{}", quota.algorithm());
        let before = calls(&store).await;
        // More than one call may decide are several.
        let asked = (0..200).map(|nth| (seven.clone(), 2_000 + nth)).collect();
        let decisions = at_once(&store, asked).await;
        let admitted = |decision: &&Decision| decision.outcome == Outcome::Admitted;
        assert_eq!(decisions.iter().filter(admitted).count(), 200);
        assert_eq!(calls(&store).await - before, 4, "{}", quota.algorithm());
    }
}

#[tokio::test]
async fn what_blocks_is_blocked_by_the_first_that_is_too_many() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect_exact(&server.url(), PATIENCE).await);
    let quota = every_algorithm(3, quiet_window())[0];
    let extend = false;
    let span = 400 * DAY;
    let blocks = Arc::new(limit("blocks", quota).blocking(Block { span, extend }));
    at_once(&store, vec![(blocks.clone(), 1_000); 2]).await;
    let decisions = at_once(&store, vec![(blocks.clone(), 7); 9]).await;
    let told: Vec<_> = decisions
        .iter()
        .map(|one| (one.outcome, one.verdicts[0].unwrap().retry_after))
        .collect();
    let mut expected = vec![(Outcome::Admitted, 0); 3];
    expected.extend([(Outcome::Refused, span); 6]);
    assert_eq!(told, expected);
    let key = charge(&blocks, 7, 1).redis_key("tidegate");
    for key in [format!("{key}:block"), key] {
        let left = server.command(&["PTTL", &key]).await.as_int();
        assert!(left > 0, "{key}: {left}");
    }
}

/// Who comes while as many calls as may be are under way shares the next one, and whoever has left by then does not.
#[tokio::test]
async fn who_comes_while_calls_are_under_way_shares_the_next() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect_exact(&server.url(), PATIENCE).await);
    let many = Arc::new(limit("many", every_algorithm(60, quiet_window())[0]));
    // The texts, so that what follows is not their loading.
    at_once(&store, vec![(many.clone(), 1_000); 1]).await;
    at_once(&store, vec![(many.clone(), 1_000); 2]).await;
    let before = calls(&store).await;
    server.pause().await;
    let ask = || {
        let (store, many) = (store.clone(), many.clone());
        tokio::spawn(async move { store.decide(&[charge(&many, 1, 1)]).await })
    };
    let mut asked = Vec::new();
    for _ in 0..30 {
        asked.push(ask());
        // This test has one thread: whatever can go on has done so by then.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
    let leaves = asked.remove(10);
    leaves.abort();
    assert!(leaves.await.unwrap_err().is_cancelled());
    server.resume();
    let mut left = Vec::new();
    for one in asked {
        let decision = one.await.unwrap();
        assert_eq!(decision.outcome, Outcome::Admitted);
        left.push(decision.verdicts[0].unwrap().remaining);
    }
    left.sort_unstable();
    assert_eq!(left, (60 - 29..60).collect::<Vec<_>>());
    assert_eq!(calls(&store).await - before, 4 + 1);
}

/// Each has a deadline of its own, and charges nothing after it.
#[tokio::test]
async fn one_that_is_late_concerns_no_other() {
    let server = RedisServer::start().await;
    let [past, future] = ["1", "9007199254740991"];
    let deadlines = [future, past, future, past, future];
    let mut words = vec!["EVAL", MANY, "1", "key", "1", "5", "1", "10"];
    words.extend(deadlines);
    words.extend(["fixed_window", "1", "0", "0", "0", "2", "1000000000000"]);
    let reply = server.command(&words).await;
    let mut reply = reply.as_array().iter().map(Reply::as_int);
    let rows = deadlines.map(|_| {
        let length = reply.next().unwrap();
        let row: Vec<i64> = reply.by_ref().take(length as usize).collect();
        (row[1], row.get(3).copied())
    });
    // The time, what became of it, and of the limit what it says and what is left.
    let (late, refused) = ((-1, None), (0, Some(0)));
    let expected = [(1, Some(1)), late, (1, Some(0)), late, refused];
    assert_eq!(rows, expected);
}

#[tokio::test]
async fn one_that_fails_concerns_no_other() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect_exact(&server.url(), PATIENCE).await);
    let closed = Arc::new(Limit::new(
        "closed",
        every_algorithm(5, quiet_window())[0],
        OnFailure::Closed,
    ));
    let key = charge(&closed, 3, 1).redis_key("tidegate");
    server.command(&["RPUSH", &key, "1"]).await;
    let asked = (0..10).map(|client| (closed.clone(), client)).collect();
    for (client, decision) in at_once(&store, asked).await.iter().enumerate() {
        let error = error_of(decision);
        let told = (decision.outcome, error.as_ref().and_then(code_of));
        let expected = match client {
            3 => (Outcome::Unavailable, Some("WRONGTYPE")),
            _ => (Outcome::Admitted, None),
        };
        assert_eq!(told, expected, "client {client}");
    }
    // One whose client leaves before the call is made is not charged by it.
    let all = [charge(&closed, 50, 5)];
    tokio::select! {
        biased;
        decision = store.decide(&all) => panic!("{decision:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(store.decide(&all).await.outcome, Outcome::Admitted);
}

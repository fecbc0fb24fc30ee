//! Settlements that are lost on their way or refused, or whose answers are lost: each is sent again, and changes something once.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Quota;
use tidegate_store::{Holds, Limit, Mode, OnFailure, Outcome, Store};
use tidegate_testkit::{FaultProxy, RedisServer, Way};

use crate::support::{
    HOUR, MS, SECOND, calls, charge, connect_exact, every_algorithm, memory_store, quiet_window,
    redis_store, wait_for,
};

/// A Redis, a gateway whose way to it misbehaves on demand, and one whose way does not.
struct Bench {
    proxy: FaultProxy,
    behind: Store,
    beside: Store,
    server: RedisServer,
}

impl Bench {
    async fn start() -> Self {
        let server = RedisServer::start().await;
        let proxy = FaultProxy::start(server.addr());
        let url = format!("redis://{}", proxy.addr());
        let behind = connect_exact(&url, Duration::from_secs(5)).await;
        Self {
            proxy,
            behind: Store::Redis(Arc::new(behind)),
            beside: redis_store(&server).await,
            server,
        }
    }

    /// Sends settlements again until all are answered.
    async fn settle_all(&self) {
        wait_for("the answers", async || {
            self.behind.renew().await;
            (self.behind.unanswered_settlements().0 == 0).then_some(())
        })
        .await;
    }

    /// Allows or forbids commands, such as `-zrem`.
    async fn acl(&self, rule: &str) {
        let words = ["ACL", "SETUSER", "default", rule];
        assert!(!self.server.command(&words).await.is_error(), "{rule}");
    }

    /// Waits until so many settlements are known to have no answer.
    async fn unanswered(&self, count: usize) {
        wait_for("settlements without an answer", async || {
            (self.behind.unanswered_settlements().0 == count).then_some(())
        })
        .await;
    }
}

/// Commands that run beside a settlement.
const OF_NO_SCRIPT: [&str; 5] = ["info", "evalsha", "eval", "ping", "acl|setuser"];

/// A quota of every algorithm that reserves, under which nothing is paid off during a test.
fn reservable(most: u64) -> [Quota; 5] {
    let [_, _, fixed, log, counter, calendar, _] = every_algorithm(most, quiet_window());
    let [bucket, ..] = every_algorithm(most, 1_000_000 * SECOND);
    [bucket, fixed, log, counter, calendar]
}

fn reserving(quota: impl Into<Quota>, lease: u64) -> Arc<Limit> {
    let limit = Limit::new("it", quota, OnFailure::Closed);
    Arc::new(limit.reserving(lease))
}

/// A request that has reserved `cost`.
async fn reserve(store: &Store, limit: &Arc<Limit>, cost: u64) -> Holds {
    let asked = charge(limit, 1, cost);
    let decision = store.decide(&[asked]).await;
    assert_eq!(decision.outcome, Outcome::Admitted, "{limit:?}");
    let charged = [(limit, asked.key, cost)];
    store.holds(charged.into_iter(), &decision).unwrap()
}

async fn left(store: &Store, limit: &Limit) -> u64 {
    let outlooks = store.peek(&[charge(limit, 1, 1)]).await.unwrap();
    outlooks[0].verdict.remaining
}

/// Five good logins, while all connections to Redis are closed.
#[tokio::test]
async fn a_settlement_without_a_connection_is_sent_when_there_is_one() {
    let bench = Bench::start().await;
    for quota in reservable(5) {
        let limit = reserving(quota, 10 * SECOND);
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(reserve(&bench.behind, &limit, 1).await);
        }
        assert_eq!(left(&bench.beside, &limit).await, 0);
        bench.proxy.refuse().await;
        bench.proxy.cut();
        held.iter_mut().for_each(|held| held.settle(|_, _| 0));
        bench.unanswered(5).await;
        bench.proxy.accept();
        bench.settle_all().await;
        assert_eq!(left(&bench.beside, &limit).await, 5, "{limit:?}");
    }
}

/// The script runs, and its answer is lost with the connection. Beside it another request is under way, whose charge must
/// stay.
#[tokio::test]
async fn a_settlement_whose_answer_is_lost_changes_something_once() {
    let bench = Bench::start().await;
    for quota in reservable(50) {
        // Redis knows the script before its answers are held back.
        let limit = reserving(quota, 10 * SECOND);
        reserve(&bench.behind, &limit, 1).await.settle(|_, _| 0);
        bench.behind.let_go().await;
        for (cost, used, expected) in [(1, 0, 40), (5, 0, 40), (5, 3, 37), (5, 25, 15), (1, 1, 39)]
        {
            let what = format!("{quota:?}, {cost}, {used}");
            let limit = reserving(quota, 10 * SECOND);
            let mut other = reserve(&bench.behind, &limit, 10).await;
            let mut held = reserve(&bench.behind, &limit, cost).await;
            bench.proxy.stall(Way::ToClient, true);
            held.settle(|_, _| used);
            if used != cost {
                wait_for("the script", async || {
                    (left(&bench.beside, &limit).await == expected).then_some(())
                })
                .await;
            }
            bench.proxy.cut();
            bench.proxy.heal();
            bench.unanswered(1).await;
            bench.settle_all().await;
            assert_eq!(left(&bench.beside, &limit).await, expected, "{what}");
            other.settle(|_, _| 0);
            bench.behind.let_go().await;
            assert_eq!(left(&bench.beside, &limit).await, expected + 10, "{what}");
            bench.beside.reset(&[charge(&limit, 1, 1)]).await.unwrap();
        }
    }
}

/// The lease is over before Redis is back, and others have come meanwhile: what was reserved is charged, and nothing else.
#[tokio::test]
async fn a_hold_that_has_lapsed_is_charged_as_reserved() {
    let bench = Bench::start().await;
    for quota in reservable(20) {
        let limit = reserving(quota, 50 * MS);
        let mut given_back = reserve(&bench.behind, &limit, 1).await;
        let mut dear = reserve(&bench.behind, &limit, 2).await;
        bench.proxy.refuse().await;
        bench.proxy.cut();
        given_back.settle(|_, _| 0);
        dear.settle(|_, _| 8);
        bench.unanswered(2).await;
        wait_for("the end of the lease", async || {
            let asked = charge(&limit, 1, 20);
            let refused = bench.beside.decide(&[asked]).await;
            let verdict = refused.verdicts[0].unwrap();
            (!verdict.allowed && !verdict.settling).then_some(())
        })
        .await;
        drop(reserve(&bench.beside, &limit, 5).await);
        assert_eq!(left(&bench.beside, &limit).await, 12);
        bench.proxy.accept();
        bench.settle_all().await;
        assert_eq!(left(&bench.beside, &limit).await, 12, "{limit:?}");
    }
}

/// A gateway ends while Redis is away for a moment.
#[tokio::test]
async fn the_end_of_a_gateway_waits_for_its_settlements() {
    let bench = Bench::start().await;
    let limit = reserving(reservable(5)[1], 10 * SECOND);
    let mut held = reserve(&bench.behind, &limit, 3).await;
    bench.proxy.refuse().await;
    bench.proxy.cut();
    held.settle(|_, _| 0);
    bench.unanswered(1).await;
    let ending = tokio::spawn({
        let store = bench.behind.clone();
        async move { store.let_go().await }
    });
    tokio::task::yield_now().await;
    assert!(!ending.is_finished());
    bench.proxy.accept();
    ending.await.unwrap();
    assert_eq!(left(&bench.beside, &limit).await, 5);
}

/// Redis lacks one of the commands of the script for a moment, whichever that is.
#[tokio::test]
async fn a_settlement_that_lacks_a_command_takes_effect_once_it_is_there() {
    let bench = Bench::start().await;
    for quota in reservable(50) {
        for (cost, used) in [(1, 0), (5, 3), (5, 0), (5, 9)] {
            let limit = reserving(quota, 10 * SECOND);
            let key = charge(&limit, 1, 1).redis_key("tidegate");
            let held_key = format!("{key}:held");
            // Returns the commands that the settlement ran.
            let settle_without = async |command: Option<&str>| {
                let mut other = reserve(&bench.behind, &limit, 10).await;
                let mut held = reserve(&bench.behind, &limit, cost).await;
                other.settle(|_, reserved| reserved);
                wait_for("the other settlement", async || {
                    let words = ["ZCOUNT", &held_key, "1", "+inf"];
                    let members = bench.server.command(&words).await;
                    (members.as_int() == 1).then_some(())
                })
                .await;
                let before = calls(&bench.server).await;
                if let Some(command) = command {
                    bench.acl(&format!("-{command}")).await;
                    held.settle(|_, _| used);
                    bench.unanswered(1).await;
                    bench.behind.renew().await;
                    bench.acl(&format!("+{command}")).await;
                    bench.settle_all().await;
                } else {
                    held.settle(|_, _| used);
                }
                bench.behind.let_go().await;
                let after = calls(&bench.server).await.into_iter();
                let ran = after.filter(|(name, count)| before.get(name) != Some(count));
                let left = left(&bench.beside, &limit).await;
                assert_eq!(left, 40 - used, "{command:?}, {used} of {cost}: {limit:?}");
                bench.beside.reset(&[charge(&limit, 1, 1)]).await.unwrap();
                ran.map(|(name, _)| name).collect::<Vec<_>>()
            };
            let commands = settle_without(None).await;
            for command in commands
                .iter()
                .filter(|name| !OF_NO_SCRIPT.contains(&&***name))
            {
                // A log is written by several commands, which an error may part.
                if limit.quota().algorithm() != "sliding_window_log"
                    || !["rpush", "pexpire"].contains(&&**command)
                {
                    settle_without(Some(command)).await;
                }
            }
        }
    }
    assert_eq!(bench.behind.unanswered_settlements(), (0, 0));
}

/// Another program has written under the key: the cost cannot be charged, now or later.
#[tokio::test]
async fn a_settlement_that_is_given_up_is_counted() {
    let bench = Bench::start().await;
    for (nth, quota) in (1..).zip(reservable(5)) {
        let limit = reserving(quota, 10 * SECOND);
        let mut held = reserve(&bench.behind, &limit, 3).await;
        let key = charge(&limit, 1, 1).redis_key("tidegate");
        bench.server.command(&["DEL", &key]).await;
        bench.server.command(&["HSET", &key, "a", "1"]).await;
        held.settle(|_, _| 4);
        bench.behind.let_go().await;
        let counts = bench.behind.unanswered_settlements();
        assert_eq!(counts, (0, nth), "{limit:?}");
        // The hold lapses all the same.
        let words = ["PTTL", &format!("{key}:held")];
        let left = bench.server.command(&words).await.as_int();
        assert!(left > 0, "{left}: {limit:?}");
    }
}

/// What matters no more is not sent: the window is over.
#[tokio::test]
async fn a_settlement_that_matters_no_more_is_forgotten() {
    let bench = Bench::start().await;
    let limit = reserving(every_algorithm(5, SECOND / 2)[2], SECOND / 2);
    let mut held = reserve(&bench.behind, &limit, 1).await;
    bench.proxy.refuse().await;
    bench.proxy.cut();
    held.settle(|_, _| 0);
    wait_for("the end of the window", async || {
        bench.behind.renew().await;
        (bench.behind.unanswered_settlements() == (0, 0)).then_some(())
    })
    .await;
}

/// What was used is forgotten, and requests that run are charged at their end.
#[tokio::test]
async fn a_reset_forgets_nothing_that_runs() {
    let case = async |store: &Store, place: &str, mode: Mode| {
        for quota in reservable(20) {
            for used in [0, 3, 9] {
                let limit = Limit::new("it", quota, OnFailure::Local).in_mode(mode);
                let limit = Arc::new(limit.reserving(HOUR));
                let mut held = reserve(store, &limit, 3).await;
                store.reset(&[charge(&limit, 1, 1)]).await.unwrap();
                let mut later = reserve(store, &limit, 5).await;
                held.settle(|_, _| used);
                drop(held);
                later.settle(|_, reserved| reserved);
                drop(later);
                store.let_go().await;
                let decision = store.decide(&[charge(&limit, 1, 1)]).await;
                let remaining = decision.verdicts[0].unwrap().remaining;
                assert_eq!(remaining, 14 - used, "{place}, {used}: {limit:?}");
                store.reset(&[charge(&limit, 1, 1)]).await.unwrap();
            }
        }
    };
    case(&memory_store(), "memory", Mode::Exact).await;
    let server = RedisServer::start().await;
    let store = redis_store(&server).await;
    case(&store, "redis", Mode::Exact).await;
    case(&store, "local", Mode::Local).await;
}

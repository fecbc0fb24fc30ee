//! Leased limits as gateways see them: what is told to clients, what Redis is asked, and what comes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::FixedWindow;
use tidegate_store::{Charge, Decision, Limit, Mode, Outcome, RedisStore, Store, Via};
use tidegate_testkit::{RedisServer, Reply};
use tokio::task::JoinSet;

use crate::leases_fleet::calls;
use crate::support::{
    SECOND, charge, connect, connect_exact, error_of, lendable, limit, quiet_window, wait_for,
};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// A leased limit of every algorithm that can be: so much, which does not come back during a test.
pub(crate) fn leased(most: u64) -> [Limit; 4] {
    lendable(most, quiet_window()).map(|quota| limit("leased", quota).in_mode(Mode::Leased))
}

pub(crate) async fn decide(store: &RedisStore, charges: &[Charge<'_>]) -> Decision {
    let decision = store.decide(charges).await;
    assert_eq!(error_of(&decision), None);
    decision
}

/// How many of `requests` in a row are admitted.
pub(crate) async fn admitted(store: &RedisStore, charges: &[Charge<'_>], requests: u64) -> u64 {
    let mut admitted = 0;
    for _ in 0..requests {
        admitted += u64::from(decide(store, charges).await.outcome == Outcome::Admitted);
    }
    admitted
}

/// What is left by what Redis knows.
pub(crate) async fn left(store: &RedisStore, limit: &Limit, client: u64) -> u64 {
    let outlooks = store.peek(&[charge(limit, client, 1)]).await.unwrap();
    outlooks[0].verdict.remaining
}

/// Of how many keys something is out.
async fn slices(server: &RedisServer) -> usize {
    let keys = server.command(&["KEYS", "*:slices"]).await;
    let mut out = 0;
    for key in keys.as_array() {
        let slices = server.command(&["HVALS", key.as_str()]).await;
        let is_out = |slice: &Reply| slice.as_str().split(' ').nth(3) != Some("0");
        out += usize::from(slices.as_array().iter().any(is_out));
    }
    out
}

/// One request now and then costs one call and gets the answers of an exact limit.
#[tokio::test]
async fn a_cold_key_is_as_good_as_exact() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    for leased in &leased(5) {
        let exact = limit("exact", *leased.quota());
        decide(&store, &[charge(leased, 0, 1)]).await;
        for (client, cost) in [(1, 1), (2, 5), (3, 2)] {
            let before = calls(&server).await;
            let one = decide(&store, &[charge(leased, client, cost)]).await;
            assert_eq!(calls(&server).await, before + 1);
            let other = decide(&store, &[charge(&exact, client, cost)]).await;
            let (one, other) = (one.verdicts[0].unwrap(), other.verdicts[0].unwrap());
            assert_eq!((one.allowed, one.remaining), (true, 5 - cost));
            assert_eq!(
                (one.allowed, one.remaining),
                (other.allowed, other.remaining)
            );
            assert_eq!((one.retry_after, one.delay), (0, 0));
            assert!(one.reset.abs_diff(other.reset) < 20 * SECOND);
        }
    }
    assert_eq!(slices(&server).await, 0);
}

/// All of a limit, the right numbers, and then a refusal that is remembered.
#[tokio::test]
async fn a_hot_key_is_counted_down_to_nothing_by_few_calls() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    for leased in &leased(1_000) {
        let before = calls(&server).await;
        let mut remaining = 1_000;
        let mut here = 0;
        while remaining > 0 {
            let decision = decide(&store, &[charge(leased, 1, 1)]).await;
            remaining -= 1;
            let verdict = decision.verdicts[0].unwrap();
            assert_eq!((verdict.allowed, verdict.remaining), (true, remaining));
            assert!(verdict.reset > 0);
            here += u64::from(decision.via == Via::Here && decision.call.is_none());
        }
        let refused = decide(&store, &[charge(leased, 1, 1)]).await;
        let verdict = refused.verdicts[0].unwrap();
        assert_eq!((refused.outcome, verdict.remaining), (Outcome::Refused, 0));
        assert!(verdict.retry_after > 0 && verdict.reset >= verdict.retry_after);
        assert!(here > 900, "{here}");
        let calls = calls(&server).await - before;
        assert!(calls < 50, "{calls}");
    }
}

#[tokio::test]
async fn a_flood_of_refused_requests_costs_a_call_a_second() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let quota = FixedWindow::new(2, quiet_window()).unwrap();
    let leased = limit("leased", quota).in_mode(Mode::Leased);
    let charges = [charge(&leased, 1, 1)];
    while decide(&store, &charges).await.outcome == Outcome::Admitted {}
    let (before, started) = (calls(&server).await, Instant::now());
    let mut refused = 0;
    while started.elapsed() < Duration::from_millis(1_500) {
        let (one, other) = tokio::join!(decide(&store, &charges), decide(&store, &charges));
        for decision in [one, other] {
            assert_eq!(decision.outcome, Outcome::Refused);
            assert!(decision.verdicts[0].unwrap().retry_after > SECOND);
            refused += 1;
        }
    }
    let calls = calls(&server).await - before;
    let seconds = started.elapsed().as_secs() + 1;
    assert!(
        refused > 500 && calls <= seconds,
        "{calls} calls for {refused}"
    );
}

/// Requests that come at once do not each ask: one does, for all that wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_are_served_by_few_calls() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect(&server.url(), TIMEOUT).await);
    for leased in leased(500) {
        let before = calls(&server).await;
        let leased = Arc::new(leased);
        let requests = (0..600).map(|_| {
            let (store, leased) = (store.clone(), leased.clone());
            tokio::spawn(async move { admitted(&store, &[charge(&leased, 1, 1)], 1).await })
        });
        let mut admitted = 0;
        for request in requests.collect::<Vec<_>>() {
            admitted += request.await.unwrap();
        }
        assert_eq!(admitted, 500, "{}", leased.quota().algorithm());
        let calls = calls(&server).await - before;
        assert!(calls < 60, "{calls}");
    }
}

/// What another limit refuses goes back into the slice. What Redis charged already stays charged: one unit for each call.
#[tokio::test]
async fn what_is_refused_elsewhere_goes_back_into_the_slice() {
    let server = RedisServer::start().await;
    // One that asks again, and one that remembers refusals.
    let stores = [
        connect_exact(&server.url(), TIMEOUT).await,
        connect(&server.url(), TIMEOUT).await,
    ];
    for (client, store) in (0..).zip(&stores) {
        for leased in &leased(50) {
            let exact = limit("exact", FixedWindow::new(3, quiet_window()).unwrap());
            let both = [charge(leased, client, 1), charge(&exact, client, 1)];
            store.reset(&both).await.unwrap();
            let before = calls(&server).await;
            assert_eq!(admitted(store, &both, 30).await, 3);
            let refused = decide(store, &both).await;
            assert_eq!(refused.outcome, Outcome::Refused);
            let calls = calls(&server).await - before;
            let rest = left(store, leased, client).await;
            assert!(rest <= 47 && rest + calls >= 47, "{rest}, {calls} calls");
            assert_eq!(admitted(store, &both[..1], 60).await, rest);
        }
    }
}

/// Two leased limits and an exact one on a request: all of them, or none.
#[tokio::test]
async fn several_limits_are_one_decision() {
    let server = RedisServer::start().await;
    let (one, other) = (
        connect(&server.url(), TIMEOUT).await,
        connect(&server.url(), TIMEOUT).await,
    );
    let quota = |most| FixedWindow::new(most, quiet_window()).unwrap();
    let exact = limit("exact", quota(200));
    let small = limit("small", quota(60)).in_mode(Mode::Leased);
    for (client, large) in (0..).zip(&leased(150)) {
        let charges = [
            charge(large, client, 2),
            charge(&exact, client, 1),
            charge(&small, client, 1),
        ];
        let mut sum = 0;
        for _ in 0..60 {
            sum += admitted(&one, &charges, 1).await + admitted(&other, &charges, 1).await;
        }
        assert!((40..=60).contains(&sum), "{sum}");
        for store in [&one, &other] {
            store.close().await;
        }
        let of = async |limit| left(&one, limit, client).await;
        wait_for("what was not spent", async || {
            let all = (of(&exact).await, of(&small).await);
            (all == (200 - sum, 60 - sum)).then_some(())
        })
        .await;
        // A request that the small one refused stays charged if Redis decided it.
        let (rest, most) = (of(large).await, 150 - 2 * sum);
        assert!(rest <= most && rest + 10 >= most, "{rest} of {most}");
    }
}

/// A slice that is not used up is returned after a while, and at once by a gateway that ends.
#[tokio::test]
async fn what_is_not_spent_comes_back() {
    let server = RedisServer::start().await;
    let one = connect(&server.url(), TIMEOUT).await;
    let other = connect(&server.url(), TIMEOUT).await;
    for leased in &leased(100) {
        assert_eq!(admitted(&one, &[charge(leased, 1, 1)], 20).await, 20);
        assert_eq!(admitted(&one, &[charge(leased, 2, 1)], 20).await, 20);
        assert!(admitted(&other, &[charge(leased, 1, 1)], 100).await < 80);
    }
    assert_eq!(slices(&server).await, 8);
    // In the background.
    wait_for("all returned", async || {
        (slices(&server).await == 0).then_some(())
    })
    .await;
    for leased in &leased(100) {
        assert_eq!(left(&other, leased, 2).await, 80);
        assert_eq!(admitted(&one, &[charge(leased, 3, 1)], 20).await, 20);
    }
    // By one that ends.
    one.close().await;
    assert_eq!(slices(&server).await, 0);
    for leased in &leased(100) {
        assert_eq!(admitted(&other, &[charge(leased, 3, 1)], 100).await, 80);
    }
}

/// The gateway that resets gives the full limit at once; others, what they have not borrowed.
#[tokio::test]
async fn after_a_reset_all_begins_anew() {
    let server = RedisServer::start().await;
    let store = Store::Redis(Arc::new(connect(&server.url(), TIMEOUT).await));
    let other = connect(&server.url(), TIMEOUT).await;
    for leased in &leased(100) {
        let charges = [charge(leased, 1, 1)];
        for round in 0..2 {
            let mut admitted = 0;
            while store.decide(&charges).await.outcome == Outcome::Admitted {
                admitted += 1;
            }
            assert_eq!(admitted, 100, "round {round}");
            store.reset(&charges).await.unwrap();
            let outlook = store.peek(&charges).await.unwrap()[0];
            assert_eq!(outlook.verdict.remaining, 100);
        }
        // A reset never makes room for more than the limit, whatever is out elsewhere.
        let mut sum = admitted(&other, &charges, 20).await;
        assert_eq!(sum, 20);
        store.reset(&charges).await.unwrap();
        sum = 0;
        for _ in 0..100 {
            sum += admitted(&other, &charges, 1).await;
            sum += u64::from(store.decide(&charges).await.outcome == Outcome::Admitted);
        }
        assert!((60..=100).contains(&sum), "{sum}");
    }
}

#[tokio::test]
async fn changed_numbers_apply_at_once() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    for ((small, large), huge) in leased(30).iter().zip(&leased(100)).zip(&leased(200)) {
        for (client, limit, more) in [(1, small, 0), (2, huge, 150)] {
            assert_eq!(admitted(&store, &[charge(large, client, 1)], 50).await, 50);
            assert_eq!(
                admitted(&store, &[charge(limit, client, 1)], 200).await,
                more
            );
        }
    }
}

/// The other gateway has borrowed, and gets no requests any more when the refused request comes back.
#[tokio::test]
async fn a_refused_request_that_comes_back_alone_is_admitted() {
    let server = RedisServer::start().await;
    let one = Arc::new(connect(&server.url(), TIMEOUT).await);
    let other = Arc::new(connect(&server.url(), TIMEOUT).await);
    let mut keys = JoinSet::new();
    for most in [2, 5, 20, 100] {
        for (nth, quota) in lendable(most, SECOND).into_iter().enumerate() {
            let limit = limit(&format!("it-{most}-{nth}"), quota).in_mode(Mode::Leased);
            let (one, other) = (one.clone(), other.clone());
            keys.spawn(async move {
                for round in 0..4 {
                    let charges = [charge(&limit, 1, 1 + round % 2)];
                    while decide(&other, &charges).await.outcome == Outcome::Admitted {
                        decide(&one, &charges).await;
                    }
                    // The other's last call in the background has its answer.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    let refused = loop {
                        let decision = decide(&one, &charges).await;
                        if decision.outcome == Outcome::Refused {
                            break decision.verdicts[0].unwrap();
                        }
                    };
                    let wait = Duration::from_micros(refused.retry_after + 1);
                    tokio::time::sleep(wait).await;
                    let again = decide(&one, &charges).await;
                    let what = format!("{limit:?}, {round}: {refused:?}, {again:?}");
                    assert_eq!(again.outcome, Outcome::Admitted, "{what}");
                }
            });
        }
    }
    keys.join_all().await;
}

/// A bucket gets its units back one by one, and is left alone until there are enough for a call. The refused request gets that time.
#[tokio::test]
async fn a_refusal_of_a_bucket_holds_for_its_retry_after() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let [bucket, ..] = lendable(1_000, SECOND);
    let limit = limit("bucket", bucket).in_mode(Mode::Leased);
    for client in 0..10 {
        decide(&store, &[charge(&limit, client, 1_000)]).await;
        // These fit again after 20 ms.
        let charges = [charge(&limit, client, 20)];
        let refused = loop {
            let decision = decide(&store, &charges).await;
            if decision.outcome == Outcome::Refused {
                break decision.verdicts[0].unwrap();
            }
        };
        assert!(refused.retry_after >= SECOND / 32, "{refused:?}");
        tokio::time::sleep(Duration::from_micros(refused.retry_after + 1)).await;
        let again = decide(&store, &charges).await;
        assert_eq!(again.outcome, Outcome::Admitted, "{refused:?}, {again:?}");
    }
}

/// The limit is exact after a reload, which comes while slices are out and requests are under way.
#[tokio::test]
async fn a_limit_that_leaves_leased_counts_what_was_spent_of_slices() {
    let server = RedisServer::start().await;
    let one = connect_exact(&server.url(), TIMEOUT).await;
    let other = connect_exact(&server.url(), TIMEOUT).await;
    for leased in &leased(1_000) {
        let exact = leased.clone().in_mode(Mode::Exact);
        let old = [charge(leased, 1, 1)];
        for store in [&one, &other] {
            assert_eq!(admitted(store, &old, 100).await, 100);
        }
        assert_eq!(slices(&server).await, 1);
        for store in [&one, &other] {
            assert!(store.keep_leased(std::iter::once(&exact)).await);
        }
        assert_eq!(slices(&server).await, 0);
        assert_eq!(left(&one, &exact, 1).await, 800);
        // These began before the reload.
        assert_eq!(admitted(&one, &old, 100).await, 100);
        assert_eq!(
            (slices(&server).await, left(&one, &exact, 1).await),
            (0, 700)
        );
        let new = [charge(&exact, 1, 1)];
        let all = admitted(&one, &new, 400).await + admitted(&other, &new, 400).await;
        assert_eq!(all, 700, "{leased:?}");
        assert!(one.keep_leased(std::iter::once(leased)).await);
        assert_eq!(admitted(&one, &[charge(leased, 2, 1)], 100).await, 100);
        assert_eq!(slices(&server).await, 1, "it is leased again");
    }
    server.pause().await;
    assert!(
        !one.keep_leased(std::iter::empty()).await,
        "Redis is silent"
    );
    server.resume();
}

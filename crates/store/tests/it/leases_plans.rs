//! Clients of several plans on one key of a leased limit.

use tidegate_store::Limit;
use tidegate_testkit::RedisServer;

use crate::leases::{TIMEOUT, admitted, leased, left};
use crate::leases_fleet::calls;
use crate::support::{charge, connect, lendable, quiet_window, wait_for};

/// Each limit of so much, and the same for a plan that has more.
fn plans(most: u64, more: u64) -> impl Iterator<Item = [Limit; 2]> {
    let golden = lendable(more, quiet_window());
    let plain = leased(most).into_iter();
    plain.zip(golden).map(|(plain, gold)| {
        let gold = plain.with_quota(gold);
        [plain, gold]
    })
}

/// What one plan has spent counts for the other, also beyond its own limit: it is not cut to that when it is settled.
#[tokio::test]
async fn a_key_counts_what_both_plans_have_spent() {
    let server = RedisServer::start().await;
    for [plain, gold] in plans(20, 200) {
        let store = connect(&server.url(), TIMEOUT).await;
        let kind = plain.quota().algorithm();
        let (mut by_plain, mut by_gold) = (0, 0);
        for _ in 0..60 {
            by_gold += admitted(&store, &[charge(&gold, 1, 1)], 8).await;
            by_plain += admitted(&store, &[charge(&plain, 1, 1)], 1).await;
        }
        assert!(
            by_plain <= 20 && by_plain + by_gold <= 200,
            "{kind}: {by_plain}, {by_gold}"
        );
        // Whoever looks at one plan is told of what the other one has not settled yet.
        let used = by_plain + by_gold;
        wait_for("all that was spent", async || {
            (left(&store, &gold, 1).await == 200 - used).then_some(())
        })
        .await;
        store.close().await;
    }
}

/// Each plan has a slice of its own: it is not given up when another plan asks.
#[tokio::test]
async fn plans_that_take_turns_cost_few_calls() {
    let server = RedisServer::start().await;
    for [plain, gold] in plans(2_000, 4_000) {
        let store = connect(&server.url(), TIMEOUT).await;
        let before = calls(&server).await;
        let mut sum = 0;
        for _ in 0..500 {
            sum += admitted(&store, &[charge(&gold, 1, 1)], 1).await;
            sum += admitted(&store, &[charge(&plain, 1, 1)], 1).await;
        }
        assert_eq!(sum, 1_000);
        let calls = calls(&server).await - before;
        assert!(calls < 60, "{}: {calls}", plain.quota().algorithm());
        store.close().await;
    }
}

/// A plan that is used up floods: the other plan's slice is not returned for each of its refusals.
#[tokio::test]
async fn a_plan_that_is_refused_costs_the_other_one_few_calls() {
    let server = RedisServer::start().await;
    for [plain, gold] in plans(20, 4_000) {
        let store = connect(&server.url(), TIMEOUT).await;
        assert_eq!(admitted(&store, &[charge(&gold, 1, 1)], 200).await, 200);
        let (before, started) = (calls(&server).await, std::time::Instant::now());
        for _ in 0..500 {
            assert_eq!(admitted(&store, &[charge(&gold, 1, 1)], 1).await, 1);
            assert_eq!(admitted(&store, &[charge(&plain, 1, 1)], 2).await, 0);
        }
        let calls = calls(&server).await - before;
        let most = 30 + 10 * (started.elapsed().as_secs() + 1);
        assert!(calls < most, "{}: {calls}", plain.quota().algorithm());
        store.close().await;
    }
}

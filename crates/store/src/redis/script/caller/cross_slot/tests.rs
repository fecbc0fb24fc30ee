//! Late scripts that are sent again, and the order in which slots are charged.

use std::time::Duration;

use tidegate_core::{FixedWindow, LeakyBucket, Rate, SlidingWindowLog};
use tidegate_redis::Shards;
use tidegate_testkit::RedisServer;

use super::*;
use crate::redis::script;
use crate::{Key, Limit, OnFailure};

/// A clock that was believed to be far behind: a failover to another machine, or a clock that was set.
#[tokio::test]
async fn a_script_that_finds_itself_late_by_another_clock_is_sent_once_more_and_charges_once() {
    let server = RedisServer::start().await;
    let caller = caller(&server).await;
    let key = Key {
        tag: [1; 16],
        rest: [0; 16],
    };
    let limit = Limit::new(
        "it",
        SlidingWindowLog::new(3, 60_000_000_000).unwrap(),
        OnFailure::Closed,
    );
    let charges = [Charge {
        limit: &limit,
        key,
        cost: 1,
        origin: None,
    }];
    for left in [2, 1, 0] {
        let in_flight = &caller.shards.of(&key.tag).unwrap().in_flight;
        in_flight.saw(1_000_000, Instant::now());
        let until = Instant::now() + Duration::from_secs(5);
        let answer = caller.decide_at_once(&charges, until).await;
        let decision = answer.unwrap().unwrap().content;
        assert_eq!(decision.outcome, Outcome::Admitted);
        assert_eq!(decision.verdicts[0].unwrap().remaining, left);
    }
}

pub(in crate::redis) async fn caller(server: &RedisServer) -> Caller {
    let shards = Shards::start(&server.url(), None, Duration::from_secs(5), script::all()).unwrap();
    shards.tried().await;
    Caller::new(shards, "test")
}

#[test]
fn what_many_share_comes_first_and_a_queue_last() {
    let rate = Rate { count: 1, per: 1 };
    let own = Limit::new("own", FixedWindow::new(1, 1).unwrap(), OnFailure::Closed);
    let shared = Limit::new("shared", FixedWindow::new(1, 1).unwrap(), OnFailure::Closed).shared();
    let queue = Limit::new(
        "queue",
        LeakyBucket::new(1, rate).unwrap(),
        OnFailure::Closed,
    )
    .shared();
    let charge = |limit, tag| Charge {
        limit,
        key: Key {
            tag: [tag; 16],
            rest: [0; 16],
        },
        cost: 1,
        origin: None,
    };
    let charges = [
        charge(&queue, 1),
        charge(&own, 2),
        charge(&shared, 3),
        charge(&own, 2),
    ];
    let groups = grouped(&charges, Grouping::BySlot);
    let indices: Vec<&[usize]> = groups.iter().map(|group| &group.indices[..]).collect();
    assert_eq!(indices, [&[2][..], &[1, 3], &[0]]);
    assert_eq!(grouped(&charges, Grouping::ByKey).len(), 4);
}

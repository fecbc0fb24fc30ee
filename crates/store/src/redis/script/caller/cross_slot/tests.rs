//! Late scripts that are sent again.

use std::time::{Duration, Instant};

use tidegate_core::SlidingWindowLog;
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
        let wait = Wait::new(Duration::from_secs(5), None);
        let answer = caller.decide_at_once(&charges, wait).await;
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

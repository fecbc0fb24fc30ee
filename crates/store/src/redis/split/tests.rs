//! Giving back, in Lua and in Rust: what Redis did is replayed through the Rust algorithms, at the times that Redis
//! reports, and every number of the decisions in between must be equal.

use std::time::Duration;

use tidegate_core::{
    FixedWindow, LeakyBucket, Quota, Rate, SlidingWindowCounter, SlidingWindowLog, Slot,
    TokenBucket, decide,
};
use tidegate_testkit::RedisServer;

use super::*;
use crate::redis::url::Target;
use crate::{Limit, OnFailure, Subject};

/// Per algorithm.
const OPERATIONS: u64 = 1_500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lua_and_rust_give_back_the_same() {
    let server = RedisServer::start().await;
    let caller = caller(&server).await;
    let mut seed = 1;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for algorithm in 0..5 {
        // Windows of a few round trips, so that receipts are given back before, at and after their ends.
        let quotas = [(3, 2_000), (7, 5_000), (20, 40_000)]
            .map(|(most, window)| quota(algorithm, most, window));
        let limits = quotas.map(|quota| Limit::new("it", quota, OnFailure::Closed));
        let mut states = quotas.map(|quota| quota.fresh());
        let mut receipts: [Vec<(u64, u64)>; 3] = Default::default();
        let (mut admitted, mut given_back) = (0, 0);
        for _ in 0..OPERATIONS {
            let nth = random(3) as usize;
            let subject = Subject {
                tag: [nth as u8; 16],
                rest: [0; 16],
            };
            let cost = 1 + random(3);
            let charge = Charge {
                limit: &limits[nth],
                subject,
                cost,
            };
            let group = &grouped(&[charge], Split::BySlot)[0];
            let known = receipts[nth].len() as u64;
            if known > 0 && random(3) == 0 {
                // An older one is paid off in part, or long ended.
                let (receipt, cost) = receipts[nth].remove(random(known) as usize);
                let charge = Charge { cost, ..charge };
                let call = Call {
                    tag: subject.tag,
                    script: caller
                        .scripts
                        .of(Task::GiveBack, [charge.limit.quota()])
                        .index(),
                    keys: caller.keys(&group.charges),
                    arguments: arguments_with(&[charge], &[receipt]),
                };
                let now = u64::try_from(caller.give(&call).await.unwrap()[0]).unwrap();
                quotas[nth].give_back(&mut states[nth], cost, receipt, now);
                given_back += 1;
                continue;
            }
            let call = caller.call(Task::Decide, &group.charges);
            let until = Instant::now() + Duration::from_secs(5);
            let answer = caller.run(call, until).await.unwrap().content;
            let mut slots = [Slot {
                quota: &quotas[nth],
                state: states[nth].clone(),
                cost,
            }];
            let mut verdicts = [answer.verdicts[0].unwrap()];
            let allowed = decide(&mut slots, answer.now, &mut verdicts);
            assert_eq!(
                answer.verdicts[0],
                Some(verdicts[0]),
                "{:?} from {:?}",
                quotas[nth],
                states[nth]
            );
            let [slot] = slots;
            states[nth] = slot.state;
            if allowed {
                admitted += 1;
                receipts[nth].push((answer.now + verdicts[0].reset, cost));
                receipts[nth].drain(..receipts[nth].len().saturating_sub(8));
            }
        }
        eprintln!(
            "{}: {admitted} admitted, {given_back} given back",
            quotas[0].algorithm()
        );
        assert!(admitted > OPERATIONS / 10 && given_back > OPERATIONS / 20);
    }
}

/// A clock that was believed to be far behind: a failover to another machine, or a clock that was set.
#[tokio::test]
async fn a_script_that_finds_itself_late_by_another_clock_is_sent_once_more_and_charges_once() {
    let server = RedisServer::start().await;
    let caller = caller(&server).await;
    let subject = Subject {
        tag: [1; 16],
        rest: [0; 16],
    };
    let limit = Limit::new("it", quota(3, 3, 60_000_000_000), OnFailure::Closed);
    let charges = [Charge {
        limit: &limit,
        subject,
        cost: 1,
    }];
    for left in [2, 1, 0] {
        let guard = &caller.shards.of(&subject.tag).unwrap().guard;
        guard.saw(1_000_000, Instant::now());
        let until = Instant::now() + Duration::from_secs(5);
        let answer = caller.decide_at_once(&charges, until).await;
        let decision = answer.unwrap().unwrap().content;
        assert_eq!(decision.outcome, Outcome::Admitted);
        assert_eq!(decision.verdicts[0].unwrap().remaining, left);
    }
}

async fn caller(server: &RedisServer) -> Caller {
    let target = Target::parse(&server.url()).unwrap();
    let shards = Shards::start(target, None, Duration::from_secs(5));
    shards.tried().await;
    Caller {
        shards: Arc::new(shards),
        scripts: Arc::default(),
        key_prefix: "test".into(),
    }
}

fn quota(algorithm: usize, most: u64, window: Micros) -> Quota {
    let rate = Rate {
        count: most,
        per: window,
    };
    match algorithm {
        0 => TokenBucket::new(most, rate).unwrap().into(),
        1 => LeakyBucket::new(most, rate).unwrap().into(),
        2 => FixedWindow::new(most, window).unwrap().into(),
        3 => SlidingWindowLog::new(most, window).unwrap().into(),
        _ => SlidingWindowCounter::new(most, window).unwrap().into(),
    }
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
        subject: Subject {
            tag: [tag; 16],
            rest: [0; 16],
        },
        cost: 1,
    };
    let charges = [
        charge(&queue, 1),
        charge(&own, 2),
        charge(&shared, 3),
        charge(&own, 2),
    ];
    let groups = grouped(&charges, Split::BySlot);
    let places: Vec<&[usize]> = groups.iter().map(|group| &group.places[..]).collect();
    assert_eq!(places, [&[2][..], &[1, 3], &[0]]);
    assert_eq!(grouped(&charges, Split::ByKey).len(), 4);
}

//! A primary that is lost while sentinels watch over it: how long nobody has one, and what is admitted beyond a limit.

use std::time::{Duration, Instant};

use tidegate_testkit::{RedisSentinels, RedisServer};

use crate::rig::{self, Fault, LONG, Lane, Rig, seconds};

/// What each client has used up in half of the run.
const LIMIT: u64 = 120;
const LANES: [Lane; 2] = [Lane::Local, Lane::Closed];

async fn start(all: &RedisSentinels) -> Rig {
    let window = format!("fixed_window: {{ limit: {LIMIT}, window: 31d }}");
    let rig = Rig::start(1, &rig::store(&all.url(0)), &LANES, &window).await;
    rig.ready().await;
    rig
}

/// Under load, a primary is lost by what `breaks` does.
async fn lost(name: &str, all: &RedisSentinels, breaks: impl AsyncFnOnce(&RedisServer)) {
    let rig = start(all).await;
    let load = rig.load();
    seconds(5).await;
    let primary = all.primary().await;
    let broken = Instant::now();
    breaks(primary).await;
    while all.primary().await.port() == primary.port() {
        assert!(broken.elapsed() < LONG, "no other primary");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let named = Instant::now();
    // Until all clients have used up all of it.
    seconds(15).await;
    let shots = load.stop().await;
    let fault = Fault {
        broken,
        mended: named,
    };
    fault.tell(name, &rig, &shots);
    let without = rig.decided_without(&shots.only(|shot| shot.due >= broken));
    let last = without.0.iter().map(|shot| shot.answered() - broken).max();
    eprintln!(
        "  the sentinels named another after {:?}; the last answer without Redis came {last:?} after it began; Redis \
         answered with an error {} times",
        named - broken,
        rig.metric(0, "tidegate_store_errors_total{error=\"refused\"}")
            .await,
    );
    for lane in LANES {
        let beyond = rig.beyond(lane, LIMIT);
        eprintln!("  {lane}: at most {beyond} beyond the limit of {LIMIT} per key");
        assert!(beyond <= LIMIT, "{beyond}");
    }
    fault.recovers_within(&rig, &shots, LONG / 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn a_primary_is_killed() {
    let all = RedisSentinels::start().await;
    lost("sentinels, primary killed", &all, async |primary| {
        primary.stop()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn a_primary_is_killed_while_the_first_sentinel_hangs() {
    let all = RedisSentinels::start().await;
    lost(
        "sentinels, first hung, primary killed",
        &all,
        async |primary| {
            all.sentinel(0).pause().await;
            primary.stop();
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn a_primary_hangs() {
    let all = RedisSentinels::start().await;
    lost("sentinels, primary hung", &all, RedisServer::pause).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn a_primary_is_replaced_in_order() {
    let all = RedisSentinels::start().await;
    lost("SENTINEL FAILOVER", &all, async |_| all.fail_over().await).await;
}

/// By hand, and without closing its connections: a primary that takes no more writes is left at once, and found again
/// when it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn a_primary_is_demoted_by_hand() {
    let all = RedisSentinels::start().await;
    let rig = start(&all).await;
    let load = rig.load();
    seconds(3).await;
    let primary = all.primary().await;
    let other = all.server(1).port().to_string();
    let broken = Instant::now();
    let reply = primary.command(&["REPLICAOF", "127.0.0.1", &other]).await;
    assert!(!reply.is_error(), "{reply:?}");
    seconds(3).await;
    let reply = primary.command(&["REPLICAOF", "NO", "ONE"]).await;
    assert!(!reply.is_error(), "{reply:?}");
    let mended = Instant::now();
    seconds(3).await;
    let shots = load.stop().await;
    let fault = Fault { broken, mended };
    fault.tell("REPLICAOF by hand", &rig, &shots);
    let refused = rig
        .metric(0, "tidegate_store_errors_total{error=\"refused\"}")
        .await;
    eprintln!("  Redis answered with an error {refused} times");
    let left = fault.detected(&rig, &shots).unwrap();
    assert!(left < Duration::from_secs(1), "{left:?}");
    let still = fault.still_by_redis(&rig, &shots);
    assert_eq!(still, 0, "a second later it was left");
    fault.recovers_within(&rig, &shots, LONG / 12);
}

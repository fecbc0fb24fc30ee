//! A Redis that is not there: absent at the start, killed and back, restarted without its data.

use std::time::{Duration, Instant};

use tidegate_testkit::RedisServer;

use crate::rig::{self, Fault, LANES, LONG, Lane, Rig, seconds};

/// A bucket that the load of its clients overfills twice.
const BUCKET: &str = "token_bucket: { capacity: 8, refill: 4/s }";
const CAPACITY: f64 = 8.0;
const REFILL: f64 = 4.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn absent_at_the_start() {
    let redis = RedisServer::start().await;
    redis.stop();
    let url = rig::store(&redis.url());
    let started = Instant::now();
    let rig = Rig::start(1, &url, &LANES, BUCKET).await;
    let listens = started.elapsed();
    let broken = Instant::now();
    let load = rig.load();
    seconds(5).await;
    redis.restart().await;
    let mended = Instant::now();
    seconds(3).await;
    let shots = load.stop().await;
    let fault = Fault { broken, mended };
    fault.tell("absent at the start", &rig, &shots);
    let before = shots.during(broken..mended - Duration::from_millis(100));
    eprintln!("  listens after {listens:?}");
    assert_eq!(rig.decided_by_redis(&before).count(), 0);
    assert!(listens < Duration::from_secs(5));
    fault.recovers_within(&rig, &shots, LONG / 12);
}

/// Two gateways; what they admit in the outage is never more than the limit, and afterwards everybody has a new bucket once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn killed_and_back() {
    let redis = RedisServer::start().await;
    let url = rig::store(&redis.url());
    let rig = Rig::start(2, &url, &LANES, BUCKET).await;
    rig.ready().await;
    let load = rig.load();
    seconds(10).await;
    redis.stop();
    let broken = Instant::now();
    seconds(20).await;
    let reached = rig.upstream.count();
    redis.restart().await;
    let mended = Instant::now();
    seconds(10).await;
    let shots = load.stop().await;
    let fault = Fault { broken, mended };
    for lane in LANES {
        let of_lane = rig.of(lane, &shots);
        fault.tell(&format!("killed, {lane}"), &rig, &of_lane);
        if lane != Lane::Open {
            let beyond = rig.beyond_bucket(lane, CAPACITY, REFILL);
            eprintln!(
                "  at most {beyond:.1} beyond the limit of {} per key",
                CAPACITY
            );
            // A bucket that began anew; the rest is what requests waited between decision and upstream.
            assert!(beyond <= CAPACITY + 4.0, "{beyond}");
        }
    }
    assert!(reached > 1_000);
    let closed = rig.of(Lane::Closed, &shots);
    assert_eq!(
        fault.still_by_redis(&rig, &closed),
        0,
        "none reaches the upstream"
    );
    fault.recovers_within(&rig, &shots, LONG / 12);
}

/// All counts are lost at once: each key gets its limit once more, and no more than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn restarted_without_its_data() {
    const LIMIT: u64 = 30;
    let redis = RedisServer::start().await;
    let url = rig::store(&redis.url());
    let window = format!("fixed_window: {{ limit: {LIMIT}, window: 31d }}");
    let rig = Rig::start(1, &url, &LANES, &window).await;
    rig.ready().await;
    let load = rig.load();
    seconds(3).await;
    let broken = Instant::now();
    redis.restart().await;
    let mended = Instant::now();
    seconds(12).await;
    let shots = load.stop().await;
    let fault = Fault { broken, mended };
    fault.tell("restarted empty", &rig, &shots);
    for lane in LANES {
        let alone = rig.decided_without(&rig.of(lane, &shots)).with_status(200);
        let beyond = rig.beyond(lane, LIMIT);
        eprintln!(
            "  {lane}: at most {beyond} beyond the limit of {LIMIT} per key; {alone} of all clients' were seen to be \
             admitted without Redis"
        );
        assert!(lane == Lane::Open || beyond <= LIMIT, "{lane}: {beyond}");
    }
    fault.recovers_within(&rig, &shots, LONG / 12);
}

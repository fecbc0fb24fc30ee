//! A Redis that keeps its connections and does not answer, or not in time.

use std::time::{Duration, Instant};

use tidegate_testkit::{FaultProxy, RedisServer, Way};

use crate::rig::{Fault, LANES, LONG, Lane, Rig, seconds};

const LARGE: &str = "fixed_window: { limit: 1000000, window: 31d }";
/// What is decided in these lanes shows in the answer.
const SHOWN: [Lane; 2] = [Lane::Open, Lane::Closed];

/// What Redis has counted under a limit, of all clients.
pub(crate) async fn counted(redis: &RedisServer, lane: Lane) -> u64 {
    let mut connection = redis.connect().await;
    let pattern = format!("tidegate:*:{lane}:fixed_window*");
    let keys = connection.command(&["KEYS", &pattern]).await.unwrap();
    let mut sum = 0;
    for key in keys.as_array() {
        let state = connection.command(&["GET", key.as_str()]).await.unwrap();
        let (_, count) = state.as_str().split_once(' ').unwrap();
        sum += count.parse::<u64>().unwrap();
    }
    sum
}

/// Frozen for half a minute: what Redis finds in its sockets when it goes on is too late, and charges nothing.
async fn frozen(name: &str, quiet: bool) {
    let redis = RedisServer::start().await;
    let url = format!("url: \"{}\"", redis.url());
    let rig = Rig::start(1, &url, &LANES, LARGE).await;
    rig.ready().await;
    let load = rig.load();
    seconds(5).await;
    let mut before = None;
    let load = if quiet {
        before = Some(load.stop().await);
        redis.pause().await;
        seconds(5).await;
        rig.load()
    } else {
        redis.pause().await;
        load
    };
    let broken = Instant::now();
    let memory = rig.gateways[0].process.rss_kb();
    seconds(30).await;
    let grown = rig.gateways[0].process.rss_kb().saturating_sub(memory);
    redis.resume();
    let mended = Instant::now();
    seconds(5).await;
    let mut shots = load.stop().await;
    let fault = Fault { broken, mended };
    fault.tell(name, &rig, &shots);
    let first = shots.during(broken..broken + Duration::from_millis(200));
    if let Some(before) = &before {
        shots.0.extend_from_slice(&before.0);
    }
    let (mut late, mut unanswered) = (0, 0);
    for lane in SHOWN {
        let of_lane = rig.of(lane, &shots);
        let known = rig.decided_by_redis(&of_lane).count() as u64;
        late += counted(&redis, lane).await.saturating_sub(known);
        // Whose answer came too late for them, at any other time: Redis may have counted them in time.
        let alone = rig.decided_without(&of_lane);
        let well = alone.only(|shot| !(broken..mended).contains(&shot.due));
        unanswered += well.count() as u64;
    }
    eprintln!(
        "  in the first 200 ms: worst {:?}; {late} charged without an answer, of {unanswered} that were asked while Redis \
         was well; {grown} KiB more memory",
        first.worst()
    );
    assert!(late <= unanswered, "{} charged late", late - unanswered);
    assert!(grown < 20 * 1024, "{grown} KiB");
    fault.recovers_within(&rig, &shots, LONG / 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn frozen_under_load() {
    frozen("frozen", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn frozen_while_nobody_asked() {
    frozen("frozen while quiet", true).await;
}

/// A gateway whose way to Redis is a proxy.
async fn behind_a_proxy(redis: &RedisServer, timeout: &str) -> (FaultProxy, Rig) {
    let proxy = FaultProxy::start(redis.addr());
    let store = format!("url: \"redis://{}\", timeout: {timeout}", proxy.addr());
    let rig = Rig::start(1, &store, &LANES, LARGE).await;
    rig.ready().await;
    (proxy, rig)
}

/// How many decisions waited for Redis in vain.
async fn timeouts(rig: &Rig) -> f64 {
    rig.metric(0, "tidegate_store_errors_total{error=\"timeout\"}")
        .await
}

/// Breaks something for a while, under load; `alone` says whether nobody is then decided by Redis.
async fn broken_for_a_while(
    name: &str,
    rig: &Rig,
    alone: bool,
    breaks: impl FnOnce(),
    mends: impl FnOnce(),
) {
    const WHILE: u64 = 15;
    let load = rig.load();
    seconds(3).await;
    let (changes, memory) = (rig.changes(), rig.gateways[0].process.rss_kb());
    let waited = timeouts(rig).await;
    breaks();
    let broken = Instant::now();
    seconds(WHILE).await;
    let waited = timeouts(rig).await - waited;
    let changes = rig.changes() - changes;
    let grown = rig.gateways[0].process.rss_kb().saturating_sub(memory);
    mends();
    let mended = Instant::now();
    seconds(5).await;
    let shots = load.stop().await;
    let fault = Fault { broken, mended };
    fault.tell(name, rig, &shots);
    eprintln!(
        "  {waited} waited in vain; {changes} changes of who decides; {grown} KiB more memory"
    );
    let settled = fault.settled(&shots);
    let by_redis = fault.still_by_redis(rig, &shots);
    if alone {
        assert_eq!(by_redis, 0, "of {}", settled.count());
        assert!(changes as u64 <= 2 * WHILE.div_ceil(10), "{changes}");
    } else {
        // What a busy machine adds to the way may be too much for a few.
        let without = rig.decided_without(&settled).count();
        assert!(by_redis > 19 * without, "{by_redis}, {without}");
    }
    assert!(grown < 20 * 1024, "{grown} KiB");
    fault.recovers_within(rig, &shots, LONG / 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn slow() {
    let redis = RedisServer::start().await;
    for (delay, alone) in [(20, false), (200, true), (2_000, true)] {
        let (proxy, rig) = behind_a_proxy(&redis, "50ms").await;
        let name = format!("{delay} ms slower");
        let breaks = || proxy.delay(Way::ToClient, Duration::from_millis(delay));
        broken_for_a_while(&name, &rig, alone, breaks, || proxy.heal()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn stalled_in_one_direction_or_dripping() {
    let redis = RedisServer::start().await;
    for way in Way::BOTH {
        let (proxy, rig) = behind_a_proxy(&redis, "25ms").await;
        let name = format!("stalled, {way:?}");
        broken_for_a_while(
            &name,
            &rig,
            true,
            || proxy.stall(way, true),
            || proxy.heal(),
        )
        .await;
    }
    let (proxy, rig) = behind_a_proxy(&redis, "25ms").await;
    let breaks = || {
        for way in Way::BOTH {
            proxy.drip(way, Some(Duration::from_millis(100)));
        }
    };
    broken_for_a_while("a byte every 100 ms", &rig, true, breaks, || proxy.heal()).await;
}

/// A connection that died without a word, where a new one is well at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn dead_without_a_word() {
    let redis = RedisServer::start().await;
    let (proxy, rig) = behind_a_proxy(&redis, "25ms").await;
    let load = rig.load();
    seconds(3).await;
    proxy.strand();
    let broken = Instant::now();
    // The breaker lets one ask every 100 ms, so the first of Redis's answers is the new connection's.
    let mended = broken + Duration::from_millis(100);
    seconds(6).await;
    let shots = load.stop().await;
    let fault = Fault { broken, mended };
    fault.tell("a connection dead without a word", &rig, &shots);
    fault.recovers_within(&rig, &shots, LONG / 12);
}

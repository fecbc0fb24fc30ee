//! Connections that break again and again, and many gateways that lose theirs at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_testkit::{Client, FaultProxy, RedisServer};
use tokio::task::JoinSet;

use crate::rig::{self, Fault, LANES, LONG, Lane, Rig, info, seconds};

const LARGE: &str = "fixed_window: { limit: 1000000, window: 31d }";

/// Redis closes every connection twenty times a second. What it decided it has counted once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn killed_again_and_again() {
    let redis = RedisServer::start().await;
    let url = rig::store(&redis.url());
    let rig = Rig::start(1, &url, &[Lane::Open], LARGE).await;
    rig.ready().await;
    let load = rig.load();
    seconds(2).await;
    let mut killer = redis.connect().await;
    let broken = Instant::now();
    let mut every = tokio::time::interval(Duration::from_millis(50));
    let mut killed = 0;
    while broken.elapsed() < Duration::from_secs(20) {
        every.tick().await;
        let reply = killer.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        killed += reply.unwrap().as_int();
    }
    let mended = Instant::now();
    seconds(3).await;
    let shots = load.stop().await;
    let fault = Fault { broken, mended };
    fault.tell("connections killed every 50 ms", &rig, &shots);
    let known = rig.decided_by_redis(&shots).count() as u64;
    let counted = crate::hung::counted(&redis, Lane::Open).await;
    let connects = info(&redis, "stats", "total_connections_received:").await;
    let settled = fault.settled(&shots);
    let share = 100 * rig.decided_by_redis(&settled).count() / settled.count();
    eprintln!(
        "  {killed} killed, {connects} connections made; Redis decided {share} of a hundred; {known} answered by Redis, \
         {} more charged whose answer was lost",
        counted - known,
    );
    assert!(counted >= known);
    // What was in flight at a kill, and a script that was sent twice would be more.
    assert!(counted - known <= 10 * killed as u64, "{counted}, {known}");
    fault.recovers_within(&rig, &shots, LONG / 12);
}

/// Twenty gateways, and a Redis that is away for a while: they come back soon, and not in a rush.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn twenty_gateways_come_back() {
    const GATEWAYS: usize = 20;
    const WINDOW: Duration = Duration::from_millis(100);
    let redis = RedisServer::start().await;
    let proxy = Arc::new(FaultProxy::start(redis.addr()));
    let url = format!("url: \"redis://{}\", timeout: 1s", proxy.addr());
    let rig = Rig::start(GATEWAYS, &url, &LANES, LARGE).await;
    rig.ready().await;
    redis.stop();
    // A server that is away shows to the proxy's guests as one that resets them.
    let watching = tokio::spawn(connects(proxy.clone(), Duration::from_secs(8)));
    seconds(5).await;
    redis.restart().await;
    let mended = Instant::now();
    let mut waiting = JoinSet::new();
    for gateway in &rig.gateways {
        let admin = gateway.admin;
        waiting.spawn(async move {
            while Client::fresh(admin).get("/readyz").await.status != 200 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            mended.elapsed()
        });
    }
    let back = waiting.join_all().await;
    let timeline = watching.await.unwrap();
    let most = |window: Duration| {
        let starts = timeline.iter().map(|(at, before)| {
            let in_window = timeline
                .iter()
                .filter(|(then, _)| (*at..*at + window).contains(then));
            in_window.map(|(_, count)| count - before).max().unwrap()
        });
        starts.max().unwrap()
    };
    eprintln!(
        "{GATEWAYS} gateways: back after {:?} to {:?}; at most {} attempts to connect in {WINDOW:?}, and {} in a second",
        back.iter().min().unwrap(),
        back.iter().max().unwrap(),
        most(WINDOW),
        most(Duration::from_secs(1)),
    );
    assert!(back.iter().all(|took| *took < LONG / 6), "{back:?}");
    // Each waits for that long between two; twice as many is for a busy machine, which sees them late and together.
    assert!(most(WINDOW) <= 2 * GATEWAYS);
}

/// How many connections there were, ever, and when.
async fn connects(proxy: Arc<FaultProxy>, long: Duration) -> Vec<(Instant, usize)> {
    let began = Instant::now();
    let mut seen = Vec::new();
    while began.elapsed() < long {
        seen.push((Instant::now(), proxy.connections()));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    seen
}

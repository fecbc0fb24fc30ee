//! A Redis that answers, and not with decisions: it is loading its data, or busy with somebody else's script.

use std::time::{Duration, Instant};

use tidegate_testkit::RedisServer;

use crate::rig::{self, Fault, LANES, LONG, Rig, info, seconds};

const LARGE: &str = "fixed_window: { limit: 1000000, window: 31d }";

/// Killed, and back with so much data that it takes seconds to load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn loading() {
    // A millisecond per key, and a look at what clients want every few keys.
    let slowly = [
        "--key-load-delay",
        "1000",
        "--loading-process-events-interval-bytes",
        "1024",
    ];
    let redis = RedisServer::start_with(&slowly).await;
    let script = "for i = 1, 4000 do redis.call('SET', 'other:' .. i, i) end";
    assert!(!redis.command(&["EVAL", script, "0"]).await.is_error());
    assert!(!redis.command(&["SAVE"]).await.is_error());
    let url = rig::store(&redis.url());
    let rig = Rig::start(1, &url, &LANES, LARGE).await;
    rig.ready().await;
    let load = rig.load();
    seconds(3).await;
    let broken = Instant::now();
    redis.restart().await;
    let mended = Instant::now();
    let loading = mended - broken;
    let connects = info(&redis, "stats", "total_connections_received:").await;
    seconds(4).await;
    let shots = load.stop().await;
    let fault = Fault { broken, mended };
    fault.tell("loading", &rig, &shots);
    eprintln!(
        "  loaded for {loading:?}; {connects} connections, with those of the test that waited for it"
    );
    assert!(loading > Duration::from_secs(3), "{loading:?}");
    assert_eq!(fault.still_by_redis(&rig, &shots), 0);
    fault.recovers_within(&rig, &shots, LONG / 12);
}

/// Another client's script that does not end: Redis says BUSY to all others, and nobody connects again for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn busy() {
    let redis = RedisServer::start_with(&["--busy-reply-threshold", "100"]).await;
    let url = rig::store(&redis.url());
    let rig = Rig::start(1, &url, &LANES, LARGE).await;
    rig.ready().await;
    let load = rig.load();
    seconds(3).await;
    let mut killer = redis.connect().await;
    let mut other = redis.connect().await;
    let connects = info(&redis, "stats", "total_connections_received:").await;
    let broken = Instant::now();
    let busy =
        tokio::spawn(async move { other.command(&["EVAL", "while true do end", "0"]).await });
    seconds(9).await;
    let killed = killer.command(&["SCRIPT", "KILL"]).await.unwrap();
    let mended = Instant::now();
    assert!(!killed.is_error(), "{killed:?}");
    assert!(busy.await.unwrap().unwrap().is_error());
    seconds(3).await;
    // One is the question itself.
    let more = info(&redis, "stats", "total_connections_received:").await - connects - 1;
    let shots = load.stop().await;
    let fault = Fault { broken, mended };
    fault.tell("busy", &rig, &shots);
    eprintln!("  {more} connections made");
    assert!(more <= 5, "{more} connections");
    assert_eq!(fault.still_by_redis(&rig, &shots), 0);
    fault.recovers_within(&rig, &shots, LONG / 12);
}

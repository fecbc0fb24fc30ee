//! Redis killed and frozen under a thousand requests a second: nobody gets an error, nothing is charged late. The times
//! are printed, and not judged: they are this machine's.

use std::time::{Duration, Instant};

use tidegate_testkit::{Client, RedisServer};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::kit::{Bench, LONG, number, tells_of_limits};

/// Clients, each of which asks every so often: a thousand requests a second together.
const CLIENTS: usize = 20;
const EVERY: Duration = Duration::from_millis(20);

/// How long Redis works, before and after.
const WELL: Duration = Duration::from_secs(1);

const QUOTA: u64 = 1_000_000;

/// One answer.
#[derive(Clone, Copy, Debug)]
struct Sample {
    asked: Instant,
    took: Duration,
    status: u16,
    /// Whether Redis decided: what is let through under `open` tells of no limit.
    by_redis: bool,
}

async fn bench(redis: &RedisServer, on_failure: &str) -> Bench {
    let url = redis.url();
    Bench::start(&format!(
        "
store: {{ redis: {{ url: \"{url}\", timeout: 250ms, on_failure: {on_failure} }} }}
limits:
  it: {{ fixed_window: {{ limit: {QUOTA}, window: 31d }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [it] }}
"
    ))
    .await
}

/// Asks until it is told to stop.
fn load(bench: &Bench) -> (watch::Sender<bool>, JoinSet<Vec<Sample>>) {
    let (stop, stopped) = watch::channel(false);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let client = Client::new(bench.gateway.address);
        let stopped = stopped.clone();
        clients.spawn(async move {
            let mut samples = Vec::new();
            let mut every = tokio::time::interval(EVERY);
            while !*stopped.borrow() {
                every.tick().await;
                let asked = Instant::now();
                let answer = client.get("/").await;
                samples.push(Sample {
                    asked,
                    took: asked.elapsed(),
                    status: answer.status.as_u16(),
                    by_redis: tells_of_limits(&answer),
                });
            }
            samples
        });
    }
    (stop, clients)
}

async fn samples(stop: &watch::Sender<bool>, clients: JoinSet<Vec<Sample>>) -> Vec<Sample> {
    stop.send(true).unwrap();
    let mut samples: Vec<Sample> = clients.join_all().await.concat();
    samples.sort_by_key(|sample| sample.asked);
    samples
}

/// Waits until Redis decides again; says since when.
async fn decided_again(bench: &Bench, since: Instant) -> Duration {
    loop {
        if tells_of_limits(&bench.client.get("/").await) {
            return since.elapsed();
        }
        assert!(since.elapsed() < LONG, "Redis never decides again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn longest(samples: &[Sample], during: impl Fn(Instant) -> bool) -> Duration {
    let during = samples.iter().filter(|sample| during(sample.asked));
    during.map(|sample| sample.took).max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_is_no_error_to_anyone() {
    for on_failure in ["local", "open"] {
        let redis = RedisServer::start().await;
        let bench = bench(&redis, on_failure).await;
        let (stop, clients) = load(&bench);
        tokio::time::sleep(WELL).await;
        let killed = Instant::now();
        redis.stop();
        tokio::time::sleep(2 * WELL).await;
        redis.restart().await;
        let back = Instant::now();
        let recovered = decided_again(&bench, back).await;
        tokio::time::sleep(WELL).await;
        let samples = samples(&stop, clients).await;

        let errors = samples.iter().filter(|sample| sample.status != 200).count();
        assert_eq!(errors, 0, "of {}", samples.len());
        assert!(bench.upstream.count() > samples.len(), "all were forwarded");
        let outage = |at: Instant| (killed..back).contains(&at);
        let alone = samples
            .iter()
            .find(|sample| outage(sample.asked) && !sample.by_redis);
        let detected = alone.map(|sample| sample.asked + sample.took - killed);
        eprintln!(
            "{on_failure}: {} requests, no error; longest answer {:?}, and {:?} while Redis was down; first decided \
             without it after {detected:?} (by its headers, under `open` only); decides again {recovered:?} after it \
             was back",
            samples.len(),
            longest(&samples, |at| !outage(at)),
            longest(&samples, outage),
        );
        bench.stop().await;
    }
}

/// What Redis finds in its socket when it goes on is too late, and charges nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_charges_nothing_late() {
    let redis = RedisServer::start().await;
    let bench = bench(&redis, "open").await;
    let (stop, clients) = load(&bench);
    tokio::time::sleep(WELL).await;
    redis.pause().await;
    let frozen = Instant::now();
    tokio::time::sleep(Duration::from_secs(10)).await;
    redis.resume();
    let back = Instant::now();
    let mut asked = 0;
    // Asks under way at the freeze may have been counted without an answer that came in time.
    let recovered = loop {
        asked += 1;
        if tells_of_limits(&bench.client.get("/").await) {
            break back.elapsed();
        }
        assert!(back.elapsed() < LONG, "Redis never decides again");
    };
    let samples = samples(&stop, clients).await;
    assert!(samples.iter().all(|sample| sample.status == 200));
    let known = samples.iter().filter(|sample| sample.by_redis).count() as u64 + 1;
    let last = bench.client.get("/").await;
    let counted = QUOTA - number(&last, "x-ratelimit-remaining").unwrap() - 1;
    let during = |at: Instant| (frozen..back).contains(&at);
    let alone = samples
        .iter()
        .filter(|sample| during(sample.asked) && !sample.by_redis)
        .count();
    eprintln!(
        "{} requests, {alone} of them while Redis was frozen; {counted} counted, {known} answered by Redis; longest \
         answer {:?}; decides again after {recovered:?} and {asked} requests",
        samples.len(),
        longest(&samples, |_| true),
    );
    assert!(alone > 1_000, "{alone}");
    assert!(counted >= known);
    assert!(
        counted - known <= CLIENTS as u64,
        "{} were charged late",
        counted - known
    );
}

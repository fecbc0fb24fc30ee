//! Leaky buckets as queues: what is admitted waits for its turn, and whoever leaves leaves a gap rather than a crowd.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_testkit::{RedisServer, Upstream};

use crate::kit::{
    Bench, ask, exact, left, number, on_both_stores, sample, shown, told, until, waiting,
};
use crate::support::GatewayProcess;

/// Starts requests one after the other, each once the one before is decided: it waits, or has arrived.
async fn in_order(
    bench: &Bench,
    count: u64,
) -> Vec<tokio::task::JoinHandle<tidegate_testkit::Answer>> {
    let mut asking = Vec::new();
    for nth in 0..count {
        asking.push(ask(bench.gateway.address, format!("/{nth}")));
        until("it is decided", async || {
            let waiting = sample(bench.gateway.admin, "tidegate_waiting_requests").await;
            waiting + bench.upstream.count() as u64 > nth
        })
        .await;
    }
    asking
}

#[tokio::test]
async fn releases_follow_each_other_at_the_drain_rate_in_order() {
    const GAP: Duration = Duration::from_millis(50);
    on_both_stores(async |store| {
        let bench = Bench::of_limit(store, "leaky_bucket: { queue: 10, drain: 20/s }").await;
        let began = Instant::now();
        for (nth, answer) in in_order(&bench, 8).await.into_iter().enumerate() {
            let answer = answer.await.unwrap();
            let is_told = number(&answer, "x-ratelimit-limit") == Some(10);
            assert!(answer.status == 200 && is_told, "{nth}: {answer:?}");
        }
        let arrived = bench.upstream.requests();
        assert_eq!(arrived.len(), 8);
        // A busy machine is late, and may pass one request by another; nobody is ever before its own turn.
        for arrival in &arrived {
            let nth: u32 = arrival.target[1..].parse().unwrap();
            let at = arrival.at - began;
            assert!(at >= GAP * nth, "{nth} arrived after {at:?}");
        }
        bench.stop().await;
    })
    .await;
}

/// One goes, two wait for an hour each.
#[tokio::test]
async fn who_leaves_the_queue_keeps_its_turn_used() {
    on_both_stores(async |store| {
        let bench = Bench::of_limit(store, "leaky_bucket: { queue: 3, drain: 1/h }").await;
        let admin = bench.gateway.admin;
        let asking = in_order(&bench, 3).await;
        assert_eq!(told(&bench.client.get("/full").await), shown(429, 3, 0));
        assert_eq!(left(admin).await, 0);
        for (nth, leaves) in (0..).zip(&asking[1..]) {
            leaves.abort();
            waiting(admin, 1 - nth).await;
        }
        assert_eq!(left(admin).await, 0);
        assert_eq!(told(&bench.client.get("/full").await).0, 429);
        assert_eq!(bench.upstream.count(), 1);
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn with_nodelay_all_that_fits_goes_at_once() {
    on_both_stores(async |store| {
        let limit = "leaky_bucket: { queue: 3, drain: 1/h, nodelay: true }";
        let bench = Bench::of_limit(store, limit).await;
        for status in [200, 200, 200, 429] {
            assert_eq!(bench.client.get("/").await.status, status);
        }
        bench.stop().await;
    })
    .await;
}

/// How long this machine holds processes up: so late may anything be that was in time.
struct HeldUp {
    ends: Arc<AtomicBool>,
    longest: std::thread::JoinHandle<Duration>,
}

impl HeldUp {
    fn watch() -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let seen = ends.clone();
        let longest = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !seen.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(Duration::from_millis(1));
                longest = longest.max(began.elapsed());
            }
            longest
        });
        Self { ends, longest }
    }

    fn longest(self) -> Duration {
        self.ends.store(true, Ordering::Relaxed);
        self.longest.join().unwrap()
    }
}

/// What the upstream sees of a burst at four gateways on one Redis. Every tenth client leaves once all are decided, and some
/// more come then.
async fn burst(size: usize) {
    const GATEWAYS: usize = 4;
    const GAP: Duration = Duration::from_millis(10);
    let (redis, upstream) = (RedisServer::start().await, Upstream::ok());
    let yaml = format!(
        "
{}
secret: the same for all
limits:
  paced: {{ leaky_bucket: {{ queue: 1000, drain: 100/s }}, per: [] }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [paced] }}
",
        exact(&redis),
        upstream.url()
    );
    let mut gateways = Vec::new();
    for _ in 0..GATEWAYS {
        gateways.push(GatewayProcess::start(&yaml).await);
    }
    let held_up = HeldUp::watch();
    let began = Instant::now();
    let (each, more) = (size / GATEWAYS, size / GATEWAYS / 5);
    let send = async |which: usize| {
        let GatewayProcess { address, admin, .. } = gateways[which];
        let here = format!("/{which}/");
        let mut asking = Vec::new();
        for nth in 0..each {
            asking.push(ask(address, format!("/{which}/{nth}")));
            until("it is decided", async || {
                let waiting = sample(admin, "tidegate_waiting_requests").await;
                let arrived = upstream.requests();
                let arrived = arrived.iter().filter(|it| it.target.starts_with(&here));
                waiting as usize + arrived.count() > nth
            })
            .await;
        }
        for leaver in asking.iter().skip(9).step_by(10) {
            leaver.abort();
        }
        let more = (each..each + more).map(|nth| ask(address, format!("/{which}/{nth}")));
        asking.extend(more);
        asking
    };
    let asking = tokio::join!(send(0), send(1), send(2), send(3));
    let mut answered = 0;
    for request in [asking.0, asking.1, asking.2, asking.3]
        .into_iter()
        .flatten()
    {
        if let Ok(answer) = request.await {
            assert_eq!(answer.status, 200);
            answered += 1;
        }
    }
    // Whoever was released before it could leave was answered, or not.
    assert!(
        answered >= size * 9 / 10 + more * GATEWAYS,
        "{answered} of {size}"
    );

    let arrived = upstream.requests();
    let at: Vec<Duration> = arrived.iter().map(|arrival| arrival.at - began).collect();
    let mut gaps: Vec<Duration> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let part = |part: usize| gaps[(gaps.len() - 1) * part / 100];
    eprintln!(
        "{} of {size} arrived within {:?}; gaps: least {:?}, tenth {:?}, median {:?}, nine tenths {:?}, most {:?}",
        arrived.len(),
        at[at.len() - 1],
        part(0),
        part(10),
        part(50),
        part(90),
        part(100)
    );
    // In the worst span: how many more went than the rate allows in it.
    let mut worst: f64 = 0.0;
    for (first, start) in at.iter().enumerate() {
        for (last, end) in at.iter().enumerate().skip(first) {
            let allowed = (*end - *start).as_secs_f64() / GAP.as_secs_f64();
            worst = worst.max((last - first) as f64 - allowed);
        }
    }
    eprintln!("at most {worst:.2} more in any span than the rate allows");
    // Turns begin with the first; late is a busy machine, early is nobody.
    for (nth, at) in (0..).zip(&at) {
        assert!(*at >= GAP * nth, "number {nth} arrived after {at:?}");
    }
    // So many of its own gateway were decided before it. Those who came later were not told apart.
    for (arrival, at) in arrived.iter().zip(&at) {
        let nth: u32 = arrival.target[3..].parse().unwrap();
        let target = &arrival.target;
        assert!(
            nth as usize >= each || *at >= GAP * nth,
            "{target} arrived after {at:?}"
        );
    }
    let late = held_up.longest();
    eprintln!("a sleep of 1 ms took up to {late:?}");
    for gateway in &gateways {
        waiting(gateway.admin, 0).await;
    }
    if size >= 500 {
        let late = late.as_secs_f64() / GAP.as_secs_f64();
        assert!(worst <= 2.0 + late, "{worst} more than the rate allows");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_gateways_release_at_one_rate() {
    burst(100).await;
}

/// `cargo test -p tidegate --test it -- --ignored --nocapture a_large_burst`, on a machine that does little else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes seconds, and measures gaps, which a busy machine widens"]
async fn a_large_burst_at_four_gateways() {
    burst(500).await;
}

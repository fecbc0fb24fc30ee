//! H1 to H8 with a good client beside: what they cost it, and the gateway. The numbers are those of a release build:
//! `TIDEGATE_BINARY=target/dist/tidegate cargo test -p tidegate --test edge figures -- --ignored --nocapture --test-threads 1`

#![expect(clippy::print_stdout, reason = "figures are for people")]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::Request;
use tidegate_testkit::{Load, body};
use tokio::time::sleep;

use crate::bench::LONG;
use crate::hostile::{BOMBS, Flood, MIB, Target, bomb, largest_head};

/// How long each goes on, one attack after the other.
const WHILE: Duration = Duration::from_secs(5);
/// Requests a second of the good client.
const RATE: u32 = 200;
/// The slowest that one in a hundred of them may be.
const P99: Duration = Duration::from_millis(100);
const DEFAULTS: &str = "";

/// A target, what it took before, and a client that behaves.
struct Scene {
    target: Target,
    before: u64,
    good: Load,
}

impl Scene {
    fn begin(target: Target) -> Self {
        let good = |_| Request::get("/good").body(body::empty()).unwrap();
        Self {
            before: target.gateway.process.rss_kb(),
            good: target
                .aside
                .start(|| Load::start(&[target.gateway.address], RATE, 4, good)),
            target,
        }
    }

    async fn new() -> Self {
        Self::begin(Target::new(DEFAULTS).await)
    }

    /// How much more it took at its worst, in KiB.
    fn grown(&self) -> u64 {
        let peak = self.target.gateway.process.peak_rss_kb();
        peak.saturating_sub(self.before)
    }

    /// Attacks until the time is over; how often, and how long the longest took.
    async fn attacked(&self, attack: impl AsyncFn(&Target)) -> (usize, Duration) {
        let begun = Instant::now();
        let (mut times, mut longest) = (0, Duration::ZERO);
        while begun.elapsed() < WHILE {
            let from = Instant::now();
            attack(&self.target).await;
            longest = longest.max(from.elapsed());
            times += 1;
        }
        (times, longest)
    }

    /// What the good client has to say.
    async fn end(self, what: &str) -> Target {
        let grown = self.grown();
        let shots = self.good.stop().await;
        let (all, p99, worst) = (shots.count(), shots.p99(), shots.worst());
        println!("{what}; {all} good requests, p99 {p99:.1?}, worst {worst:.1?}; {grown} KiB more");
        assert_eq!(shots.with_status(200), all, "a good request failed");
        assert!(p99 < P99, "{p99:?}");
        self.target
    }
}

/// Attacks a gateway until the time is over. Returns it, the KiB that it has grown by, and how long the longest attack took.
async fn figures(name: &str, attack: impl AsyncFn(&Target)) -> (Target, u64, Duration) {
    let scene = Scene::new().await;
    let (times, longest) = scene.attacked(attack).await;
    let grown = scene.grown();
    let what = format!("{name}: {times} connections ended, each in {longest:.1?} at most");
    (scene.end(&what).await, grown, longest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn h1_to_h5_figures() {
    let (target, grown, _) = figures("H1", async |it| _ = it.rapid_resets().await).await;
    assert!(grown < 20 * MIB, "{grown} KiB");
    let (seen, charged) = (target.upstream.count(), target.charged().await);
    println!("H1: {seen} requests seen upstream, {charged} charged");
    assert!(charged >= seen);
    figures("H2", async |it| _ = it.late_frames().await).await;
    let (target, ..) = figures("H3", async |it| _ = it.made_resets().await).await;
    let most = target.most.load(Ordering::Relaxed);
    println!("H3: {most} requests at once upstream");
    // Of the attacker 100, and 4 of the good client.
    assert!(most <= 104, "{most}");
    let (.., longest) = figures("H4", async |it| _ = it.endless_head().await).await;
    assert!(longest < Duration::from_secs(1));
    figures("H5", async |it| _ = it.empty_body().await).await;
}

/// Ten connections of a hundred streams each, for as long as they are let.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, and takes some minutes"]
async fn h6_figures() {
    const CONNECTIONS: u64 = 10;
    for (name, head) in [("large heads", largest_head()), ("bombs", bomb(BOMBS[0]))] {
        let scene = Scene::new().await;
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(scene.target.stalled_answers(&head).await);
        }
        let from = Instant::now();
        sleep(Duration::from_secs(10)).await;
        let rss = scene.target.gateway.process.rss_kb();
        let (held, peak) = (rss.saturating_sub(scene.before), scene.grown());
        let mut reaped = Duration::ZERO;
        for client in clients {
            let heard = client.heard(5 * LONG).await;
            let last = heard.last_reset.map(|at| at.duration_since(from));
            reaped = reaped.max(last.unwrap());
        }
        let what = format!(
            "H6, {name}: {} KiB a connection, {} at the worst moment, reaped after {reaped:.1?}",
            held / CONNECTIONS,
            peak / CONNECTIONS
        );
        scene.end(&what).await;
        assert!(peak / CONNECTIONS < 8 * MIB);
        // From the last answer on, which may have taken a while itself.
        assert!(reaped < Duration::from_secs(75), "{reaped:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn h8_figures() {
    for kind in Flood::ALL {
        let scene = Scene::new().await;
        let attack = async |target: &Target| {
            target.flood(kind).await;
        };
        let (times, _) = scene.attacked(attack).await;
        let target = scene.end(&format!("H8, {kind:?}: {times} floods")).await;
        sleep(Duration::from_secs(2)).await;
        let before = target.gateway.process.cpu_time();
        sleep(Duration::from_secs(1)).await;
        let busy = target.gateway.process.cpu_time() - before;
        println!("H8, {kind:?}: {busy:?} of the third second after it");
        assert!(busy < Duration::from_millis(50), "{busy:?}");
    }
}

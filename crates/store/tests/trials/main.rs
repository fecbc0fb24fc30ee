//! Trials: made-up configurations, work and faults, judged by the promises of all limits.
//!
//! - `case`, `generate`: what follows from a seed; `law`: the numbers of limits; `dice`: random numbers
//! - `machine`: runs a trial; `gateway`, `servers`: what it runs on; `work`, `faults`: what happens; `calm`: before and after;
//!   `stalls`: whether there was time for it
//! - `given`: the memory store with a given clock
//! - `history`: what is kept of it; `promises`: by what it is judged
//! - `report`, `shrink`: what is said of a finding; `kept`: findings that are run again each time

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, in its helpers too"
)]

mod calm;
mod case;
mod dice;
mod faults;
mod gateway;
mod generate;
mod given;
mod history;
mod kept;
mod law;
mod machine;
mod promises;
mod report;
mod servers;
mod shrink;
mod stalls;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use case::{Case, Name};
use history::{History, Span};
use promises::Breach;
use report::Figures;
use servers::Servers;
use shrink::Finding;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// So many trials run at once: most of their time they wait.
const AT_ONCE: usize = 8;

/// How many fresh trials run: a variable of the environment, or as many as fit into this time.
const TRIALS: &str = "TIDEGATE_TRIALS";
/// Where fresh seeds begin; else it is the time.
const SEED: &str = "TIDEGATE_SEED";
/// `no`: findings are shown as they are, and not made smaller first.
const SHRINK: &str = "TIDEGATE_SHRINK";
/// One trial, by its name.
const TRIAL: &str = "TIDEGATE_TRIAL";
const TIME: Duration = Duration::from_secs(45);

/// How often a finding of a test run is looked for again.
const AGAIN: usize = 5;

/// Runs a trial and judges it.
async fn judged(name: &Name, servers: &Arc<Servers>) -> (Case, History, Vec<Breach>) {
    let case = Case::of(name);
    let (running, shared) = (case.clone(), servers.clone());
    let ran = tokio::spawn(async move { machine::run(running, &shared).await }).await;
    match ran {
        Ok(history) => {
            let broken = promises::broken_by_any_clock(&history);
            (case, history, broken)
        }
        Err(panic) => {
            let breach = Breach {
                promise: "no panic",
                limit: 0,
                key: None,
                span: Span::default(),
                what: panic.to_string(),
            };
            (case, History::default(), vec![breach])
        }
    }
}

/// Runs all of these, some at once; what they came to, and the findings.
async fn all(names: impl Iterator<Item = Name>) -> (Figures, Vec<Finding>, Arc<Servers>) {
    let servers = Arc::<Servers>::default();
    let sums = Arc::new(Mutex::new((Figures::default(), Vec::new())));
    let mut running = JoinSet::new();
    for name in names {
        while running.len() >= AT_ONCE {
            running.join_next().await.unwrap().unwrap();
        }
        let (servers, sums) = (servers.clone(), sums.clone());
        running.spawn(async move {
            let (case, history, broken) = judged(&name, &servers).await;
            let mut sums = sums.lock().await;
            sums.0.add(&case, &history, &broken);
            if !broken.is_empty() {
                for breach in &broken {
                    eprintln!("{}", report::line(&case, breach));
                }
                sums.1.push(Finding {
                    case,
                    history,
                    broken,
                });
            }
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    let sums = Arc::into_inner(sums).unwrap().into_inner();
    (sums.0, sums.1, servers)
}

/// Shows the findings, the first few of each promise as small as they get.
async fn show(findings: Vec<Finding>, servers: &Arc<Servers>) {
    let mut shown: Vec<&'static str> = Vec::new();
    for found in findings {
        let promise = found.broken[0].promise;
        if shown.contains(&promise) {
            continue;
        }
        shown.push(promise);
        let whole = found.case.name.clone();
        let shrinks = std::env::var(SHRINK).as_deref() != Ok("no");
        let small = match shrinks {
            true => shrink::shrink(found, servers).await,
            false => found,
        };
        eprintln!(
            "\ntrial {whole}, as small as it was made:\n{}\nagain: {TRIAL}={} cargo test -p tidegate-store --test trials one -- --nocapture\n",
            report::finding(&small.case, &small.history, &small.broken),
            small.case.name
        );
    }
}

/// The findings that appear again when their trial runs alone, in one of [`AGAIN`] runs. The others are named: on a machine that
/// runs many tests at once, a trial may find the machine. A run of [`TRIALS`] trials fails for all of them.
async fn confirmed(findings: Vec<Finding>, servers: &Arc<Servers>) -> Vec<Finding> {
    let mut confirmed = Vec::new();
    'findings: for found in findings {
        let promise = found.broken[0].promise;
        for _ in 0..AGAIN {
            let (_, _, broken) = judged(&found.case.name, servers).await;
            if broken.iter().any(|breach| breach.promise == promise) {
                confirmed.push(found);
                continue 'findings;
            }
        }
        eprintln!("trial {}: not found again", found.case.name);
    }
    confirmed
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Trials whose seeds nobody has seen before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fresh() {
    let seed = number(SEED).unwrap_or_else(machine::now);
    eprintln!("seeds from {seed}");
    let (started, trials) = (Instant::now(), number(TRIALS));
    let next = AtomicU64::new(0);
    let names = std::iter::from_fn(|| {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        let goes_on = match trials {
            Some(trials) => nth < trials,
            None => started.elapsed() < TIME,
        };
        let seed = seed.wrapping_add(nth);
        goes_on.then(|| Name {
            seed,
            ..Name::default()
        })
    });
    let (figures, findings, servers) = all(names).await;
    eprintln!("{figures}");
    let findings = match trials {
        Some(_) => findings,
        None => confirmed(findings, &servers).await,
    };
    let count = findings.len();
    show(findings, &servers).await;
    assert_eq!(count, 0, "trials with findings");
}

/// Trials that once had a finding.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept() {
    let names = kept::TRIALS.iter().map(|name| name.parse().unwrap());
    let (_, findings, servers) = all(names).await;
    let findings = confirmed(findings, &servers).await;
    let count = findings.len();
    show(findings, &servers).await;
    assert_eq!(count, 0, "trials with findings");
}

/// The trial that the environment names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one() {
    let Ok(name) = std::env::var(TRIAL) else {
        return;
    };
    let servers = Arc::<Servers>::default();
    let (case, history, broken) = judged(&name.parse().unwrap(), &servers).await;
    eprintln!("{}", report::finding(&case, &history, &broken));
    assert!(broken.is_empty(), "{broken:?}");
}

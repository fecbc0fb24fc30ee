//! Runs trials, several at once, and prints their findings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::name::Name;
use super::servers::Servers;
use super::shrink;
use super::trial::{Figures as _, Trial, judged};

/// The variable with the number of fresh trials. Without it, trials run for [`Runner::time`].
const TRIALS: &str = "TIDEGATE_TRIALS";
/// The variable with the first of the fresh seeds. Without it, the current time is the first seed.
const SEED: &str = "TIDEGATE_SEED";
/// The variable that is `no` if findings are shown without being reduced first.
const SHRINK: &str = "TIDEGATE_SHRINK";
/// The variable with the name of one trial.
const TRIAL: &str = "TIDEGATE_TRIAL";

/// The most runs of a trial to confirm its finding.
const AGAIN: usize = 5;

/// The trials of one test binary.
#[derive(Clone, Copy, Debug)]
pub struct Runner {
    /// The crate of the test binary `trials`.
    pub package: &'static str,
    /// The number of trials that run at once. This number may exceed the number of processors, because trials mostly wait.
    pub at_once: usize,
    /// The time for which fresh trials run if `TIDEGATE_TRIALS` is not set.
    pub time: Duration,
}

/// Returns the first of the fresh seeds. The following trials have the next numbers as seeds.
pub fn first_seed() -> u64 {
    number(SEED).unwrap_or_else(now)
}

/// Returns the number of fresh trials, if `TIDEGATE_TRIALS` is set.
pub fn count() -> Option<u64> {
    number(TRIALS)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Returns the current time in us since the epoch, for use as a seed.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_micros() as u64
}

impl Runner {
    /// Runs trials with fresh seeds.
    ///
    /// # Panics
    ///
    /// A trial has a finding.
    pub async fn fresh<T: Trial>(self) {
        let seed = first_seed();
        eprintln!("seeds from {seed}");
        let (started, trials) = (Instant::now(), count());
        let next = AtomicU64::new(0);
        let names = std::iter::from_fn(|| {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            let goes_on = match trials {
                Some(trials) => nth < trials,
                None => started.elapsed() < self.time,
            };
            goes_on.then(|| Name::of(seed.wrapping_add(nth)))
        });
        let (figures, findings, servers) = self.all::<T>(names).await;
        eprintln!("{figures}");
        let findings = match trials {
            Some(_) => findings,
            None => confirmed(findings, &servers).await,
        };
        self.fail_for(findings, &servers).await;
    }

    /// Runs trials that once had a finding.
    ///
    /// # Panics
    ///
    /// A trial has a finding.
    pub async fn kept<T: Trial>(self, trials: &[&str]) {
        let names = trials.iter().map(|name| name.parse().unwrap());
        let (_, findings, servers) = self.all::<T>(names).await;
        let findings = confirmed(findings, &servers).await;
        self.fail_for(findings, &servers).await;
    }

    /// Runs the trial that `TIDEGATE_TRIAL` names. Without this variable, runs no trial.
    ///
    /// # Panics
    ///
    /// The trial has a finding.
    pub async fn one<T: Trial>(self) {
        let Ok(name) = std::env::var(TRIAL) else {
            return;
        };
        let servers = Arc::<Servers>::default();
        let trial = judged::<T>(&name.parse().unwrap(), &servers).await;
        eprintln!("{}", trial.report());
        let broken = trial.broken();
        assert!(broken.is_empty(), "{broken:?}");
    }

    /// Runs all of these trials, several at once. Returns the sums over all trials, the trials with findings, and the servers.
    async fn all<T: Trial>(
        self,
        names: impl Iterator<Item = Name>,
    ) -> (T::Figures, Vec<T>, Arc<Servers>) {
        let servers = Arc::<Servers>::default();
        let sums = Arc::new(Mutex::new((T::Figures::default(), Vec::new())));
        let mut running = JoinSet::new();
        for name in names {
            while running.len() >= self.at_once {
                running.join_next().await.unwrap().unwrap();
            }
            let (servers, sums) = (Arc::clone(&servers), Arc::clone(&sums));
            running.spawn(async move {
                let trial = judged::<T>(&name, &servers).await;
                let mut sums = sums.lock().await;
                sums.0.add(&trial);
                if !trial.broken().is_empty() {
                    trial.lines().iter().for_each(|line| eprintln!("{line}"));
                    sums.1.push(trial);
                }
            });
        }
        while let Some(done) = running.join_next().await {
            done.unwrap();
        }
        let sums = Arc::into_inner(sums).expect("all trials have ended");
        let (figures, findings) = sums.into_inner();
        (figures, findings, servers)
    }

    /// Prints the findings and panics if there are any. The first finding of each promise is reduced as far as possible. Other findings are
    /// printed as they were found, because a rare finding may not appear again.
    async fn fail_for<T: Trial>(self, findings: Vec<T>, servers: &Arc<Servers>) {
        let count = findings.len();
        let mut shown: Vec<&'static str> = Vec::new();
        for finding in findings {
            let promise = finding.broken()[0];
            if shown.contains(&promise) {
                eprintln!("\n{}", finding.report());
                continue;
            }
            shown.push(promise);
            let whole = finding.name().clone();
            let shrinks = std::env::var(SHRINK).as_deref() != Ok("no");
            let small = match shrinks {
                true => shrink::shrink(finding, servers).await,
                false => finding,
            };
            eprintln!(
                "\ntrial {whole}, as small as it was made:\n{}\nagain: {TRIAL}={} cargo test -p {} --test trials one -- --nocapture\n",
                small.report(),
                small.name(),
                self.package
            );
        }
        assert_eq!(count, 0, "trials with findings");
    }
}

/// Returns the findings that appear again when their trial runs alone, up to [`AGAIN`] times. Prints the names of the other trials, which
/// may have failed only because the machine was busy. If [`TRIALS`] is set, findings need no confirmation.
async fn confirmed<T: Trial>(findings: Vec<T>, servers: &Arc<Servers>) -> Vec<T> {
    let mut confirmed = Vec::new();
    'findings: for finding in findings {
        let promise = finding.broken()[0];
        for _ in 0..AGAIN {
            let again = judged::<T>(finding.name(), servers).await;
            if again.broken().contains(&promise) {
                confirmed.push(finding);
                continue 'findings;
            }
        }
        eprintln!("trial {}: not found again", finding.name());
    }
    confirmed
}

//! Trials: random configurations, work and faults, which are judged by the promises of all limits.
//!
//! - `case`, `generate`: the case that follows from a seed; `law`: the numbers of limits
//! - `machine`: runs a trial; `gateway`: one gateway of a trial; `work`, `faults`: its requests and its faults; `calm`: the time before and
//!   after
//! - `given`: trials of the memory store, whose clock is set by the trial
//! - `history`: the history of a trial; `promises`: the promises that it is judged by
//! - `report`: the text about a finding; `kept`: earlier findings, which run every time

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, in its helpers too"
)]

mod calm;
mod case;
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
mod work;

use std::sync::Arc;
use std::time::Duration;

use case::Case;
use history::{History, Span};
use promises::Breach;
use report::Figures;
use tidegate_testkit::trials::{Name, Runner, Servers, Trial};

const RUNNER: Runner = Runner {
    package: "tidegate-store",
    at_once: 8,
    time: Duration::from_secs(45),
};

/// A trial that ran.
struct Judged {
    case: Case,
    history: History,
    broken: Vec<Breach>,
}

impl Trial for Judged {
    type Figures = Figures;

    async fn run(name: Name, servers: Arc<Servers>) -> Self {
        let case = Case::of(&name);
        let history = machine::run(case.clone(), &servers).await;
        let broken = promises::broken_by_any_clock(&history);
        Self {
            case,
            history,
            broken,
        }
    }

    fn panicked(name: &Name, panic: String) -> Self {
        let breach = Breach {
            promise: "no panic",
            limit: 0,
            key: None,
            span: Span::default(),
            what: panic,
        };
        Self {
            case: Case::of(name),
            history: History::default(),
            broken: vec![breach],
        }
    }

    fn name(&self) -> &Name {
        &self.case.name
    }

    fn parts(&self) -> Name {
        let case = &self.case;
        let limits = (0..case.limits.len()).filter(|nth| !case.name.limits.contains(nth));
        Name {
            seed: case.name.seed,
            limits: limits.collect(),
            work: case.work.iter().map(|work| work.nth).collect(),
            faults: case.faults.iter().map(|fault| fault.nth).collect(),
            extras: case.extras.iter().map(|(nth, _)| *nth).collect(),
        }
    }

    fn broken(&self) -> Vec<&'static str> {
        self.broken.iter().map(|breach| breach.promise).collect()
    }

    fn keep_only(&mut self, promise: &'static str) {
        self.broken.retain(|breach| breach.promise == promise);
    }

    fn lines(&self) -> Vec<String> {
        let lines = self.broken.iter();
        lines
            .map(|breach| report::line(&self.case, breach))
            .collect()
    }

    fn report(&self) -> String {
        report::finding(&self.case, &self.history, &self.broken)
    }
}

/// Trials with new seeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fresh() {
    RUNNER.fresh::<Judged>().await;
}

/// Trials that once had a finding.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept() {
    RUNNER.kept::<Judged>(kept::TRIALS).await;
}

/// The trial that the environment names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one() {
    RUNNER.one::<Judged>().await;
}

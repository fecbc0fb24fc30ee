//! Trials of overrides: made-up changes and faults, judged by the promises of overrides.
//!
//! - `case`, `generate`: the case of a seed
//! - `machine`: runs a trial; `gateway`: a gateway of it; `faults`: the faults of it
//! - `history`: the history of a trial; `promises`: the promises that it is judged by
//! - `report`: the text about a finding; `kept`: findings that are run again each time

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, in its helpers too"
)]

mod case;
mod faults;
mod gateway;
mod generate;
mod history;
mod kept;
mod machine;
mod promises;
mod report;

use std::sync::Arc;
use std::time::Duration;

use case::Case;
use history::History;
use promises::Breach;
use tidegate_testkit::trials::{Name, Runner, Servers, Trial};

const RUNNER: Runner = Runner {
    package: "tidegate-overrides",
    at_once: 8,
    time: Duration::from_secs(12),
};

/// A trial that ran.
struct Judged {
    case: Case,
    history: History,
    broken: Vec<Breach>,
}

impl Trial for Judged {
    type Figures = report::Figures;

    async fn run(name: Name, servers: Arc<Servers>) -> Self {
        let case = Case::of(&name);
        let history = machine::run(case.clone(), &servers).await;
        let broken = promises::broken(&history);
        Self {
            case,
            history,
            broken,
        }
    }

    fn panicked(name: &Name, panic: String) -> Self {
        let breach = Breach {
            promise: "no panic",
            subject: 0,
            at: 0,
            text: panic,
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
        Name {
            seed: self.case.name.seed,
            limits: [].into(),
            work: self.case.work.iter().map(|work| work.nth).collect(),
            faults: self.case.faults.iter().map(|fault| fault.nth).collect(),
            extras: self.case.extras.iter().map(|(nth, _)| *nth).collect(),
        }
    }

    fn broken(&self) -> Vec<&'static str> {
        self.broken.iter().map(|breach| breach.promise).collect()
    }

    fn keep_only(&mut self, promise: &'static str) {
        self.broken.retain(|breach| breach.promise == promise);
    }

    fn lines(&self) -> Vec<String> {
        report::lines(&self.case, &self.broken)
    }

    fn report(&self) -> String {
        report::finding(&self.case, &self.history, &self.broken)
    }
}

/// Trials with seeds that are new.
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

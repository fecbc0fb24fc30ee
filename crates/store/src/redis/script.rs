//! The scripts: which text a request's limits need, and what is passed to it.

use std::sync::OnceLock;

use tidegate_core::{MAX_EXACT, Micros, Quota};

use crate::Charge;

/// The parts of `lua/`: each algorithm with the files that it needs, in the order of [`Quota::ALGORITHMS`].
const PARTS: [&[&str]; 5] = [
    &[DEBT, include_str!("../../../../lua/token_bucket.lua")],
    &[DEBT, include_str!("../../../../lua/leaky_bucket.lua")],
    &[include_str!("../../../../lua/fixed_window.lua")],
    &[include_str!("../../../../lua/sliding_window_log.lua")],
    &[include_str!("../../../../lua/sliding_window_counter.lua")],
];
const DEBT: &str = include_str!("../../../../lua/debt.lua");
const DECIDE: &str = include_str!("../../../../lua/decide.lua");
const EXCHANGE: &str = include_str!("../../../../lua/exchange.lua");
const GIVE_BACK: &str = include_str!("../../../../lua/give_back.lua");

const _: () = assert!(PARTS.len() == Quota::ALGORITHMS.len());

/// What a script is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Checks all, and charges all or none.
    Decide,
    /// Checks all, and charges none.
    Check,
    /// Takes back what was charged.
    GiveBack,
    /// Adds what a gateway has counted by itself.
    Exchange,
}

/// How many combinations of algorithms there are.
const COMBINATIONS: usize = 1 << PARTS.len();
/// How many scripts there can be.
pub(super) const SCRIPTS: usize = 4 * COMBINATIONS;

/// One script per task and combination of algorithms, joined when it is first needed.
#[derive(Debug)]
pub(super) struct Scripts([OnceLock<Script>; SCRIPTS]);

impl Default for Scripts {
    fn default() -> Self {
        Self([const { OnceLock::new() }; SCRIPTS])
    }
}

impl Scripts {
    /// The script that does this for these algorithms.
    pub(super) fn of<'a>(
        &self,
        task: Task,
        quotas: impl IntoIterator<Item = &'a Quota>,
    ) -> &Script {
        let combination = quotas
            .into_iter()
            .fold(0, |set, quota| set | 1 << quota.algorithm_index());
        self.at(task as usize * COMBINATIONS + combination)
    }

    /// The script with this index.
    pub(super) fn at(&self, index: usize) -> &Script {
        const TASKS: [Task; 4] = [Task::Decide, Task::Check, Task::GiveBack, Task::Exchange];
        let task = TASKS[index / COMBINATIONS];
        self.0[index].get_or_init(|| Script::new(index, task, index % COMBINATIONS))
    }
}

/// One joined script.
#[derive(Debug)]
pub(super) struct Script {
    index: usize,
    text: String,
    sha: String,
}

impl Script {
    fn new(index: usize, task: Task, combination: usize) -> Self {
        // With this first line Redis refuses up front what it could not finish: when it is out of memory, a replica,
        // or asked for keys of several slots.
        let mut text = String::from("#!lua\nlocal algorithms = {}\n");
        let mut joined: Vec<&str> = Vec::new();
        for (index, parts) in PARTS.iter().enumerate() {
            if combination & 1 << index == 0 {
                continue;
            }
            for part in *parts {
                if !joined.contains(part) {
                    joined.push(part);
                }
            }
        }
        joined.extend(match task {
            Task::Decide => ["local charging = true\n", DECIDE],
            Task::Check => ["local charging = false\n", DECIDE],
            Task::GiveBack => ["", GIVE_BACK],
            Task::Exchange => ["", EXCHANGE],
        });
        text.extend(joined);
        Self {
            index,
            sha: super::client::sha1(&text),
            text,
        }
    }

    /// Which of the [`SCRIPTS`] it is.
    pub(super) const fn index(&self) -> usize {
        self.index
    }

    /// All of it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The name by which Redis knows it.
    pub(super) fn sha(&self) -> &str {
        &self.sha
    }
}

/// What is needed to decide, behind the deadline: per charge the algorithm, the cost and the quota's numbers
/// (lua/README.md).
pub(super) fn arguments(charges: &[Charge<'_>]) -> Vec<String> {
    let mut arguments = Vec::with_capacity(charges.len() * 6);
    for charge in charges {
        add_arguments(&mut arguments, charge);
    }
    arguments
}

/// The first argument of a decision: the time on Redis's clock after which nothing may be charged any more.
pub(super) fn deadline(deadline: Option<Micros>) -> String {
    deadline.unwrap_or(MAX_EXACT).to_string()
}

/// What is needed to give back: the same, and each charge's receipt behind its numbers.
pub(super) fn arguments_with(charges: &[Charge<'_>], receipts: &[Micros]) -> Vec<String> {
    let mut arguments = Vec::with_capacity(charges.len() * 7);
    for (charge, receipt) in charges.iter().zip(receipts) {
        add_arguments(&mut arguments, charge);
        arguments.push(receipt.to_string());
    }
    arguments
}

fn add_arguments(arguments: &mut Vec<String>, charge: &Charge<'_>) {
    let quota = charge.limit.quota();
    arguments.push(quota.algorithm().to_owned());
    arguments.push(charge.cost.to_string());
    add_numbers(arguments, quota);
}

/// A quota's numbers.
pub(super) fn add_numbers(arguments: &mut Vec<String>, quota: &Quota) {
    let text = |number: u64| number.to_string();
    match quota {
        Quota::TokenBucket(quota) => arguments.extend(quota.meter().numbers().map(text)),
        Quota::LeakyBucket(quota) => arguments.extend(quota.meter().numbers().map(text)),
        Quota::FixedWindow(quota) => arguments.extend(quota.numbers().map(text)),
        Quota::SlidingWindowLog(quota) => arguments.extend(quota.numbers().map(text)),
        Quota::SlidingWindowCounter(quota) => arguments.extend(quota.numbers().map(text)),
    }
}

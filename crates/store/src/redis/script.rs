//! Scripts: the text for a request's limits, its arguments, and the calls that run it.
//!
//! - [`arguments`]: the words for a script; [`caller`]: the calls

pub(super) mod arguments;
pub(super) mod caller;
mod example;

use std::sync::Arc;

use tidegate_core::Quota;
use tidegate_redis::Scripts;

use crate::Charge;
use arguments::Holding;
pub use example::{ScriptExample, examples};

/// Makes [`ALGORITHMS`]: the parts of `lua/` that each algorithm needs, in the order of [`Quota::ALGORITHMS`].
macro_rules! parts {
    ($($name:ident: $algorithm:ident($state:ty) needs [$($needs:literal)*],)+) => {
        const ALGORITHMS: [&[&str]; Quota::ALGORITHMS.len()] = [$(&[
            $(include_str!(concat!("../../../../lua/", $needs, ".lua")),)*
            include_str!(concat!("../../../../lua/", stringify!($name), ".lua")),
        ],)+];
    };
}
tidegate_core::algorithms!(parts);

/// The parts for blocks and for holds, which limits of every algorithm may need.
const OTHERS: [&str; 2] = [
    include_str!("../../../../lua/block.lua"),
    include_str!("../../../../lua/holds.lua"),
];
const BLOCK: usize = ALGORITHMS.len();
const HOLD: usize = BLOCK + 1;
const PARTS: usize = ALGORITHMS.len() + OTHERS.len();
const RECORD: &str = include_str!("../../../../lua/record.lua");
const CHARGES: &str = "local charging, blocking = true, true\n";
const CHECKS: &str = "local charging, blocking = false, true\n";
const LOOKS: &str = "local charging, blocking = false, false\n";
const DECIDE: &str = include_str!("../../../../lua/decide.lua");
const DECIDE_ONE: &str = include_str!("../../../../lua/decide_one.lua");
const DECIDE_MANY: &str = include_str!("../../../../lua/decide_many.lua");
const EXCHANGE: &str = include_str!("../../../../lua/exchange.lua");
const RENEW_OR_END: &str = include_str!("../../../../lua/hold.lua");
const LEASE: &str = include_str!("../../../../lua/lease.lua");

/// The task of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Checks all limits, and charges all or none.
    Decide,
    /// Decides several requests, each by itself.
    DecideMany,
    /// Checks all limits, and charges none. Starts the blocks of limits that refuse.
    Check,
    /// Checks all limits. Charges no request and starts no block. Lapsed holds are still charged.
    Look,
    /// Renews holds, or ends them.
    Hold,
    /// Lends a slice of one limit's budget.
    Lease,
    /// Adds the counts that a gateway has made under `mode: synced`.
    Exchange,
}

impl Task {
    const ALL: [Self; 7] = [
        Self::Decide,
        Self::DecideMany,
        Self::Check,
        Self::Look,
        Self::Hold,
        Self::Lease,
        Self::Exchange,
    ];

    /// Returns the texts of this task, which follow the parts for limits.
    const fn text(self) -> &'static [&'static str] {
        match self {
            Self::Decide => &[CHARGES, DECIDE, DECIDE_ONE],
            Self::DecideMany => &[CHARGES, DECIDE, DECIDE_MANY],
            Self::Check => &[CHECKS, DECIDE, DECIDE_ONE],
            Self::Look => &[LOOKS, DECIDE, DECIDE_ONE],
            Self::Hold => &[RENEW_OR_END],
            Self::Lease => &[LEASE],
            Self::Exchange => &[EXCHANGE],
        }
    }
}

/// The number of combinations of parts.
const COMBINATIONS: usize = 1 << PARTS;

/// Returns all scripts: one per task and combination of parts.
pub(super) fn all() -> Arc<Scripts> {
    Arc::new(Scripts::new(Task::ALL.len() * COMBINATIONS, text))
}

/// Returns the number of the script for this task and these charges' algorithms.
pub(super) fn number(task: Task, charges: &[Charge<'_>], holding: Holding) -> usize {
    let combination = charges.iter().fold(0, |set, charge| {
        let blocks = usize::from(charge.limit.block().is_some()) << BLOCK;
        let is_held = holding != Holding::None || charge.limit.lease().is_some();
        let holds = usize::from(is_held) << HOLD;
        set | 1 << charge.limit.quota().algorithm_index() | blocks | holds
    });
    task as usize * COMBINATIONS + combination
}

/// Returns the number of the script for this task and these algorithms, of limits without blocks and holds.
pub(super) fn number_of_quotas<'a>(
    task: Task,
    quotas: impl IntoIterator<Item = &'a Quota>,
) -> usize {
    let combination = quotas
        .into_iter()
        .fold(0, |set, quota| set | 1 << quota.algorithm_index());
    task as usize * COMBINATIONS + combination
}

/// Returns the number of the script that decides several requests, given the number of the script that decides one.
pub(super) const fn number_of_many(one: usize) -> usize {
    Task::DecideMany as usize * COMBINATIONS + one % COMBINATIONS
}

/// Returns the text of the script with this number.
fn text(number: usize) -> String {
    joined(Task::ALL[number / COMBINATIONS], number % COMBINATIONS)
}

/// Returns the text of a script: the parts that it needs, then its task.
fn joined(task: Task, combination: usize) -> String {
    // With this first line, Redis refuses a script before its start if the script could not finish. A script could not finish if Redis is
    // out of memory, if the server is a replica, or if the keys are in several slots.
    let mut text = format!("#!lua\nlocal algorithms = {{}}\n{RECORD}");
    let mut joined: Vec<&str> = Vec::new();
    let others = OTHERS.iter().map(std::slice::from_ref);
    let parts = ALGORITHMS.into_iter().chain(others);
    for (index, parts) in parts.enumerate() {
        if combination & 1 << index == 0 {
            continue;
        }
        for part in parts {
            if !joined.contains(part) {
                joined.push(part);
            }
        }
    }
    joined.extend(task.text());
    text.extend(joined);
    text
}

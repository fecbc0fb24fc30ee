//! The scripts: which text a request's limits need, what is passed to it, and how a lost one is loaded again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Quota;
use tokio::sync::Mutex;

use super::client::{Client, Failure};
use crate::{Charge, StoreError};

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

const _: () = assert!(PARTS.len() == Quota::ALGORITHMS.len());

/// One script per combination of algorithms, joined when it is first needed.
#[derive(Debug)]
pub(super) struct Scripts([OnceLock<Script>; 1 << PARTS.len()]);

impl Default for Scripts {
    fn default() -> Self {
        Self([const { OnceLock::new() }; 1 << PARTS.len()])
    }
}

impl Scripts {
    /// The script for these charges' algorithms.
    pub(super) fn of(&self, charges: &[Charge<'_>]) -> &Script {
        let combination = charges.iter().fold(0, |set, charge| {
            set | 1 << charge.limit.quota().algorithm_index()
        });
        self.0[combination].get_or_init(|| Script::new(combination))
    }
}

/// One joined script.
#[derive(Debug)]
pub(super) struct Script {
    text: String,
    sha: String,
    // How often it was loaded; whoever holds the lock loads.
    loads: AtomicU64,
    loading: Mutex<()>,
}

impl Script {
    fn new(combination: usize) -> Self {
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
        joined.push(DECIDE);
        text.extend(joined);
        Self {
            sha: super::client::sha1(&text),
            text,
            loads: AtomicU64::new(0),
            loading: Mutex::new(()),
        }
    }

    /// Runs the script. If Redis lost it, one caller brings it back by running it from its text, and those that found
    /// it missing meanwhile wait for that one, then try again: nothing has run, so nothing is charged twice.
    pub(super) async fn call(
        &self,
        client: &Client,
        keys: Vec<String>,
        arguments: Vec<String>,
    ) -> Result<Vec<i64>, StoreError> {
        loop {
            let loads = self.loads.load(Ordering::Acquire);
            match client.evalsha(&self.sha, &keys, &arguments).await {
                Err(Failure::NoScript) => {}
                Err(Failure::Other(error)) => return Err(error),
                Ok(reply) => return Ok(reply),
            }
            let _loader = self.loading.lock().await;
            if self.loads.load(Ordering::Acquire) != loads {
                continue;
            }
            let reply = client.eval(&self.text, &keys, &arguments).await;
            self.loads.fetch_add(1, Ordering::Release);
            return reply.map_err(Failure::into_error);
        }
    }
}

/// What a script takes beside its keys: per charge the algorithm, the cost and the quota's numbers (lua/README.md).
pub(super) fn arguments(charges: &[Charge<'_>]) -> Vec<String> {
    let mut arguments = Vec::with_capacity(charges.len() * 6);
    for charge in charges {
        let quota = charge.limit.quota();
        arguments.push(quota.algorithm().to_owned());
        arguments.push(charge.cost.to_string());
        let text = |number: u64| number.to_string();
        match quota {
            Quota::TokenBucket(quota) => arguments.extend(quota.meter().numbers().map(text)),
            Quota::LeakyBucket(quota) => arguments.extend(quota.meter().numbers().map(text)),
            Quota::FixedWindow(quota) => arguments.extend(quota.numbers().map(text)),
            Quota::SlidingWindowLog(quota) => arguments.extend(quota.numbers().map(text)),
            Quota::SlidingWindowCounter(quota) => arguments.extend(quota.numbers().map(text)),
        }
    }
    arguments
}

//! Plans that tokens name and nobody has defined: each request is counted, and each name is told once.

use std::collections::HashSet;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;

/// How many names are told; who issues tokens could make up more.
const MOST: usize = 64;

/// What is counted, and which names have been told.
#[derive(Debug, Default)]
pub(crate) struct UnknownPlans {
    pub(super) requests: Counter,
    told: Mutex<HashSet<Box<str>>>,
}

impl UnknownPlans {
    /// A request's client was to have this plan, and goes on without.
    pub(crate) fn named(&self, plan: &str) {
        self.requests.inc();
        let mut told = self.told.lock();
        if told.len() < MOST && !told.contains(plan) {
            told.insert(plan.into());
            tracing::warn!(
                plan,
                "a token names a plan that is not defined: its client has the limits' own quotas"
            );
        }
    }
}

//! Undefined plans in tokens. Each request with such a plan is counted, and each plan's name is logged once.

use std::collections::HashSet;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;

use super::registrar::Registrar;
use tidegate_net::text::cut;

/// The most names that are logged. An issuer of tokens may invent names without limit.
const MOST: usize = 64;
/// The most bytes of a logged name.
const MAX_NAME: usize = 128;

/// The counter of requests, and the names that were logged.
#[derive(Debug)]
pub(super) struct UnknownPlans {
    requests: Counter,
    names: Mutex<HashSet<Box<str>>>,
}

impl UnknownPlans {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        Self {
            requests: registrar.add(
                "unknown_plans",
                "Requests whose token names a plan that is not defined",
            ),
            names: Mutex::default(),
        }
    }

    /// Counts a request whose token names this plan.
    pub(super) fn named(&self, plan: &str) {
        self.requests.inc();
        let plan = cut(plan, MAX_NAME).into_cow();
        let is_new = {
            let mut names = self.names.lock();
            names.len() < MOST && !names.contains(&*plan) && names.insert((*plan).into())
        };
        if is_new {
            tracing::warn!(
                plan = &*plan,
                "a token names a plan that is not defined; the client gets the default quotas"
            );
        }
    }
}

//! Counts that this gateway keeps by itself and exchanges with Redis now and then.

use std::time::Duration;

use tidegate_core::Verdict;

use crate::{Charge, StoreError};

/// All counts that are kept here.
#[derive(Debug)]
pub(super) struct Synced {
    _every: Duration,
}

impl Synced {
    pub(super) fn new(every: Duration) -> Self {
        Self { _every: every }
    }

    /// Counts a charge, if what is known of all gateways leaves room for it.
    pub(super) fn reserve(&self, _charge: &Charge<'_>) -> Result<Verdict, StoreError> {
        Err(StoreError::NotAsked)
    }

    /// Takes back what was counted for a request that was refused.
    pub(super) fn give_back(&self, _charge: &Charge<'_>) {}
}

//! Leases: slices of budgets that this gateway has borrowed from Redis and spends by itself.

use std::time::Instant;

use tidegate_core::Verdict;

use crate::{Charge, StoreError};

/// All slices that are out to this gateway.
#[derive(Debug, Default)]
pub(super) struct Leases;

impl Leases {
    /// Spends from the charge's slice, which is borrowed first if there is none.
    pub(super) async fn reserve(
        &self,
        _charge: &Charge<'_>,
        _until: Instant,
    ) -> Result<Verdict, StoreError> {
        Err(StoreError::NotAsked)
    }

    /// Takes back what was spent for a request that was refused.
    pub(super) fn give_back(&self, _charge: &Charge<'_>) {}
}

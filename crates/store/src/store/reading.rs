//! Reads keys for operators.

use std::sync::Arc;

use tidegate_core::Verdict;
use tidegate_redis::Cursor;

use super::Store;
use crate::{Charge, Counts, KeyPage, Limit, Mode, StoreError};

impl Store {
    /// Returns the counts of a charge's key. Charges no unit.
    pub async fn counts(&self, charge: &Charge<'_>) -> Result<Counts, StoreError> {
        match self {
            Self::Redis(store) if charge.limit.mode() != Mode::Local => store.counts(charge).await,
            Self::Memory(_) | Self::Redis(_) => Ok(self.memory().counts(charge)),
        }
    }

    /// Returns the verdict on a charge by the counts of this process, if the limit is [`Mode::Synced`] and this process has counts of the key.
    /// These counts decide the next request, and Redis may not have all of them yet. Charges no unit.
    pub fn peek_counted(&self, charge: &Charge<'_>) -> Option<Verdict> {
        match self {
            Self::Redis(store) if charge.limit.mode() == Mode::Synced => store.peek_counted(charge),
            Self::Memory(_) | Self::Redis(_) => None,
        }
    }

    /// Returns some keys of these limits, which are variants of one limit: its own numbers, and the numbers of each plan. The iteration
    /// begins at `Cursor::default()`. A key that exists during the whole iteration is returned, unless a Redis Cluster moves slots.
    pub async fn keys(&self, limits: &[Arc<Limit>], from: Cursor) -> Result<KeyPage, StoreError> {
        let Some(first) = limits.first() else {
            return Ok(KeyPage::default());
        };
        match self {
            Self::Redis(store) if first.mode() != Mode::Local => store.keys(limits, from).await,
            Self::Memory(_) | Self::Redis(_) => Ok(self.memory().keys(limits, from)),
        }
    }
}

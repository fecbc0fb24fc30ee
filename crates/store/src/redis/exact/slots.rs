//! Concurrency slots that running requests of this process hold in Redis: they are renewed, and taken again where Redis has
//! lost them.
//!
//! While one of them may be missing, its server is not asked for decisions on limits with slots: the answer would count
//! too few. So a gateway never takes the slot of its own running request.

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::{HoldId, Receipt};
use tidegate_redis::Shard;

use super::Exact;
use crate::redis::script::caller::compensation::LONGEST;
use crate::{Charge, StoreError};

impl Exact {
    /// The server that keeps the slots of this charge, if it is known.
    pub(crate) fn server_of(&self, charge: &Charge<'_>) -> Option<Arc<Shard>> {
        let shard = self.access.caller.shards.of(&charge.key.tag);
        shard.ok()
    }

    /// All servers that are known.
    pub(crate) fn servers(&self) -> Vec<Arc<Shard>> {
        let all = self.access.caller.shards.all().unwrap_or_default();
        all.into_iter().map(|(_, shard)| shard).collect()
    }

    /// Waits until Redis has all slots that requests of this process hold on the servers of these charges.
    pub(super) async fn confirmed(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<(), StoreError> {
        loop {
            let progress = self.registry().progress.notified();
            let mut is_confirmed = true;
            for charge in charges.iter().filter(|charge| charge.limit.holds_slots()) {
                let shard = self.access.caller.shards.of(&charge.key.tag)?;
                if !shard.confirmation.holds(shard.client.connection()) {
                    is_confirmed = false;
                    // Nobody waits for a server that does not answer.
                    if shard.in_flight.fails() || !shard.client.is_up() {
                        return Err(StoreError::NotAsked);
                    }
                }
            }
            if is_confirmed {
                return Ok(());
            }
            self.registry().wanted.notify_one();
            if tokio::time::timeout_at(until.into(), progress)
                .await
                .is_err()
            {
                return Err(StoreError::NotAsked);
            }
        }
    }

    /// Gives back the slots with this ID.
    pub(crate) async fn free(&self, charge: &Charge<'_>, hold: HoldId) {
        let receipt = Receipt { until: 0, hold };
        self.give_back(charge, receipt).await;
    }

    /// Holds the slots with this ID for another lease; they are taken again if they are missing. When this ends, it is
    /// done or will not be done any more.
    ///
    /// # Errors
    ///
    /// It is not known to be done. An answer that these slots cannot be held is none of these errors.
    pub(crate) async fn hold_slots(
        &self,
        charge: &Charge<'_>,
        hold: HoldId,
    ) -> Result<(), StoreError> {
        let renewing = self.access.caller.renew(charge, hold, self.access.timeout);
        let answer = tokio::time::timeout(LONGEST, renewing).await;
        match answer.unwrap_or(Err(StoreError::Timeout)) {
            Err(error) if error.is_about_keys() && !error.is_moving() => Ok(()),
            answer => answer,
        }
    }
}

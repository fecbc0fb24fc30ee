//! Calls about the holds of a running request in Redis.
//!
//! While a hold of `concurrency` may be missing on its server, this server gets no calls for decisions on limits of `concurrency`, because
//! its answers would count too few requests. So a gateway never gives the units of its own running request to another request.

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::HoldId;
use tidegate_redis::Shard;

use super::Exact;
use crate::redis::script::caller::compensation::LONGEST;
use crate::{Charge, StoreError};

impl Exact {
    /// Ends a hold, and charges the real cost.
    ///
    /// # Errors
    ///
    /// It is unknown whether the hold has ended.
    pub(crate) async fn end(
        &self,
        charge: &Charge<'_>,
        hold: HoldId,
        used: u64,
    ) -> Result<(), StoreError> {
        let call = self.access.caller.ended(charge, hold, used);
        let answer = tokio::time::timeout(LONGEST, self.access.caller.send(&call)).await;
        match answer.unwrap_or(Err(StoreError::Timeout))?.as_slice() {
            // The calendar's windows changed before both attempts, so the script did not run.
            [_, -1] => Err(StoreError::Late),
            _ => Ok(()),
        }
    }

    /// Renews a hold, or takes it again if it is missing. When this returns, the renewal has run, or will never run.
    ///
    /// # Errors
    ///
    /// It is unknown whether the renewal ran. If the script cannot read the data under the keys, this returns no error.
    pub(crate) async fn renew(&self, charge: &Charge<'_>, hold: HoldId) -> Result<(), StoreError> {
        let renewing = self.access.caller.renew(charge, hold, self.access.timeout);
        let answer = tokio::time::timeout(LONGEST, renewing).await;
        match answer.unwrap_or(Err(StoreError::Timeout)) {
            Err(error) if error.is_about_keys() && !error.is_moving() => Ok(()),
            answer => answer,
        }
    }

    /// Sets the time that this process assumes for the clock of the charge's server.
    #[cfg(test)]
    pub(crate) fn believe(&self, charge: &Charge<'_>, time: tidegate_core::Micros) {
        if let Ok(shard) = self.access.caller.shards.of(&charge.key.tag) {
            shard.in_flight.saw(time, std::time::Instant::now());
        }
    }

    /// Returns the server with the holds of this charge, if there is one.
    pub(crate) fn server_of(&self, charge: &Charge<'_>) -> Option<Arc<Shard>> {
        let shard = self.access.caller.shards.of(&charge.key.tag);
        shard.ok()
    }

    /// Returns all servers.
    pub(crate) fn servers(&self) -> Vec<Arc<Shard>> {
        let all = self.access.caller.shards.all().unwrap_or_default();
        all.into_iter().map(|(_, shard)| shard).collect()
    }

    /// Waits until the servers of these charges have all holds of `concurrency` of this process.
    pub(super) async fn confirmed(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<(), StoreError> {
        loop {
            let progress = self.registry().progress.notified();
            let mut is_confirmed = true;
            for charge in charges.iter().filter(|it| it.limit.counts_running()) {
                let shard = self.access.caller.shards.of(&charge.key.tag)?;
                if !shard.confirmation.holds(shard.client.connection()) {
                    is_confirmed = false;
                    // No request waits for a server that does not answer.
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
}

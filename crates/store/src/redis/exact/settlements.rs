//! What is told to Redis of a charge after its decision.

use tidegate_core::{Micros, Receipt};

use super::Exact;
use crate::redis::script::caller::compensation::LONGEST;
use crate::{Charge, StoreError};

impl Exact {
    /// Settles the reservation of the time `charged` with this receipt: `used` is what it has come to.
    ///
    /// # Errors
    ///
    /// It is not known to be settled, and may be.
    pub(crate) async fn settle(
        &self,
        charge: &Charge<'_>,
        receipt: Receipt,
        charged: Micros,
        used: u64,
    ) -> Result<(), StoreError> {
        let call = self.access.caller.settled(charge, receipt, charged, used);
        let answer = tokio::time::timeout(LONGEST, self.access.caller.send(&call)).await;
        match answer.unwrap_or(Err(StoreError::Timeout))?.as_slice() {
            // A calendar's windows were others twice.
            [_, -1] => Err(StoreError::Late),
            _ => Ok(()),
        }
    }

    /// The time by the clock of the server that keeps this charge, as far as is known.
    pub(crate) fn time_of(&self, charge: &Charge<'_>) -> Option<Micros> {
        self.access.caller.shards.now(&charge.key.tag)
    }

    /// Lets the clock of the server that keeps this charge be believed to show this time.
    #[cfg(test)]
    pub(crate) fn believe(&self, charge: &Charge<'_>, time: Micros) {
        if let Ok(shard) = self.access.caller.shards.of(&charge.key.tag) {
            shard.in_flight.saw(time, std::time::Instant::now());
        }
    }

    /// Takes back what was charged, as far as it still counts.
    pub(crate) async fn give_back(&self, charge: &Charge<'_>, receipt: Receipt) {
        let call = self.access.caller.by_receipt(charge, receipt);
        // What is lost goes unused.
        let _ = tokio::time::timeout(LONGEST, self.access.caller.send(&call)).await;
    }

    /// Holds a reservation with this ID for another lease; when it lapses then, if it is there and Redis answers.
    pub(crate) async fn extend(&self, charge: &Charge<'_>, id: u64) -> Option<Micros> {
        let call = self.access.caller.extended(charge, id);
        let answer = tokio::time::timeout(LONGEST, self.access.caller.send(&call)).await;
        match answer.ok()?.ok()?.as_slice() {
            [_, renewed] if *renewed > 0 => Micros::try_from(*renewed).ok(),
            _ => None,
        }
    }
}

//! What requests hold at given times: for those who replay requests of the past.

use tidegate_core::{HoldId, Micros, Receipt};

use super::MemoryStore;
use crate::table::Settlement;
use crate::{Charge, Decision};

impl MemoryStore {
    /// Ends what the charge with this index holds by `decision`, at a given time. `used` is what a reservation has come to; none: all
    /// of it.
    pub fn end_at(
        &self,
        (charge, index): (&Charge<'_>, usize),
        decision: &Decision,
        used: Option<u64>,
        now: Micros,
    ) {
        let verdicts = decision.verdicts.iter().zip(&decision.sources);
        let Some((Some(verdict), source)) = verdicts.into_iter().nth(index) else {
            return;
        };
        let quota = charge.limit.quota();
        let receipt = Receipt {
            until: source.at + verdict.reset,
            hold: HoldId(source.hold),
        };
        if charge.limit.reserves().is_none() {
            return self.table.give_back(charge, quota, receipt, now);
        }
        let settlement = Settlement {
            quota,
            receipt,
            used: used.unwrap_or(charge.cost),
            now,
        };
        self.table.settle_at(charge, &settlement);
    }

    /// Holds for another lease, from a given time on, what the charge with this index holds by `decision`.
    pub fn renew_at(
        &self,
        (charge, index): (&Charge<'_>, usize),
        decision: &Decision,
        now: Micros,
    ) {
        let source = decision.sources.get(index);
        let hold = source.map_or(0, |source| source.hold);
        let quota = charge.limit.quota();
        match charge.limit.reserves() {
            Some(_) => _ = self.table.extend(charge, quota, hold, now),
            None => _ = self.table.hold_slots(charge, quota, HoldId(hold), now),
        }
    }

    /// Drops the keys that have expired at a given time.
    pub fn sweep_at(&self, now: Micros) {
        self.table.sweep_all(now);
    }
}

//! What requests hold at given times: for those who replay requests of the past.

use tidegate_core::Micros;

use super::MemoryStore;
use crate::{Charge, Decision};

impl MemoryStore {
    /// Ends what the charge with this index holds by `decision`, at a given time. `used` is what its request has come to. None: the reserved
    /// units.
    pub fn end_at(
        &self,
        (charge, index): (&Charge<'_>, usize),
        decision: &Decision,
        used: Option<u64>,
        now: Micros,
    ) {
        if let Some(source) = decision.sources.get(index) {
            let used = match charge.limit.counts_running() {
                true => 0,
                false => used.unwrap_or(charge.cost),
            };
            let quota = charge.limit.quota();
            self.table.end(charge, quota, source.hold, used, now);
        }
    }

    /// Renews, at a given time, what the charge with this index holds by `decision`.
    pub fn renew_at(
        &self,
        (charge, index): (&Charge<'_>, usize),
        decision: &Decision,
        now: Micros,
    ) {
        if let Some(source) = decision.sources.get(index) {
            let quota = charge.limit.quota();
            self.table.renew(charge, quota, source.hold, now);
        }
    }

    /// Drops the keys that have expired at a given time.
    pub fn sweep_at(&self, now: Micros) {
        self.table.sweep_all(now);
    }
}

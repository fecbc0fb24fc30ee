//! Ends and renews holds at given times, for replays of past requests.

use tidegate_core::Micros;

use super::MemoryStore;
use crate::{Charge, Decision};

impl MemoryStore {
    /// Ends the hold of the charge with this index in `decision`, at a given time. `used` is the real cost of the request. If it is `None`,
    /// the reserved units are charged.
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

    /// Renews the hold of the charge with this index in `decision`, at a given time.
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

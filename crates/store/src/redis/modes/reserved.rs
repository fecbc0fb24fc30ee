//! The charges that this process holds for a request until all of its limits have decided.

use tidegate_core::{HoldId, Micros, Quota};

use super::super::leased::Spent;
use super::{Modes, Part};
use crate::{Charge, Decision, Outcome, PerCharge};

impl Modes {
    /// Ends the reservation of a charge after the decision on its request.
    fn end(&self, charge: &Charge<'_>, how: How, is_admitted: bool) {
        match how {
            How::Leased(spent) if !is_admitted => self.leased.put_back(charge, spent),
            How::Synced(start) if !is_admitted => self.synced.uncount(charge, start),
            // The hold lasts until its request ends.
            How::Here(..) if is_admitted && charge.limit.lease().is_some() => {}
            How::Here(quota, hold) => {
                // A cost above the capacity counts as the capacity.
                let cost = charge.cost.min(quota.capacity());
                let used = if is_admitted { cost } else { 0 };
                let memory = &self.fallback.memory;
                memory.table().end(charge, &quota, hold, used, crate::now());
                let key = charge.limit_key();
                memory.registry().watchers.notify(key);
            }
            _ => {}
        }
    }

    /// Adds to `reserved` the charges that this process holds because Redis did not answer.
    pub(super) fn reserve_shares<'a>(
        &self,
        charges: &[Charge<'a>],
        left: &Part,
        part: &Decision,
        reserved: &mut Reserved<'a>,
    ) {
        if part.outcome != Outcome::Admitted {
            return;
        }
        let verdicts = part.verdicts.iter().zip(&part.sources);
        for (index, (verdict, source)) in left.0.iter().zip(verdicts) {
            // An observed limit holds no units of a request that it would have refused.
            if verdict.is_some_and(|verdict| verdict.allowed) {
                let charge = charges[*index];
                let share = self.fallback.share(charge.limit);
                let how = How::Here(share, source.hold);
                reserved.kept.push((*index, charge, how));
            }
        }
    }
}

/// The reserved charges. When this value is dropped, the reservations end, and no unit is charged.
pub(super) struct Reserved<'a> {
    pub(super) modes: &'a Modes,
    pub(super) kept: PerCharge<(usize, Charge<'a>, How)>,
}

/// The place of a reservation.
pub(super) enum How {
    /// In a slice.
    Leased(Spent),
    /// In the counts of the window that started at this time.
    Synced(Micros),
    /// In the memory store, by this quota, as the hold with this ID.
    Here(Quota, HoldId),
}

impl Reserved<'_> {
    /// Charges all reservations if the request is admitted. Otherwise ends the reservations, and adds their units back to the `remaining`
    /// of the verdicts.
    pub(super) fn end(mut self, decision: &mut Decision) {
        let is_admitted = decision.outcome == Outcome::Admitted;
        for (index, charge, how) in std::mem::take(&mut self.kept) {
            let units = match &how {
                How::Here(quota, _) => charge.cost.min(quota.capacity()),
                How::Leased(_) | How::Synced(_) => charge.cost,
            };
            self.modes.end(&charge, how, is_admitted);
            if !is_admitted && let Some(verdict) = &mut decision.verdicts[index] {
                verdict.remaining += units;
            }
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        for (_, charge, how) in self.kept.drain(..) {
            self.modes.end(&charge, how, false);
        }
    }
}

//! How fast charges are paid off, and what is still owed of a charge that several paces may have paid off.

use super::Meter;
use super::weights::weighed_down;
use crate::numbers::{MAX_EXACT, Micros};

/// How fast a quota pays a charge off: `pay` of the `weight` of one unit in each microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    weight: u64,
    pay: u64,
}

impl Meter {
    pub(crate) const fn pace(&self) -> Pace {
        let [_, weight, pay, _] = self.numbers();
        Pace { weight, pay }
    }
}

impl Pace {
    /// How long so many units take to be paid off.
    pub(crate) fn time(self, cost: u64) -> Micros {
        cost.saturating_mul(self.weight).div_ceil(self.pay)
    }

    /// The receipt by which a reservation of the time `charged` is given back if its own receipt does not tell what is owed.
    /// Charges of several paces may have paid the reservation off, or too many others have given back. So much of the reservation
    /// is surely still owed as the fastest of `paces` would have left if nothing else had been owed.
    pub(crate) fn bounded(
        self,
        receipt: Micros,
        paces: &[Self],
        cost: u64,
        charged: Micros,
        now: Micros,
    ) -> Micros {
        let elapsed = now.saturating_sub(charged);
        let left = |pace: &Self| match cost.checked_mul(pace.weight) {
            Some(owed) if owed <= MAX_EXACT && elapsed < owed.div_ceil(pace.pay) => {
                weighed_down(owed - elapsed * pace.pay, pace.weight, self.weight)
            }
            _ => 0,
        };
        let unpaid = paces.iter().map(left).min().unwrap_or(MAX_EXACT);
        receipt.min(now + 1 + unpaid.min(cost * self.weight) / self.pay)
    }
}

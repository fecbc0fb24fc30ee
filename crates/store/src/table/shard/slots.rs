//! Slots that requests hold under a key, by their IDs.

use tidegate_core::{Hold, HoldId, Micros, Quota, Receipt, State};

use super::{Entry, Held, Shard};
use crate::Charge;
use crate::charge::LimitKey;

impl Shard {
    /// Takes back what was charged under a key, or for newcomers together.
    pub(in crate::table) fn give_back(
        &mut self,
        key: &LimitKey,
        quota: &Quota,
        cost: u64,
        receipt: Receipt,
        now: Micros,
    ) {
        if let Some(entry) = self.entry_of(key, receipt.hold) {
            entry.change(quota, now, |held| {
                quota.give_back_held(&mut held.state, cost, receipt, now);
            });
        }
    }

    /// Holds slots for another lease, wherever they were taken; they are taken again if they are missing.
    pub(in crate::table) fn hold_slots(
        &mut self,
        key: LimitKey,
        charge: &Charge<'_>,
        quota: &Quota,
        hold: Hold,
        now: Micros,
    ) {
        let renew = |held: &mut Held| {
            if let State::Concurrency(slots) = &mut held.state {
                slots.hold(hold, now + hold.lease, now);
            }
        };
        if let Some(entry) = self.entry_of(&key, hold.id) {
            if entry.expires <= now {
                entry.content = Held::fresh(quota);
            }
            return entry.change(quota, now, renew);
        }
        let (mut held, room) = self.take_new(key, charge, quota, now);
        renew(&mut held);
        let verdict = quota.check(&mut held.state, 1, now);
        let slot = held.slot(charge, quota, hold.id.0);
        self.put(key, charge.origin, room, slot, Some(&verdict));
    }

    /// The entry that is charged for a request: that of its key, unless only the one for newcomers has its slots.
    fn entry_of(&mut self, key: &LimitKey, id: HoldId) -> Option<&mut Entry> {
        let has = |entry: &Entry| match &entry.content.state {
            State::Concurrency(slots) => slots.has(id),
            _ => false,
        };
        let shared = self.shared.get_mut(&key.shared());
        let is_shared = shared.as_deref().is_some_and(has);
        match self.entries.get_mut(key) {
            Some(own) if !is_shared || has(own) => Some(own),
            _ => shared,
        }
    }
}

//! How a reservation is settled in a shard: in its own entry, in that of newcomers, or without a record.

use tidegate_core::{HoldId, Micros, Quota, Receipt};

use super::{Entry, Held, Room, Shard};
use crate::Charge;
use crate::charge::LimitKey;

/// How a reservation is settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settlement<'a> {
    /// The numbers by which it was reserved.
    pub(crate) quota: &'a Quota,
    pub(crate) receipt: Receipt,
    /// What the request has come to.
    pub(crate) used: u64,
    pub(crate) now: Micros,
}

impl Shard {
    /// Settles a reservation of `charge`, wherever its record is.
    ///
    /// A reservation without a record has lost its room, and its charge with it: nothing is given back. What it has come
    /// to beyond its cost is charged to its key, which gets a place again if need be. A budget that newcomers share is used
    /// up at most: a debt is nobody else's.
    pub(in crate::table) fn settle(
        &mut self,
        key: LimitKey,
        charge: &Charge<'_>,
        settlement: &Settlement<'_>,
    ) {
        let Settlement {
            quota, used, now, ..
        } = *settlement;
        let Receipt { until, hold } = settlement.receipt;
        let HoldId(id) = hold;
        if self.forgotten.remove(&id) {
            return;
        }
        let cost = charge.cost.min(quota.capacity());
        let slot =
            |held: &mut Held| std::mem::replace(held, Held::fresh(quota)).slot(charge, quota, 0);
        let used_of_shared = |held: &mut Held| {
            let left = quota.check(&mut held.state, 1, now).remaining;
            used.min(cost + left)
        };
        let has = |entry: &&mut Entry| entry.content.unsettled.has(id);
        if let Some(entry) = self.entries.get_mut(&key).filter(has) {
            return entry.change(quota, now, |held| {
                let mut slot = slot(held);
                slot.settle(id, used, until, now);
                *held = Held::of(slot);
            });
        }
        if let Some(entry) = self.shared.get_mut(&key.shared()).filter(has) {
            return entry.change(quota, now, |held| {
                let used = used_of_shared(held);
                let mut slot = slot(held);
                slot.settle(id, used, until, now);
                *held = Held::of(slot);
            });
        }
        if used <= cost {
            return;
        }
        let charge_rest = |held: &mut Held, used: u64| {
            let mut slot = slot(held);
            slot.come_to(cost, used, until, now);
            *held = Held::of(slot);
        };
        if let Some(entry) = self.entries.get_mut(&key) {
            return entry.change(quota, now, |held| charge_rest(held, used));
        }
        let (mut held, room) = self.take_new(key, charge, quota, now);
        let used = match room {
            Room::Shared => used_of_shared(&mut held),
            Room::Own | Room::New(_) => used,
        };
        charge_rest(&mut held, used.max(cost));
        let verdict = quota.check(&mut held.state, 1, now);
        let slot = held.slot(charge, quota, 0);
        self.put(key, charge.origin, room, slot, Some(&verdict));
    }
}

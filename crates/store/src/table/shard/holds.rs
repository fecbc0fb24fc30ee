//! Holds under a key, by their IDs.

use tidegate_core::{Hold, HoldId, Micros, Quota};

use super::{Entry, KeyState, Room, Shard};
use crate::Charge;
use crate::charge::LimitKey;

impl Shard {
    /// Ends a hold, and charges the real cost. On a budget that new keys share, it charges no more than the units left.
    pub(in crate::table) fn end(
        &mut self,
        key: &LimitKey,
        charge: &Charge<'_>,
        quota: &Quota,
        (hold, used): (HoldId, u64),
        now: Micros,
    ) {
        let Some((entry, is_shared)) = self.entry_of(key, hold) else {
            return;
        };
        entry.change(quota, now, |held| {
            let mut budget =
                std::mem::replace(held, KeyState::fresh(quota)).budget(charge, quota, hold);
            // The hold ends first: the check may drop other lapsed holds, and must not count this one.
            budget.end(hold, 0, now);
            let most = match is_shared {
                true => budget.check(now).remaining,
                false => Micros::MAX,
            };
            budget.charge(used.min(most), now);
            *held = KeyState::of(budget);
        });
    }

    /// Renews a hold, also on a shared budget, or takes it again if it is missing.
    pub(in crate::table) fn renew(
        &mut self,
        key: LimitKey,
        charge: &Charge<'_>,
        quota: &Quota,
        hold: Hold,
        now: Micros,
    ) {
        if let Some((entry, _)) = self.entry_of(&key, hold.id) {
            return entry.change(quota, now, |held| held.holds.take(hold, now));
        }
        let (mut held, room) = match self.take(&key, quota, now) {
            Some(held) => (held, Room::Own),
            None => self.take_new(key, charge, quota, now),
        };
        held.holds.take(hold, now);
        let mut budget = held.budget(charge, quota, hold.id);
        let verdict = budget.check(now);
        self.put(key, charge.origin, room, budget, Some(&verdict));
    }

    /// Returns the entry with this hold, and whether new keys share it.
    fn entry_of(&mut self, key: &LimitKey, hold: HoldId) -> Option<(&mut Entry, bool)> {
        let has = |entry: &&mut Entry| entry.content.holds.has(hold);
        if let Some(own) = self.entries.get_mut(key).filter(has) {
            return Some((own, false));
        }
        let shared = self.shared.get_mut(&key.shared()).filter(has);
        shared.map(|entry| (entry, true))
    }
}

//! One shard of the memory store: a bounded map, and the rule by which new keys replace others.

mod holds;
mod occupancy;
mod room;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use tidegate_core::{Budget, HoldId, KeyHolds, Micros, Quota, State, Verdict};

use super::MemoryUse;
use crate::Charge;
use crate::charge::{LimitKey, Origin};
use occupancy::Occupancy;

pub(super) use occupancy::Shared;

/// The used share of a quota, in per mille, from which a key is not replaced.
const KEPT_FROM: u16 = 500;

/// The place of a key's state, before and after the decision.
#[derive(Clone, Copy, Debug)]
pub(super) enum Room {
    /// The entry that the key already has.
    Own,
    /// A place of its own if the key is charged: a free place, or the place of the named key, which is then removed.
    New(Option<LimitKey>),
    /// The budget that new keys share while there is no room.
    Shared,
}

/// The state of a key.
#[derive(Clone, Debug)]
pub(crate) struct KeyState {
    pub(crate) state: State,
    /// The end of the key's block. 0 or a past time if the key is not blocked.
    pub(crate) blocked_until: Micros,
    /// The holds of requests.
    pub(crate) holds: KeyHolds,
}

impl KeyState {
    /// Returns the state that a budget has after its decision.
    pub(crate) fn of(budget: Budget<'_>) -> Self {
        Self {
            state: budget.state,
            blocked_until: budget.blocked_until,
            holds: budget.holds,
        }
    }

    /// Returns the budget for a decision on a charge. A cost above the quota's capacity is cut to this capacity. `hold` is the ID of the
    /// charge's hold.
    pub(crate) fn budget<'q>(
        self,
        charge: &Charge<'_>,
        quota: &'q Quota,
        hold: HoldId,
    ) -> Budget<'q> {
        Budget {
            quota,
            state: self.state,
            cost: charge.cost.min(quota.capacity()),
            observed: charge.limit.is_observed(),
            block: charge.limit.block(),
            blocked_until: self.blocked_until,
            lease: charge.limit.lease(),
            hold,
            holds: self.holds,
            left_in_front: None,
        }
    }

    pub(crate) fn fresh(quota: &Quota) -> Self {
        Self {
            state: quota.fresh(),
            blocked_until: 0,
            holds: KeyHolds::default(),
        }
    }

    /// Returns the time from which this state affects no decision.
    fn expires(&self, quota: &Quota) -> Micros {
        let state = quota.expires(&self.state);
        let expires = state.max(self.blocked_until);
        match self.holds.last() {
            0 => expires,
            last => expires.max(last).max(quota.counts_until(last)),
        }
    }
}

#[derive(Debug)]
struct Entry {
    content: KeyState,
    expires: Micros,
    // The used share of the quota at the last charge, in per mille.
    used: u16,
    // Whether the current decision uses the entry, or may give its place to a new key.
    held: bool,
    origin: Option<Origin>,
}

impl Entry {
    /// Creates an entry with this share of its quota in use, in per mille.
    fn new(budget: Budget<'_>, used: u16, origin: Option<Origin>) -> Self {
        let quota = budget.quota;
        let content = KeyState::of(budget);
        let mut entry = Self {
            expires: content.expires(quota),
            used,
            content,
            held: false,
            origin,
        };
        entry.keep_needed();
        entry
    }

    /// Takes the state for a decision. If the state has expired, returns a fresh state, because Redis deletes expired keys as well.
    fn take(&mut self, quota: &Quota, now: Micros) -> KeyState {
        let content = std::mem::replace(&mut self.content, KeyState::fresh(quota));
        if self.expires <= now {
            return KeyState::fresh(quota);
        }
        content
    }

    /// Stores the state after a decision. Even without a charge, the state may have changed, because a check moves stamps back after the
    /// clock stepped back.
    fn put(&mut self, budget: Budget<'_>, charged: Option<&Verdict>) {
        let quota = budget.quota;
        self.content = KeyState::of(budget);
        self.held = false;
        let expires = self.content.expires(quota);
        if let Some(verdict) = charged {
            self.expires = expires;
            self.used = share_used(quota, &self.content.state, verdict);
        } else {
            // Without a charge, the expiry never moves earlier: after a reload, a refusal may use a shorter period than the charges did.
            self.expires = self.expires.max(expires);
        }
        self.keep_needed();
    }

    /// Changes the state, and updates its expiry and its used share. The expiry never moves earlier.
    fn change<T>(
        &mut self,
        quota: &Quota,
        now: Micros,
        change: impl FnOnce(&mut KeyState) -> T,
    ) -> T {
        let changed = change(&mut self.content);
        self.expires = self.expires.max(self.content.expires(quota));
        let verdict = quota.check(&mut self.content.state, 1, now);
        self.used = share_used(quota, &self.content.state, &verdict);
        self.keep_needed();
        changed
    }

    /// Keeps a key in its place if it is blocked, or if a request holds units under it.
    fn keep_needed(&mut self) {
        if self.content.blocked_until > 0 || self.content.holds.units() > 0 {
            self.used = KEPT_FROM.max(self.used);
        }
    }
}

fn share_used(quota: &Quota, state: &State, verdict: &Verdict) -> u16 {
    if let Some(used) = quota.used_share(state) {
        return (used * 1000.0) as u16;
    }
    let capacity = quota.capacity();
    let left = verdict.remaining.min(capacity) as f64 / capacity as f64;
    ((1.0 - left) * 1000.0) as u16
}

/// A bounded map from keys to states.
#[derive(Debug)]
pub(super) struct Shard {
    entries: IndexMap<LimitKey, Entry, RandomState>,
    // The budgets that new keys share. There is at most one per limit, so the configuration bounds their number.
    shared: IndexMap<LimitKey, Entry, RandomState>,
    capacity: usize,
    occupancy: Occupancy,
    // The number of free places that are reserved for new keys of the current decision.
    promised: usize,
    // The index of the last entry that a search for room looked at.
    hand: usize,
    usage: MemoryUse,
}

impl Shard {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: IndexMap::default(),
            shared: IndexMap::default(),
            capacity,
            occupancy: Occupancy::new(capacity),
            promised: 0,
            hand: 0,
            usage: MemoryUse::default(),
        }
    }

    /// Takes out the state of a key that has an entry; [`Shard::put`] must follow.
    pub(super) fn take(&mut self, key: &LimitKey, quota: &Quota, now: Micros) -> Option<KeyState> {
        let entry = self.entries.get_mut(key)?;
        entry.held = true;
        Some(entry.take(quota, now))
    }

    /// Takes the state of a key without an entry, and finds room for it. [`Shard::put`] must follow. All keys of the decision that have
    /// entries must be taken before, so that no new key replaces them.
    pub(super) fn take_new(
        &mut self,
        key: LimitKey,
        charge: &Charge<'_>,
        quota: &Quota,
        now: Micros,
    ) -> (KeyState, Room) {
        let crowded = match self.find_room(key.limit, charge.origin, now) {
            Ok(room) => return (KeyState::fresh(quota), room),
            Err(crowded) => crowded,
        };
        self.usage.shared += 1;
        self.occupancy.share(charge, crowded);
        let entry = self.shared.get_mut(&key.shared());
        let held = entry.map_or_else(|| KeyState::fresh(quota), |entry| entry.take(quota, now));
        (held, Room::Shared)
    }

    /// Stores the state of a key after its decision. `charged` is the verdict if the key was charged. A new key counts toward the keys of
    /// `origin`.
    pub(super) fn put(
        &mut self,
        key: LimitKey,
        origin: Option<Origin>,
        room: Room,
        budget: Budget<'_>,
        charged: Option<&Verdict>,
    ) {
        let charged = charged.filter(|_| budget.counts());
        match room {
            Room::Own => {
                if let Some(entry) = self.entries.get_mut(&key) {
                    entry.put(budget, charged);
                }
            }
            Room::New(leaving) => {
                self.clear(leaving, charged.is_some());
                if let Some(entry) = self.entries.get_mut(&key) {
                    entry.put(budget, charged);
                    return;
                }
                // A new key that is blocked without a charge is blocked because of Redis's last answer. Such a key may take a free place,
                // but replaces no key.
                let is_blocked = budget.blocked_until > 0 && leaving.is_none();
                let used = match charged {
                    Some(verdict) => Some(share_used(budget.quota, &budget.state, verdict)),
                    None => is_blocked.then_some(KEPT_FROM),
                };
                if let Some(used) = used {
                    self.occupancy.add(&key, origin);
                    self.entries.insert(key, Entry::new(budget, used, origin));
                }
            }
            Room::Shared => {
                let key = key.shared();
                if let Some(entry) = self.shared.get_mut(&key) {
                    entry.put(budget, charged);
                } else if let Some(verdict) = charged {
                    let used = share_used(budget.quota, &budget.state, verdict);
                    self.shared.insert(key, Entry::new(budget, used, None));
                }
            }
        }
    }

    /// Returns the present verdict on a charge, and whether its key is blocked. `None` if the key has no unexpired entry. Charges no unit,
    /// and copies no state.
    pub(super) fn look(
        &mut self,
        key: &LimitKey,
        charge: &Charge<'_>,
        now: Micros,
    ) -> Option<(Verdict, bool)> {
        let quota = charge.limit.quota();
        let entry = self.entries.get_mut(key)?;
        if entry.expires <= now {
            return None;
        }
        let held = entry.take(quota, now);
        let is_blocked = held.blocked_until > now;
        let mut budget = held.budget(charge, quota, HoldId(0));
        let verdict = budget.check(now);
        entry.put(budget, None);
        Some((verdict, is_blocked))
    }

    /// Returns a copy of the state of a key that has an unexpired entry.
    pub(super) fn held(&self, key: &LimitKey, now: Micros) -> Option<KeyState> {
        let entry = self.entries.get(key)?;
        (entry.expires > now).then(|| entry.content.clone())
    }

    /// Returns the keys with an unexpired entry.
    pub(super) fn keys(&self, now: Micros) -> impl Iterator<Item = &LimitKey> {
        let entries = self.entries.iter();
        entries.filter_map(move |(key, entry)| (entry.expires > now).then_some(key))
    }

    /// Removes a key, with its used units and its holds.
    pub(super) fn forget(&mut self, key: &LimitKey) {
        if let Some(entry) = self.entries.swap_remove(key) {
            self.occupancy.remove(key, entry.origin);
        }
    }

    pub(super) fn sweep(&mut self, now: Micros) {
        let occupancy = &mut self.occupancy;
        self.entries.retain(|key, entry| {
            let stays = entry.expires > now;
            if !stays {
                occupancy.remove(key, entry.origin);
            }
            stays
        });
        occupancy.shrink();
        if self.entries.capacity() > 4 * self.entries.len().max(64) {
            self.entries.shrink_to(2 * self.entries.len());
        }
        self.shared.retain(|_, entry| entry.expires > now);
    }

    pub(super) fn usage(&self) -> MemoryUse {
        MemoryUse {
            keys: self.entries.len() + self.shared.len(),
            ..self.usage
        }
    }

    /// Divides the floors among this number of limits.
    pub(super) fn divide(&mut self, limits: usize) {
        self.occupancy.divide(limits);
    }

    /// Returns the decisions that were made on shared budgets, by limit.
    pub(super) fn shared(&self) -> impl Iterator<Item = &Shared> {
        self.occupancy.shared()
    }
}

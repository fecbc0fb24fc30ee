//! One shard of the memory store: a bounded map, and who makes place for whom.

mod settle;
mod slots;

use std::collections::HashSet;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use tidegate_core::{HoldId, Micros, Quota, Reservations, Slot, State, Verdict};

use super::MemoryUse;
use crate::Charge;
use crate::charge::LimitKey;

pub(crate) use settle::Settlement;

/// How many keys a newcomer looks at to find a place in a full shard.
const SAMPLE: usize = 8;

/// From this share of its quota on, in per mille, a key is not flushed for a newcomer.
const KEPT_FROM: u16 = 500;

/// Where a key's state comes from, and where it goes once it is decided.
#[derive(Clone, Copy, Debug)]
pub(super) enum Room {
    /// An entry of its own.
    Own,
    /// If it is charged, a place of its own: a free one, or that of the named key, which then has to go.
    New(Option<LimitKey>),
    /// The budget that newcomers share, as there is no room.
    Shared,
}

/// What is kept under a key.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) state: State,
    /// Until when it is blocked; 0, or any time that has passed, if it is not.
    pub(crate) blocked_until: Micros,
    /// The reservations that are not settled.
    pub(crate) unsettled: Reservations,
}

impl Held {
    /// What a slot holds after its decision.
    pub(crate) fn of(slot: Slot<'_>) -> Self {
        Self {
            state: slot.state,
            blocked_until: slot.blocked_until,
            unsettled: slot.unsettled,
        }
    }

    /// The slot to decide a charge in, at a cost that the quota can fit. What it holds has this ID.
    pub(crate) fn slot<'q>(self, charge: &Charge<'_>, quota: &'q Quota, hold: u64) -> Slot<'q> {
        Slot {
            quota,
            state: self.state,
            cost: charge.cost.min(quota.capacity()),
            observed: charge.limit.is_observed(),
            block: charge.limit.block(),
            blocked_until: self.blocked_until,
            reserves: charge.limit.reserves(),
            hold: HoldId(hold),
            unsettled: self.unsettled,
        }
    }

    pub(crate) fn fresh(quota: &Quota) -> Self {
        Self {
            state: quota.fresh(),
            blocked_until: 0,
            unsettled: Reservations::default(),
        }
    }

    /// From when on nothing of it matters.
    fn expires(&self, quota: &Quota) -> Micros {
        let state = quota.expires(&self.state);
        state.max(self.blocked_until).max(self.unsettled.last())
    }
}

#[derive(Debug)]
struct Entry {
    content: Held,
    expires: Micros,
    // How much of the quota was used when it was last charged, in per mille.
    used: u16,
    // The decision that is being made needs it where it is, or its room.
    held: bool,
}

impl Entry {
    fn new(slot: Slot<'_>, verdict: &Verdict) -> Self {
        let quota = slot.quota;
        let content = Held::of(slot);
        Self {
            expires: content.expires(quota),
            used: share_used(quota, verdict),
            content,
            held: false,
        }
    }

    /// One that holds a block, and nothing that was charged here.
    fn blocked(slot: Slot<'_>) -> Self {
        let quota = slot.quota;
        let content = Held::of(slot);
        Self {
            expires: content.expires(quota),
            used: KEPT_FROM,
            content,
            held: false,
        }
    }

    /// What to decide on; nothing of what has expired, as Redis has nothing of it either.
    fn take(&mut self, quota: &Quota, now: Micros) -> Held {
        let content = std::mem::replace(&mut self.content, Held::fresh(quota));
        if self.expires <= now {
            return Held::fresh(quota);
        }
        content
    }

    /// Keeps a decided state, which may have changed without a charge: after a clock stepped back.
    fn put(&mut self, slot: Slot<'_>, charged: Option<&Verdict>) {
        let quota = slot.quota;
        self.content = Held::of(slot);
        self.held = false;
        let expires = self.content.expires(quota);
        if let Some(verdict) = charged {
            self.expires = expires;
            self.used = share_used(quota, verdict);
        } else {
            // A refusal by other numbers, of another plan, shortens nothing.
            self.expires = self.expires.max(expires);
        }
        self.keep_blocked();
    }

    /// Changes what is kept. It may then matter for longer, or its key have used more, or less.
    fn change<T>(&mut self, quota: &Quota, now: Micros, change: impl FnOnce(&mut Held) -> T) -> T {
        let changed = change(&mut self.content);
        self.expires = self.expires.max(self.content.expires(quota));
        let verdict = quota.check(&mut self.content.state, 1, now);
        self.used = share_used(quota, &verdict);
        self.keep_blocked();
        changed
    }

    /// Whoever is blocked is not flushed.
    fn keep_blocked(&mut self) {
        if self.content.blocked_until > 0 {
            self.used = KEPT_FROM.max(self.used);
        }
    }
}

fn share_used(quota: &Quota, verdict: &Verdict) -> u16 {
    let capacity = quota.capacity();
    let left = verdict.remaining.min(capacity) as f64 / capacity as f64;
    ((1.0 - left) * 1000.0) as u16
}

/// A bounded map from keys to states.
#[derive(Debug)]
pub(super) struct Shard {
    entries: IndexMap<LimitKey, Entry, RandomState>,
    // One entry per limit at most, so bounded by the configuration.
    shared: IndexMap<LimitKey, Entry, RandomState>,
    capacity: usize,
    // Free places that the decision that is being made may fill.
    promised: usize,
    // Where the next search for a place starts.
    hand: usize,
    // Reservations whose charges were forgotten, until they are settled. Each is one of a request that is under way.
    forgotten: HashSet<u64>,
    usage: MemoryUse,
}

impl Shard {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: IndexMap::default(),
            shared: IndexMap::default(),
            capacity,
            promised: 0,
            hand: 0,
            forgotten: HashSet::new(),
            usage: MemoryUse::default(),
        }
    }

    /// Takes out the state of a key that is known; [`Shard::put`] must follow.
    pub(super) fn take(&mut self, key: &LimitKey, quota: &Quota, now: Micros) -> Option<Held> {
        let entry = self.entries.get_mut(key)?;
        entry.held = true;
        Some(entry.take(quota, now))
    }

    /// The state of a key that is not known, and its room; [`Shard::put`] must follow. All known keys of the decision
    /// must have been taken before, so that none of them makes place for another.
    pub(super) fn take_new(&mut self, key: LimitKey, quota: &Quota, now: Micros) -> (Held, Room) {
        if let Some(room) = self.find_room(now) {
            return (Held::fresh(quota), room);
        }
        self.usage.shared += 1;
        let entry = self.shared.get_mut(&key.shared());
        let held = entry.map_or_else(|| Held::fresh(quota), |entry| entry.take(quota, now));
        (held, Room::Shared)
    }

    /// Puts a decided state back, charged with what `charged` says.
    pub(super) fn put(
        &mut self,
        key: LimitKey,
        room: Room,
        slot: Slot<'_>,
        charged: Option<&Verdict>,
    ) {
        // What was exceeded is known from elsewhere. A newcomer that is blocked gets a place that is free, and flushes nobody.
        let is_blocked = slot.blocked_until > 0 && matches!(room, Room::New(None));
        let (map, key) = match room {
            Room::Own => (&mut self.entries, key),
            Room::New(leaving) => {
                self.clear(leaving, charged.is_some());
                (&mut self.entries, key)
            }
            Room::Shared => (&mut self.shared, key.shared()),
        };
        if let Some(entry) = map.get_mut(&key) {
            entry.put(slot, charged);
        } else if let Some(verdict) = charged {
            map.insert(key, Entry::new(slot, verdict));
        } else if is_blocked {
            map.insert(key, Entry::blocked(slot));
        }
    }

    /// What the limit of a charge says now of a key that is known, and whether the key is blocked; charges nothing, and
    /// copies nothing.
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
        let mut slot = held.slot(charge, quota, 0);
        let verdict = slot.check(now);
        entry.put(slot, None);
        Some((verdict, is_blocked))
    }

    /// A copy of what is kept under a key that is known and has not expired.
    pub(super) fn held(&self, key: &LimitKey, now: Micros) -> Option<Held> {
        let entry = self.entries.get(key)?;
        (entry.expires > now).then(|| entry.content.clone())
    }

    /// Changes what is kept under a key, or for newcomers together; nothing if there is nothing.
    pub(super) fn change<T>(
        &mut self,
        key: &LimitKey,
        quota: &Quota,
        now: Micros,
        change: impl FnOnce(&mut Held) -> T,
    ) -> Option<T> {
        let own = self.entries.get_mut(key);
        let entry = own.or_else(|| self.shared.get_mut(&key.shared()))?;
        Some(entry.change(quota, now, change))
    }

    /// Forgets what was used under a key. Its reservations are settled by that.
    pub(super) fn forget(&mut self, key: &LimitKey) {
        if let Some(entry) = self.entries.swap_remove(key) {
            self.forgotten.extend(entry.content.unsettled.ids());
        }
    }

    pub(super) fn sweep(&mut self, now: Micros) {
        self.entries.retain(|_, entry| entry.expires > now);
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

    /// A place for a newcomer: a free one, or that of one of the next few keys that has expired. Else it is that of the least used
    /// of these keys, if it may go.
    fn find_room(&mut self, now: Micros) -> Option<Room> {
        if self.entries.len() + self.promised < self.capacity {
            self.promised += 1;
            return Some(Room::New(None));
        }
        let mut least: Option<(u16, usize)> = None;
        for _ in 0..SAMPLE.min(self.entries.len()) {
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &self.entries[self.hand];
            if entry.held {
                continue;
            }
            if entry.expires <= now {
                self.entries.swap_remove_index(self.hand);
                self.promised += 1;
                return Some(Room::New(None));
            }
            if least.is_none_or(|(used, _)| entry.used < used) {
                least = Some((entry.used, self.hand));
            }
        }
        let (_, index) = least.filter(|(used, _)| *used < KEPT_FROM)?;
        let (key, entry) = self.entries.get_index_mut(index)?;
        entry.held = true;
        Some(Room::New(Some(*key)))
    }

    /// Makes the place that [`Shard::find_room`] found, or leaves it as it is: a refused newcomer flushes nobody.
    fn clear(&mut self, leaving: Option<LimitKey>, charged: bool) {
        match leaving {
            None => self.promised -= 1,
            Some(key) if charged => {
                self.entries.swap_remove(&key);
                self.usage.evicted += 1;
            }
            Some(key) => {
                if let Some(entry) = self.entries.get_mut(&key) {
                    entry.held = false;
                }
            }
        }
    }
}

//! One shard of the memory store: a bounded map, and who makes place for whom.

use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use tidegate_core::{Micros, Quota, Slot, State, Verdict};

use super::MemoryUse;
use crate::{Charge, Subject};

/// How many keys a newcomer looks at to find a place in a full shard.
const SAMPLE: usize = 8;

/// From this share of its quota on, in per mille, a key is not flushed for a newcomer.
const KEPT_FROM: u16 = 500;

/// A limit (as a hash of its name and kind, so that state outlives a reload) and whom it is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    limit: u64,
    subject: Subject,
}

impl Key {
    pub(super) fn new(charge: &Charge<'_>, hasher: &RandomState) -> Self {
        Self {
            limit: hasher.hash_one(charge.limit.id()),
            subject: charge.subject,
        }
    }

    /// The budget that newcomers of this limit share while there is no place for their own.
    const fn shared(self) -> Self {
        Self {
            limit: self.limit,
            subject: Subject {
                tag: [0; 16],
                rest: [0; 16],
            },
        }
    }
}

#[derive(Debug)]
struct Entry {
    state: State,
    expires: Micros,
    // How much of the quota was used when it was last charged, in per mille.
    used: u16,
}

/// A bounded map from keys to states.
#[derive(Debug)]
pub(super) struct Shard {
    entries: IndexMap<Key, Entry, RandomState>,
    // One entry per limit at most, so bounded by the configuration.
    shared: IndexMap<Key, Entry, RandomState>,
    capacity: usize,
    // Where the next search for a place starts.
    hand: usize,
    usage: MemoryUse,
}

impl Shard {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: IndexMap::default(),
            shared: IndexMap::default(),
            capacity,
            hand: 0,
            usage: MemoryUse::default(),
        }
    }

    /// Takes out the state to decide on; [`Shard::put`] must follow. `key` becomes the shared one if there is no place.
    pub(super) fn take(&mut self, key: &mut Key, quota: &Quota, now: Micros) -> State {
        if let Some(entry) = self.entries.get_mut(key) {
            return std::mem::replace(&mut entry.state, quota.fresh());
        }
        if self.entries.len() < self.capacity || self.make_place(now) {
            return quota.fresh();
        }
        self.usage.shared += 1;
        *key = key.shared();
        let entry = self.shared.get_mut(key);
        entry.map_or_else(
            || quota.fresh(),
            |entry| std::mem::replace(&mut entry.state, quota.fresh()),
        )
    }

    /// Puts a decided state back, charged with what `charged` says.
    pub(super) fn put(&mut self, key: Key, slot: Slot<'_>, charged: Option<&Verdict>) {
        let map = if key == key.shared() {
            &mut self.shared
        } else {
            &mut self.entries
        };
        if let Some(verdict) = charged {
            let capacity = slot.quota.capacity();
            let left = verdict.remaining.min(capacity) as f64 / capacity as f64;
            let entry = Entry {
                expires: slot.quota.expires(&slot.state),
                used: ((1.0 - left) * 1000.0) as u16,
                state: slot.state,
            };
            map.insert(key, entry);
        } else if let Some(entry) = map.get_mut(&key) {
            entry.state = slot.state;
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

    /// Removes one of the next few keys: an expired one, else the least used one if it may go.
    fn make_place(&mut self, now: Micros) -> bool {
        let mut least: Option<(u16, usize)> = None;
        for _ in 0..SAMPLE.min(self.entries.len()) {
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &self.entries[self.hand];
            if entry.expires <= now {
                self.entries.swap_remove_index(self.hand);
                return true;
            }
            if least.is_none_or(|(used, _)| entry.used < used) {
                least = Some((entry.used, self.hand));
            }
        }
        let Some((used, index)) = least else {
            return false;
        };
        if used >= KEPT_FROM {
            return false;
        }
        self.entries.swap_remove_index(index);
        self.usage.evicted += 1;
        true
    }
}

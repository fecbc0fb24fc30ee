//! Finds a place for a new key: a free place, or the place of an existing key that it replaces.

use std::cmp::Reverse;

use tidegate_core::Micros;

use super::{KEPT_FROM, Room, Shard};
use crate::Crowded;
use crate::charge::{LimitKey, Origin};

/// The number of keys among which a new key looks for a place.
const SAMPLE: usize = 8;

/// The distance between two keys that a search looks at, as a difference of their indices. Neighbouring entries often belong to the same
/// limit, because they arrived at the same time. The distance is a prime, so that all keys are reached.
const STRIDE: usize = 7_919;

impl Shard {
    /// Finds a place for a new key. If no place is free, looks at the next few keys and drops the expired ones. If this frees no place,
    /// chooses which of the other keys the new key replaces: the least used key of the limit with the most keys.
    pub(super) fn find_room(
        &mut self,
        limit: u64,
        origin: Option<Origin>,
        now: Micros,
    ) -> Result<Room, Crowded> {
        let Err(mut crowded) = self.promise(limit, origin) else {
            return Ok(Room::New(None));
        };
        // The least used key of the limit with the most keys.
        let mut least: Option<(Reverse<usize>, u16, LimitKey)> = None;
        for _ in 0..SAMPLE.min(self.entries.len()) {
            let Some(hand) = (self.hand + STRIDE).checked_rem(self.entries.len()) else {
                break;
            };
            // If `STRIDE` is a multiple of the number of entries, the index does not change, so the search takes the next entry.
            let hand = match hand == self.hand {
                true => (hand + 1) % self.entries.len(),
                false => hand,
            };
            self.hand = hand;
            let Some((key, entry)) = self.entries.get_index(hand) else {
                break;
            };
            if entry.held {
                continue;
            }
            if entry.expires <= now {
                self.occupancy.remove(key, entry.origin);
                self.entries.swap_remove_index(hand);
                match self.promise(limit, origin) {
                    Ok(()) => return Ok(Room::New(None)),
                    Err(still) => crowded = still,
                }
                continue;
            }
            let newcomer = (limit, origin);
            let candidate = (key.limit, entry.origin);
            if entry.used < KEPT_FROM && self.occupancy.may_replace(newcomer, candidate, crowded) {
                let keys = Reverse(self.occupancy.keys(key.limit));
                if least.is_none_or(|(most, used, _)| (keys, entry.used) < (most, used)) {
                    least = Some((keys, entry.used, *key));
                }
            }
        }
        let leaving = least.map(|(_, _, key)| key);
        match leaving.and_then(|key| self.entries.get_mut(&key)) {
            Some(entry) => {
                entry.held = true;
                Ok(Room::New(leaving))
            }
            None => Err(crowded),
        }
    }

    /// Promises a free place to a new key, if it may take one.
    fn promise(&mut self, limit: u64, origin: Option<Origin>) -> Result<(), Crowded> {
        self.occupancy.check(limit, origin, self.promised)?;
        if self.entries.len() + self.promised >= self.capacity {
            return Err(Crowded::Table);
        }
        self.promised += 1;
        Ok(())
    }

    /// Frees the place that [`Shard::find_room`] found, if the new key was charged. A refused new key takes no place.
    pub(super) fn clear(&mut self, leaving: Option<LimitKey>, charged: bool) {
        match leaving {
            None => self.promised -= 1,
            Some(key) if charged => {
                if let Some(entry) = self.entries.swap_remove(&key) {
                    self.occupancy.remove(&key, entry.origin);
                }
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

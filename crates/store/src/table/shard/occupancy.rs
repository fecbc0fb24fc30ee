//! The places of a shard: the number of places that each limit and each address occupies, and the rule for new keys.
//!
//! A quarter of the places is divided into floors, one for each limit. No other limit can take the places of a floor. All other places are
//! common. Keys of unverified values have two more bounds. An address can take another place while it has fewer keys than half of the free
//! common places. So one address alone gets about a quarter of all places. Any address can take another place while all keys of unverified
//! values together are fewer than twice the free common places. So all these keys together get about half of all places.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use crate::charge::{LimitKey, Origin};
use crate::{Charge, Crowded};

/// The divisor of a shard's places: the quotient is divided into floors.
const FLOORS_PART: usize = 4;

/// The least number of floors, so that limits that a reload adds have floors, too.
const LEAST_FLOORS: usize = 16;

/// An address with fewer keys than this in a shard has no bound of its own.
const FEW: usize = 16;

/// Counts the keys of a shard, by limit and by address.
#[derive(Debug)]
pub(super) struct Occupancy {
    limits: IndexMap<u64, LimitUse, RandomState>,
    // The number of keys of unverified values in this shard, by address.
    origins: HashMap<Origin, usize, RandomState>,
    unverified: usize,
    capacity: usize,
    // The number of places that no other limit can take, for each limit.
    floor: usize,
    // The number of places beyond all floors.
    common: usize,
    // The number of common places that are taken.
    taken: usize,
}

/// The keys of a limit in a shard.
#[derive(Debug, Default)]
struct LimitUse {
    keys: usize,
    shared: Option<Shared>,
}

/// The decisions of a limit that were made on a shared budget.
#[derive(Clone, Debug)]
pub(in crate::table) struct Shared {
    pub(in crate::table) limit: Box<str>,
    pub(in crate::table) decisions: u64,
    pub(in crate::table) crowded: Crowded,
}

impl Occupancy {
    pub(super) fn new(capacity: usize) -> Self {
        let mut occupancy = Self {
            limits: IndexMap::default(),
            origins: HashMap::default(),
            unverified: 0,
            capacity,
            floor: 0,
            common: 0,
            taken: 0,
        };
        occupancy.divide(LEAST_FLOORS);
        occupancy
    }

    /// Divides a quarter of the places into floors for this number of limits.
    pub(super) fn divide(&mut self, limits: usize) {
        let floors = limits.next_power_of_two().max(LEAST_FLOORS);
        self.floor = self.capacity / FLOORS_PART / floors;
        self.common = self.capacity - self.floor * floors;
        let beyond = |limit: &LimitUse| limit.keys.saturating_sub(self.floor);
        self.taken = self.limits.values().map(beyond).sum();
    }

    /// Checks that a new key of this limit and origin may take a free place. `promised` free places do not count as free, because other
    /// keys of the same decision may take them.
    pub(super) fn check(
        &self,
        limit: u64,
        origin: Option<Origin>,
        promised: usize,
    ) -> Result<(), Crowded> {
        let free = self.common.saturating_sub(self.taken + promised);
        if let Some(origin) = origin {
            let own = self.origins.get(&origin).copied().unwrap_or(0);
            if own >= FEW && 2 * own >= free {
                return Err(Crowded::Address);
            }
        }
        if self.keys(limit) + promised < self.floor {
            return Ok(());
        }
        if origin.is_some() && self.unverified >= 2 * free {
            return Err(Crowded::Unverified);
        }
        if free == 0 {
            return Err(Crowded::Table);
        }
        Ok(())
    }

    /// Whether a new key, which found no place for the reason `crowded`, may replace a key that has a place. No limit grows at the cost of
    /// a floor, or of a limit with fewer keys.
    pub(super) fn may_replace(
        &self,
        (limit, origin): (u64, Option<Origin>),
        (of_limit, of_origin): (u64, Option<Origin>),
        crowded: Crowded,
    ) -> bool {
        let is_of_crowd = match crowded {
            Crowded::Address => of_origin == origin,
            Crowded::Unverified => of_origin.is_some(),
            Crowded::Table => true,
        };
        let least = self.keys(limit).max(self.floor);
        is_of_crowd && (of_limit == limit || self.keys(of_limit) > least)
    }

    /// Returns the number of keys of this limit.
    pub(super) fn keys(&self, limit: u64) -> usize {
        self.limits.get(&limit).map_or(0, |limit| limit.keys)
    }

    /// Counts a key that takes a place.
    pub(super) fn add(&mut self, key: &LimitKey, origin: Option<Origin>) {
        let limit = self.limits.entry(key.limit).or_default();
        limit.keys += 1;
        self.taken += usize::from(limit.keys > self.floor);
        if let Some(origin) = origin {
            *self.origins.entry(origin).or_default() += 1;
            self.unverified += 1;
        }
    }

    /// Counts a key that leaves its place.
    pub(super) fn remove(&mut self, key: &LimitKey, origin: Option<Origin>) {
        if let Some(limit) = self.limits.get_mut(&key.limit) {
            self.taken -= usize::from(limit.keys > self.floor);
            limit.keys -= 1;
        }
        let Some(origin) = origin else {
            return;
        };
        self.unverified -= 1;
        if let Some(own) = self.origins.get_mut(&origin) {
            *own -= 1;
            if *own == 0 {
                self.origins.remove(&origin);
            }
        }
    }

    /// Counts a decision on the budget that new keys of a limit share.
    pub(super) fn share(&mut self, charge: &Charge<'_>, crowded: Crowded) {
        let limit = self.limits.entry(charge.limit_key().limit).or_default();
        let shared = limit.shared.get_or_insert_with(|| Shared {
            limit: charge.limit.name().into(),
            decisions: 0,
            crowded,
        });
        shared.decisions += 1;
        shared.crowded = crowded;
    }

    /// Returns the decisions that were made on shared budgets, by limit.
    pub(super) fn shared(&self) -> impl Iterator<Item = &Shared> {
        let limits = self.limits.values();
        limits.filter_map(|limit| limit.shared.as_ref())
    }

    /// Frees memory, and drops limits without keys and without decisions on a shared budget.
    pub(super) fn shrink(&mut self) {
        self.limits
            .retain(|_, limit| limit.keys > 0 || limit.shared.is_some());
        if self.origins.capacity() > 4 * self.origins.len().max(64) {
            self.origins.shrink_to(2 * self.origins.len());
        }
    }
}

//! The entries that Redis and the gateways hold.

use super::{GATEWAYS, NAMES, Waiter, Write};
use crate::network::Network;

/// The values that replace generations, so that the model has fewer states. A Redis without data has generation 0.
mod generation {
    pub(super) const CURRENT: u8 = 1;
    pub(super) const EARLIER: u8 = 2;
    pub(super) const FRESH: u8 = 3;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Value {
    Forever,
    Until(u8),
    /// The override was cleared at this time.
    Cleared(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) version: u8,
    /// The place of the change in the order in which Redis made the changes. Only the model has this number.
    pub(super) made: u8,
    pub(super) value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Redis {
    pub(super) entries: [Option<Entry>; NAMES],
    pub(super) version: u8,
    pub(super) generation: u8,
    /// The highest version of an entry that was dropped for its age.
    pub(super) floor: u8,
}

/// A comparison that has read entries, and has not restored entries yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Comparison {
    pub(super) entries: [Option<Entry>; NAMES],
    pub(super) version: u8,
    pub(super) generation: u8,
    pub(super) floor: u8,
    /// The time until which Redis accepts restored entries.
    pub(super) deadline: u8,
    pub(super) was_away: bool,
    pub(super) is_same_connection: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Made(usize, Entry),
    Late,
    Nothing,
}

/// A change that the gateway waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pending {
    /// The ticks since the change was sent, one at most.
    pub(super) age: u8,
    pub(super) answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gateway {
    pub(super) table: [Option<Entry>; NAMES],
    /// The version up to which Redis was read.
    pub(super) read: u8,
    /// The highest version that the gateway has received.
    pub(super) highest: u8,
    pub(super) generation: u8,
    /// Whether the table was compared on this connection.
    pub(super) is_compared: bool,
    pub(super) comparison: Option<Comparison>,
    pub(super) pending: Option<Pending>,
    /// For each name, the latest change that the gateway has received, in the order of `Entry::made`. Only the model has this record.
    pub(super) seen: [Option<Entry>; NAMES],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) now: u8,
    pub(super) ticks: u8,
    pub(super) set_back: u8,
    pub(super) losses: u8,
    pub(super) redis: Redis,
    /// The copy of Redis's data: a replica, or a snapshot.
    pub(super) copy: Redis,
    pub(super) gateways: [Gateway; GATEWAYS],
    pub(super) network: Network<Write>,
    pub(super) sent: u8,
    /// The number of changes that were made.
    pub(super) made: u8,
    /// The highest version of all changes so far.
    pub(super) highest: u8,
    /// The last generation that was assigned, if generations keep their numbers.
    pub(super) generations: u8,
    pub(super) is_made_after_refusal: bool,
    /// A change was made although it was answered with 503, and replaced a change that was made after this answer.
    pub(super) replaces_later: bool,
    /// A gateway has received the answer to a change, but still has an earlier change in its table.
    pub(super) is_answered_in_vain: bool,
}

impl Entry {
    const FIRST: Self = Self {
        version: 1,
        made: 0,
        value: Value::Forever,
    };

    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        // Entries with equal versions are ordered by their text. The model assumes the worse case: the earlier change has the greater text,
        // and so counts as newer.
        let rank = |entry: &Self| (entry.version, u8::MAX - entry.made);
        rank(self) > rank(other)
    }

    pub(super) const fn is_in_force(&self, now: u8) -> bool {
        match self.value {
            Value::Forever => true,
            Value::Until(end) => now < end,
            Value::Cleared(_) => false,
        }
    }

    pub(super) const fn has_ended(&self, now: u8) -> bool {
        matches!(self.value, Value::Until(end) if end <= now)
    }

    /// Whether the entry may be dropped for its age.
    pub(super) const fn is_old(&self, now: u8, keep: u8) -> bool {
        match self.value {
            Value::Forever => false,
            Value::Until(end) | Value::Cleared(end) => end + keep <= now,
        }
    }
}

impl Redis {
    pub(super) const EMPTY: Self = Self {
        entries: [None; NAMES],
        version: 0,
        generation: 0,
        floor: 0,
    };

    /// Reads all pages of entries above a version. Each page has one entry, or all entries of one version.
    pub(super) fn newer(&self, since: u8, whole: bool) -> [Option<Entry>; NAMES] {
        let mut last = since;
        self.entries.map(|entry| {
            let entry = entry.filter(|entry| entry.version > since)?;
            let is_skipped = entry.version == last && !whole;
            last = entry.version;
            (!is_skipped).then_some(entry)
        })
    }

    pub(super) fn drop_old(&mut self, name: usize, now: u8, keep: u8) {
        if let Some(entry) = self.entries[name]
            && entry.is_old(now, keep)
        {
            self.entries[name] = None;
            self.floor = self.floor.max(entry.version);
        }
    }
}

impl Pending {
    pub(super) const NEW: Self = Self {
        age: 0,
        answer: None,
    };
}

impl Comparison {
    /// Whether Redis lacks an entry because Redis dropped it for its age.
    pub(super) const fn has_dropped(&self, entry: &Entry, name: usize, now: u8) -> bool {
        let is_forgotten = entry.is_old(now, 0) && entry.version <= self.floor;
        self.entries[name].is_none() && (self.was_away || is_forgotten)
    }
}

impl Gateway {
    pub(super) const NEW: Self = Self {
        table: [None; NAMES],
        read: 0,
        highest: 0,
        generation: 0,
        is_compared: false,
        comparison: None,
        pending: None,
        seen: [None; NAMES],
    };

    pub(super) fn merge(&mut self, name: usize, entry: Entry) {
        self.highest = self.highest.max(entry.version);
        if self.seen[name].is_none_or(|seen| seen.made < entry.made) {
            self.seen[name] = Some(entry);
        }
        if self.table[name].is_none_or(|other| entry.is_newer_than(&other)) {
            self.table[name] = Some(entry);
        }
    }

    pub(super) fn forget_old(&mut self, now: u8, keep: u8) {
        for entry in &mut self.table {
            *entry = entry.filter(|entry| !entry.is_old(now, keep));
        }
    }

    pub(super) const fn reconnect(&mut self) {
        self.is_compared = false;
        if let Some(comparison) = &mut self.comparison {
            comparison.is_same_connection = false;
        }
    }
}

impl State {
    pub(super) fn new() -> Self {
        let entries = [Some(Entry::FIRST), None];
        let redis = Redis {
            entries,
            version: 1,
            generation: 1,
            ..Redis::EMPTY
        };
        let gateway = Gateway {
            table: entries,
            read: 1,
            highest: 1,
            generation: 1,
            is_compared: true,
            seen: entries,
            ..Gateway::NEW
        };
        Self {
            now: 1,
            ticks: 0,
            set_back: 0,
            losses: 0,
            redis,
            copy: redis,
            gateways: [gateway; GATEWAYS],
            network: Network::new(),
            sent: 0,
            made: 1,
            highest: 1,
            generations: 1,
            is_made_after_refusal: false,
            replaces_later: false,
            is_answered_in_vain: false,
        }
    }

    /// Whether Redis's clock was set back, to a time before all versions.
    pub(super) const fn is_set_back(&self) -> bool {
        self.set_back > 0
    }

    pub(super) fn abandon(&mut self, gateway: usize, by: Waiter) {
        self.network.change(|write| {
            if write.gateway == gateway && write.waiter == Waiter::Waits {
                write.waiter = by;
            }
        });
    }

    /// Drops the calls that will change no state, because their deadline has passed.
    pub(super) fn drop_late(&mut self) {
        let now = self.now;
        self.network.drop_all(|write| {
            write.waiter != Waiter::Waits && write.deadline.is_some_and(|deadline| now > deadline)
        });
    }

    pub(super) fn drop_ended(&mut self, gateway: usize) {
        let now = self.now;
        let table = &mut self.gateways[gateway].table;
        for (entry, stored) in table.iter_mut().zip(&mut self.redis.entries) {
            if entry.is_some_and(|entry| entry.has_ended(now)) {
                if stored == entry {
                    *stored = None;
                }
                *entry = None;
            }
        }
    }

    /// Gives Redis a generation that it never had.
    pub(super) const fn renew_generation(&mut self) {
        self.redis.generation = generation::FRESH;
    }

    /// Replaces generations by the few values of [`generation`], so that states are equal if the same gateways have the generation of
    /// Redis.
    pub(super) fn settle_generations(&mut self) {
        let before = self.redis.generation;
        let after = before.min(generation::CURRENT);
        let settle = |it: &mut u8, counts: bool| {
            *it = if counts && *it == before {
                after
            } else {
                generation::EARLIER
            };
        };
        for gateway in &mut self.gateways {
            settle(&mut gateway.generation, gateway.is_compared);
            if let Some(comparison) = &mut gateway.comparison {
                settle(&mut comparison.generation, comparison.is_same_connection);
            }
        }
        self.redis.generation = after;
        // When the copy takes over, all connections are new, so no gateway compares the copy's generation.
        self.copy.generation = after;
    }
}

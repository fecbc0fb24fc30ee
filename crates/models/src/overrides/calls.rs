//! The two scripts, and a gateway's calls of these scripts.

use super::state::{Answer, Comparison, Entry, Gateway, Pending, State, Value};
use super::{Change, NAMES, Overrides, Part, Protocol, Waiter, Write};

impl Overrides {
    /// Whether entries are dropped as soon as they have ended.
    pub(super) fn drops_ended(&self) -> bool {
        self.protocol == Protocol::Old || !self.protocol.has(Part::Memory)
    }

    pub(super) fn send(&self, state: &mut State, gateway: usize, name: usize, change: Change) {
        let now = state.now;
        let deadline = match self.protocol {
            Protocol::Old | Protocol::Without(Part::Deadline) => None,
            Protocol::Without(Part::LowerBound) => Some(now + 1),
            _ => Some(now),
        };
        state.sent += 1;
        state.gateways[gateway].pending = Some(Pending::NEW);
        state.network.send(Write {
            gateway,
            name,
            change,
            deadline,
            highest: state.gateways[gateway].highest,
            waiter: Waiter::Waits,
        });
    }

    /// Runs `lua/override.lua`, which makes a change.
    pub(super) fn write(&self, state: &mut State, write: Write) {
        let before = state.redis.entries[write.name];
        let answer = self.make(state, write);
        if let (Answer::Made(..), Waiter::Refused(made)) = (answer, write.waiter) {
            state.is_made_after_refusal = true;
            state.replaces_later |= before.is_some_and(|before| before.made >= made);
        }
        if write.waiter == Waiter::Waits
            && let Some(pending) = &mut state.gateways[write.gateway].pending
        {
            pending.answer = Some(answer);
        }
    }

    fn make(&self, state: &mut State, write: Write) -> Answer {
        let now = state.now;
        if write.deadline.is_some_and(|deadline| now > deadline) {
            return Answer::Late;
        }
        let time = if state.is_set_back() {
            0
        } else {
            state.highest + 1
        };
        let redis = &mut state.redis;
        if self.protocol == Protocol::Old && redis.version < write.highest {
            return Answer::Nothing;
        }
        let stored = redis.entries[write.name];
        let is_in_force = stored.is_some_and(|entry| entry.is_in_force(now));
        let value = match write.change {
            Change::Forever => Value::Forever,
            Change::Short => Value::Until(now + 1),
            Change::Clear if is_in_force => Value::Cleared(now),
            Change::Clear => return Answer::Nothing,
        };
        let highest = if self.protocol.has(Part::WriterVersion) {
            write.highest
        } else {
            0
        };
        let version = time.max(redis.version + 1).max(highest + 1);
        if redis.version == 0 && self.protocol.has(Part::FreshGeneration) {
            self.renew_generation(state);
        }
        let entry = Entry {
            version,
            made: state.made,
            value,
        };
        state.redis.entries[write.name] = Some(entry);
        state.redis.version = version;
        state.highest = state.highest.max(version);
        state.made += 1;
        Answer::Made(write.name, entry)
    }

    pub(super) fn receive(&self, state: &mut State, gateway: usize) {
        let gateway = &mut state.gateways[gateway];
        let answer = gateway.pending.take().and_then(|pending| pending.answer);
        if let Some(Answer::Made(name, entry)) = answer {
            gateway.merge(name, entry);
            let held = gateway.table[name];
            state.is_answered_in_vain |= held.is_some_and(|held| held.made < entry.made);
            if !self.protocol.has(Part::ReadVersion) {
                gateway.read = gateway.read.max(entry.version);
            }
        }
    }

    /// Reads newer entries, or begins a comparison of all entries.
    pub(super) fn read(&self, state: &mut State, index: usize) {
        let (redis, now) = (state.redis, state.now);
        let gateway = &mut state.gateways[index];
        if self.protocol != Protocol::Old {
            gateway.forget_old(now, self.keep);
        }
        let has = |part| self.protocol.has(part);
        let is_away = self.protocol != Protocol::Old && gateway.read < redis.floor;
        let compares = !gateway.is_compared && has(Part::Connection)
            || redis.version < gateway.highest
            || redis.generation != gateway.generation && has(Part::Generation)
            || is_away && has(Part::FloorCompares);
        let since = if compares { 0 } else { gateway.read };
        let mut entries = redis.newer(since, has(Part::WholeVersions));
        entries[self.names..].fill(None);
        for (name, entry) in entries.into_iter().enumerate() {
            if let Some(entry) = entry {
                gateway.merge(name, entry);
            }
        }
        if !compares {
            gateway.read = redis.version;
            return;
        }
        gateway.comparison = Some(Comparison {
            entries,
            version: redis.version,
            generation: redis.generation,
            floor: redis.floor,
            deadline: now,
            was_away: is_away && has(Part::Floor),
            is_same_connection: true,
        });
        if !self.gives(gateway, now).any(|gives| gives) {
            self.give_back(state, index);
        }
    }

    /// Returns, for each name, whether the gateway restores its entry in Redis.
    pub(super) fn gives(&self, gateway: &Gateway, now: u8) -> impl Iterator<Item = bool> + use<> {
        let (table, comparison, keep) = (gateway.table, gateway.comparison, self.keep);
        let drops_ended = self.drops_ended();
        (0..NAMES).map(move |name| {
            let (Some(entry), Some(comparison)) = (table[name], comparison) else {
                return false;
            };
            let other = comparison.entries[name];
            let is_newer = other.is_none_or(|other| entry.is_newer_than(&other));
            let is_over = if drops_ended {
                entry.has_ended(now)
            } else {
                entry.is_old(now, keep)
            };
            is_newer && !is_over && !comparison.has_dropped(&entry, name, now)
        })
    }

    /// Restores the entries that Redis lacks, and ends the comparison.
    pub(super) fn give_back(&self, state: &mut State, index: usize) {
        let gateway = state.gateways[index];
        let Some(comparison) = gateway.comparison else {
            return;
        };
        let has_deadline = self.protocol != Protocol::Old;
        if has_deadline && state.now > comparison.deadline {
            let gateway = &mut state.gateways[index];
            (gateway.comparison, gateway.is_compared) = (None, false);
            return;
        }
        let mut is_taken = false;
        for (name, gives) in self.gives(&gateway, state.now).enumerate() {
            let table = &mut state.gateways[index].table[name];
            *table = table.filter(|entry| !comparison.has_dropped(entry, name, state.now));
            if let Some(entry) = gateway.table[name]
                && gives
            {
                let stored = state.redis.entries[name];
                if stored.is_none_or(|stored| entry.is_newer_than(&stored)) {
                    state.redis.entries[name] = Some(entry);
                    state.redis.version = state.redis.version.max(entry.version);
                    is_taken = true;
                }
            }
        }
        if self.protocol == Protocol::Old {
            state.redis.version = state.redis.version.max(gateway.highest);
        }
        if is_taken {
            self.renew_generation(state);
        }
        let generation = if self.protocol.has(Part::FirstGeneration) {
            comparison.generation
        } else {
            state.redis.generation
        };
        let gateway = &mut state.gateways[index];
        gateway.comparison = None;
        gateway.is_compared = comparison.is_same_connection;
        gateway.generation = generation;
        gateway.read = comparison.version;
    }

    fn renew_generation(&self, state: &mut State) {
        if self.renumbers() {
            state.renew_generation();
        } else if self.protocol.has(Part::FreshGeneration) {
            state.generations += 1;
            state.redis.generation = state.generations;
        } else {
            state.redis.generation += 1;
        }
    }
}

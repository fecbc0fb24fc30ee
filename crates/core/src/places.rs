//! Places that requests hold while they are under way, each for a time, unless it is renewed.
//!
//! A place has no name but the time at which it lapses: two that lapse at one time are as good as each other. So a place is
//! renewed and given back by that time. The other writing of this file is `lua/places.lua`.

use crate::Micros;

/// The places that are taken, by when they lapse, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(Vec<Entry>);

/// The places that lapse at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    lapse: Micros,
    /// How many these are, and all before them.
    through: u64,
}

impl Places {
    /// How many are taken at `now`: those that have not lapsed. One that would last for longer than `lease` was taken before
    /// the clock stepped back, or for a longer lease; it is cut.
    pub(crate) fn taken(&mut self, lease: Micros, now: Micros) -> u64 {
        let (first, all) = (self.from(now + lease + 1), self.through(self.0.len()));
        if first < self.0.len() {
            self.0.truncate(first);
            let at = self.0.last_mut().filter(|last| last.lapse == now + lease);
            let (lapse, through) = (now + lease, all);
            match at {
                Some(last) => last.through = all,
                None => self.0.push(Entry { lapse, through }),
            }
        }
        all - self.through(self.from(now + 1))
    }

    /// When the last one lapses; 0 if there is none.
    pub fn last(&self) -> Micros {
        self.0.last().map_or(0, |last| last.lapse)
    }

    /// Whether one is taken until `lapse`.
    pub fn has(&self, lapse: Micros) -> bool {
        self.0
            .binary_search_by_key(&lapse, |entry| entry.lapse)
            .is_ok()
    }

    /// Takes so many, until `lapse`.
    pub fn take(&mut self, count: u64, lapse: Micros, now: Micros) {
        let lapsed = self.from(now + 1);
        let gone = self.through(lapsed);
        if lapsed > 0 {
            self.0.drain(..lapsed);
            self.0.iter_mut().for_each(|entry| entry.through -= gone);
        }
        if count == 0 {
            return;
        }
        let place = self.from(lapse);
        if self.0.get(place).is_none_or(|entry| entry.lapse != lapse) {
            let through = self.through(place);
            self.0.insert(place, Entry { lapse, through });
        }
        self.0[place..]
            .iter_mut()
            .for_each(|entry| entry.through += count);
    }

    /// Gives up to so many back that lapse at `lapse`; how many there were.
    pub(crate) fn give_back(&mut self, count: u64, lapse: Micros) -> u64 {
        let place = self.from(lapse);
        if self.0.get(place).is_none_or(|entry| entry.lapse != lapse) {
            return 0;
        }
        let units = self.0[place].through - self.through(place);
        let found = units.min(count);
        self.0[place..]
            .iter_mut()
            .for_each(|entry| entry.through -= found);
        if found == units {
            self.0.remove(place);
        }
        found
    }

    /// Lets up to so many that lapse at `lapse` last until `renewed`; how many there were. One that has lapsed may be
    /// another's by now, and is not renewed.
    pub fn renew(&mut self, count: u64, lapse: Micros, renewed: Micros, now: Micros) -> u64 {
        if lapse <= now {
            return 0;
        }
        let found = self.give_back(count, lapse);
        self.take(found, renewed, now);
        found
    }

    /// The index of the first that lapse at this time or later.
    fn from(&self, lapse: Micros) -> usize {
        self.0.partition_point(|entry| entry.lapse < lapse)
    }

    /// How many there are before this index.
    fn through(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(0, |last| self.0[last].through)
    }
}

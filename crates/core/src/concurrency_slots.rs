//! Slots that requests hold while they are under way, each for a time, unless it is renewed.
//!
//! A slot is known by the ID of its request. Taking, renewing and giving back name that ID, and may be repeated. A slot that is
//! there is not taken twice. If a slot is missing (it lapsed, or the state was lost), its next renewal takes it again, since its
//! request is running. The other writing of this file is `lua/places.lua`.

use crate::{Hold, HoldId, Micros};

/// The slots that are taken. Boxed, since most keys have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConcurrencySlots(Option<Box<Taken>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Taken {
    /// By ID, ascending: a process counts its requests, so a new one is the last.
    entries: Vec<Entry>,
    /// The units of all entries.
    units: u64,
    /// No entry lapses before.
    first: Micros,
    /// When the last entry lapses; 0 if there is none.
    last: Micros,
}

/// What one request holds, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    hold: Hold,
    lapse: Micros,
}

impl Entry {
    /// The latest lapse that a clock which never steps can have given it.
    fn most(&self, lease: Micros, now: Micros) -> Micros {
        now + self.hold.lease.max(lease)
    }
}

impl Default for Taken {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            units: 0,
            first: Micros::MAX,
            last: 0,
        }
    }
}

impl ConcurrencySlots {
    /// How many are taken at `now`: those that have not lapsed. If the last one would last for longer than `lease` and its
    /// own lease, the clock stepped back: all such slots are cut. Their requests renew them, if they are still running.
    pub(crate) fn taken(&mut self, lease: Micros, now: Micros) -> u64 {
        let Some(taken) = &mut self.0 else {
            return 0;
        };
        taken.sweep(now);
        if taken.last > now + lease {
            taken.cut(lease, now);
        }
        taken.units
    }

    /// When the last one lapses; 0 if there is none.
    pub fn last(&self) -> Micros {
        self.0.as_ref().map_or(0, |taken| taken.last)
    }

    /// Whether this request has some.
    pub fn has(&self, id: HoldId) -> bool {
        let taken = self.0.as_ref();
        taken.is_some_and(|taken| taken.find(id).is_ok())
    }

    /// Holds slots until `lapse`, and drops those that have lapsed. They are taken if the request has none yet, or none
    /// any more.
    pub fn hold(&mut self, hold: Hold, lapse: Micros, now: Micros) {
        let taken = self.0.get_or_insert_default();
        taken.sweep(now);
        let entry = Entry { hold, lapse };
        match taken.find(hold.id) {
            Ok(index) => {
                let old = std::mem::replace(&mut taken.entries[index], entry);
                taken.units -= old.hold.units;
                if old.lapse == taken.last {
                    taken.last = taken.latest();
                }
            }
            Err(index) => taken.entries.insert(index, entry),
        }
        taken.units += hold.units;
        taken.first = taken.first.min(lapse);
        taken.last = taken.last.max(lapse);
    }

    /// Counts so many that `all` are taken together with those of requests whose ID is not known, until `all` lapse.
    pub fn count_others(&mut self, all: &Self, now: Micros) {
        self.give_back(HoldId::default());
        let units = |slots: &Self| slots.0.as_ref().map_or(0, |taken| taken.units);
        let others = units(all).saturating_sub(units(self));
        if others > 0 {
            let (id, lapse) = (HoldId::default(), all.last());
            let hold = Hold {
                id,
                units: others,
                lease: lapse.saturating_sub(now),
            };
            self.hold(hold, lapse, now);
        }
    }

    /// Gives back what this request has; how many there were.
    pub fn give_back(&mut self, id: HoldId) -> u64 {
        let Some(taken) = &mut self.0 else {
            return 0;
        };
        let Ok(index) = taken.find(id) else {
            return 0;
        };
        let Entry { hold, lapse } = taken.entries.remove(index);
        taken.units -= hold.units;
        if lapse == taken.last {
            taken.last = taken.latest();
        }
        hold.units
    }
}

impl Taken {
    fn find(&self, id: HoldId) -> Result<usize, usize> {
        self.entries
            .binary_search_by_key(&id, |entry| entry.hold.id)
    }

    fn latest(&self) -> Micros {
        let lapses = self.entries.iter().map(|entry| entry.lapse);
        lapses.max().unwrap_or(0)
    }

    /// Drops what has lapsed.
    fn sweep(&mut self, now: Micros) {
        if self.first > now {
            return;
        }
        self.entries.retain(|entry| entry.lapse > now);
        self.tell();
    }

    fn cut(&mut self, lease: Micros, now: Micros) {
        let last = self.entries.iter().max_by_key(|entry| entry.lapse);
        if last.is_none_or(|last| last.lapse <= last.most(lease, now)) {
            return;
        }
        for entry in &mut self.entries {
            entry.lapse = entry.lapse.min(entry.most(lease, now));
        }
        self.tell();
    }

    /// Counts anew.
    fn tell(&mut self) {
        self.units = self.entries.iter().map(|entry| entry.hold.units).sum();
        let lapses = self.entries.iter().map(|entry| entry.lapse);
        self.first = lapses.min().unwrap_or(Micros::MAX);
        self.last = self.latest();
    }
}

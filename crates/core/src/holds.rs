//! Holds: units that requests set aside under a key until they end.
//!
//! A decision takes a hold in place of a charge, under an ID that no request had before. The gateway renews the hold while the request
//! runs, and takes it again if it is missing. The first end with this ID drops the hold and charges the used units. The end of a missing
//! hold has no effect. So a gateway can safely send a renewal or an end twice.
//!
//! The next check of a key drops lapsed holds, and charges their reserved units. If the request of a lapsed hold still runs, its gateway
//! takes the hold again, and the end charges the used units, too. So a request whose hold lapsed may be charged more units than it used,
//! but never fewer. `concurrency` charges no units.
//!
//! `lua/holds.lua` computes the same results.

use std::fmt;

use crate::Micros;

/// The ID of one request's holds. All holds of the request have this ID, under every key. No two requests have the same ID, even in
/// different gateways. 0 is the ID of a request without holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub u64);

impl fmt::Display for HoldId {
    /// Writes the ID in hexadecimal digits, as in Redis.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A hold of one request under one key. ID, units and lease do not change while the request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The ID of the request's holds.
    pub id: HoldId,
    /// The units that are set aside.
    pub units: u64,
    /// The time after which the hold lapses unless it is renewed, in us.
    pub lease: Micros,
}

/// The holds of one key. Boxed to save memory, because most keys have no holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyHolds(Option<Box<Held>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    /// The holds in ascending order of their IDs. A process assigns ascending IDs, so a new hold is usually the last.
    entries: Vec<Entry>,
    /// The units of all entries.
    units: u64,
    /// A time before which no entry lapses.
    first: Micros,
    /// The latest lapse of all entries.
    last: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    hold: Hold,
    lapse: Micros,
}

impl KeyHolds {
    /// Whether no request holds units.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the held units.
    pub fn units(&self) -> u64 {
        self.0.as_ref().map_or(0, |held| held.units)
    }

    /// Returns the latest lapse of all holds; 0 without holds.
    pub fn last(&self) -> Micros {
        self.0.as_ref().map_or(0, |held| held.last)
    }

    /// Whether the request with this ID holds units.
    pub fn has(&self, id: HoldId) -> bool {
        let held = self.0.as_ref();
        held.is_some_and(|held| held.find(id).is_ok())
    }

    /// Drops the holds that have lapsed at `now`. Returns their units and their latest lapse. If the clock stepped back, shortens holds
    /// that would last too long: from `now`, each lasts at most `lease` or its own lease, whichever is longer.
    pub(crate) fn sweep(&mut self, lease: Micros, now: Micros) -> (u64, Micros) {
        let Some(held) = &mut self.0 else {
            return (0, 0);
        };
        let mut lapsed = (0, 0);
        if held.first <= now {
            held.entries.retain(|Entry { hold, lapse }| {
                if *lapse <= now {
                    lapsed = (lapsed.0 + hold.units, lapsed.1.max(*lapse));
                }
                *lapse > now
            });
            held.count();
        }
        if held.last > now + lease {
            for Entry { hold, lapse } in &mut held.entries {
                *lapse = (*lapse).min(now + hold.lease.max(lease));
            }
            held.count();
        }
        self.clear();
        lapsed
    }

    /// Takes a hold, or renews it. The hold lapses after its lease, counted from `now`.
    pub fn take(&mut self, hold: Hold, now: Micros) {
        let held = self.0.get_or_insert_with(|| {
            Box::new(Held {
                first: Micros::MAX,
                ..Held::default()
            })
        });
        let lapse = now + hold.lease;
        let entry = Entry { hold, lapse };
        match held.find(hold.id) {
            Ok(index) => {
                let old = std::mem::replace(&mut held.entries[index], entry);
                held.units -= old.hold.units;
                // The clock stepped back, so the earliest and the latest lapse may be wrong.
                if lapse < old.lapse {
                    held.count();
                    return;
                }
            }
            Err(index) => held.entries.insert(index, entry),
        }
        held.units += hold.units;
        held.first = held.first.min(lapse);
        held.last = held.last.max(lapse);
    }

    /// Drops the hold with this ID. Returns false if it is missing.
    pub fn end(&mut self, id: HoldId) -> bool {
        let Some(held) = &mut self.0 else {
            return false;
        };
        let Ok(index) = held.find(id) else {
            return false;
        };
        let Entry { hold, lapse } = held.entries.remove(index);
        held.units -= hold.units;
        if lapse == held.last {
            held.count();
        }
        self.clear();
        true
    }

    /// Adds one hold for the requests of other gateways, so that `all` units are held in total. This hold lapses after `lease` us.
    pub fn count_others(&mut self, all: u64, lease: Micros, now: Micros) {
        let id = HoldId::default();
        self.end(id);
        let units = all.saturating_sub(self.units());
        if units > 0 {
            self.take(Hold { id, units, lease }, now);
        }
    }

    fn clear(&mut self) {
        if self.0.as_ref().is_some_and(|held| held.entries.is_empty()) {
            self.0 = None;
        }
    }
}

impl Held {
    fn find(&self, id: HoldId) -> Result<usize, usize> {
        match self.entries.last() {
            Some(last) if last.hold.id >= id => {
                let id_of = |entry: &Entry| entry.hold.id;
                self.entries.binary_search_by_key(&id, id_of)
            }
            _ => Err(self.entries.len()),
        }
    }

    /// Computes `units`, `first` and `last` anew.
    fn count(&mut self) {
        let (mut units, mut first, mut last) = (0, Micros::MAX, 0);
        for Entry { hold, lapse } in &self.entries {
            units += hold.units;
            first = first.min(*lapse);
            last = last.max(*lapse);
        }
        (self.units, self.first, self.last) = (units, first, last);
    }
}

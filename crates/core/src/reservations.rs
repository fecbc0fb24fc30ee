//! The records of reservations: charges of requests whose costs are known afterwards.
//!
//! Each reservation has an ID, and its record is removed once: when the reservation is settled. So a settlement that comes
//! twice changes nothing the second time. A reservation lapses if nobody settles or extends it. Then nobody waits for it
//! any more, but its record stays for as long as the charge counts. The other writing of this file is
//! `lua/reservations.lua`.

use crate::{Micros, Pace, Quota};

/// A record stays for this many leases after its reservation has lapsed, also if the charge counts no longer: a gateway
/// that was cut off may still settle it.
const RETAINED: u64 = 6;

/// A key knows so many paces at most; if there are more, nothing is given back.
const MOST_PACES: usize = 16;

/// The reservations of one key that are not settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations(Option<Box<Records>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Records {
    /// By when they lapse, ascending.
    all: Vec<Record>,
    /// The units of those that lapse after `swept`.
    units: u64,
    swept: Micros,
    /// How fast charges were paid off by whoever has reserved since there are records: each pace once, of several plans.
    paces: Vec<Pace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    id: u64,
    units: u64,
    lapse: Micros,
    /// When it was made.
    charged: Micros,
}

/// A reservation that is settled.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) units: u64,
    charged: Micros,
    /// As in [`Records`], if there are several.
    paces: Vec<Pace>,
}

impl Reserved {
    /// The receipt by which so many units are given back: a receipt is a time of one pace, and the charges of other plans may
    /// have paid off more.
    pub(crate) fn bounded(
        &self,
        receipt: Micros,
        unused: u64,
        quota: &Quota,
        now: Micros,
    ) -> Micros {
        match quota.pace() {
            Some(_) if self.paces.len() > MOST_PACES => 0,
            Some(pace) if self.paces.len() > 1 => {
                pace.bounded(receipt, &self.paces, unused, self.charged, now)
            }
            _ => receipt,
        }
    }
}

impl Reservations {
    /// The units whose reservations have not lapsed at `now`. A reservation that would last for longer than `lease` was
    /// made before the clock stepped back, or for a longer lease: it is cut.
    pub(crate) fn unsettled(&mut self, lease: Micros, now: Micros) -> u64 {
        let Some(records) = &mut self.0 else {
            return 0;
        };
        records.sweep(now);
        for record in records.all.iter_mut().rev() {
            if record.lapse <= now + lease {
                break;
            }
            record.lapse = now + lease;
        }
        records.units
    }

    /// When the last one lapses; 0 if there is none.
    pub fn last(&self) -> Micros {
        let last = self.0.as_ref().and_then(|records| records.all.last());
        last.map_or(0, |record| record.lapse)
    }

    /// Whether a reservation has a record.
    pub fn has(&self, id: u64) -> bool {
        let find = |records: &Records| records.find(id).is_some();
        self.0.as_deref().is_some_and(find)
    }

    /// The IDs of all reservations.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        let records = self.0.iter().flat_map(|records| &records.all);
        records.map(|record| record.id)
    }

    /// Adds a record that lapses a lease from now, and drops records that are too old to matter.
    pub fn add(&mut self, id: u64, units: u64, lease: Micros, quota: &Quota, now: Micros) {
        let records = self.0.get_or_insert_default();
        records.sweep(now);
        let is_old = |record: &&Record| {
            let retained = record.lapse + RETAINED * lease;
            record.lapse <= now && quota.counts_until(record.lapse).max(retained) <= now
        };
        let old = records.all.iter().take_while(is_old).count();
        records.all.drain(..old);
        if records.all.is_empty() {
            records.paces.clear();
        }
        if let Some(pace) = quota.pace()
            && !records.paces.contains(&pace)
            && records.paces.len() <= MOST_PACES
        {
            records.paces.push(pace);
        }
        let (lapse, charged) = (now + lease, now);
        records.insert(Record {
            id,
            units,
            lapse,
            charged,
        });
    }

    /// Removes the record of a reservation; its units, if there was one.
    pub fn settle(&mut self, id: u64) -> Option<u64> {
        self.take(id).map(|reserved| reserved.units)
    }

    /// As [`Reservations::settle`], with what is to be known to give some of it back.
    pub(crate) fn take(&mut self, id: u64) -> Option<Reserved> {
        let records = self.0.as_mut()?;
        let index = records.find(id)?;
        let Record { units, charged, .. } = records.remove(index);
        let paces = match records.paces.len() {
            0 | 1 => Vec::new(),
            _ => records.paces.clone(),
        };
        if records.all.is_empty() {
            self.0 = None;
        }
        Some(Reserved {
            units,
            charged,
            paces,
        })
    }

    /// Lets a reservation last until `lapse`; false if it has no record.
    pub fn extend(&mut self, id: u64, lapse: Micros, now: Micros) -> bool {
        let Some(records) = &mut self.0 else {
            return false;
        };
        records.sweep(now);
        let Some(index) = records.find(id) else {
            return false;
        };
        let record = records.remove(index);
        records.insert(Record { lapse, ..record });
        true
    }
}

impl Records {
    /// The settlement of an old reservation is the likeliest.
    fn find(&self, id: u64) -> Option<usize> {
        self.all.iter().position(|record| record.id == id)
    }

    /// Takes what has lapsed out of the sum, or back into it if the clock has stepped back.
    fn sweep(&mut self, now: Micros) {
        let (swept, lapsed) = (self.after(self.swept), self.after(now));
        let units = |records: &[Record]| records.iter().map(|record| record.units).sum::<u64>();
        if swept <= lapsed {
            self.units -= units(&self.all[swept..lapsed]);
        } else {
            self.units += units(&self.all[lapsed..swept]);
        }
        self.swept = now;
    }

    fn insert(&mut self, record: Record) {
        if record.lapse > self.swept {
            self.units += record.units;
        }
        self.all.insert(self.after(record.lapse), record);
    }

    fn remove(&mut self, index: usize) -> Record {
        let record = self.all.remove(index);
        if record.lapse > self.swept {
            self.units -= record.units;
        }
        record
    }

    /// The index of the first that lapses after this time.
    fn after(&self, lapse: Micros) -> usize {
        self.all.partition_point(|record| record.lapse <= lapse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FixedWindow;

    const LEASE: Micros = 10;

    fn hour() -> Quota {
        FixedWindow::new(100, 3_600).unwrap().into()
    }

    #[test]
    fn a_record_is_removed_once() {
        let mut known = Reservations::default();
        known.add(7, 3, LEASE, &hour(), 100);
        known.add(8, 2, LEASE, &hour(), 100);
        assert_eq!(known.unsettled(LEASE, 100), 5);
        assert_eq!(known.settle(7), Some(3));
        assert_eq!((known.settle(7), known.has(8)), (None, true));
        assert_eq!(known.unsettled(LEASE, 100), 2);
        assert!(!known.extend(7, 200, 101), "it is settled");
    }

    #[test]
    fn one_that_has_lapsed_is_waited_for_no_longer_and_can_still_be_settled_or_extended() {
        let mut known = Reservations::default();
        for id in 0..3 {
            known.add(id, 2, LEASE, &hour(), 100);
        }
        assert_eq!(known.unsettled(LEASE, 109), 6);
        assert_eq!(known.unsettled(LEASE, 110), 0);
        assert!(known.extend(1, 200, 150));
        assert_eq!(known.unsettled(100, 150), 2);
        known.add(9, 1, LEASE, &hour(), 3_599);
        assert_eq!(known.settle(0), Some(2), "its window is not over");
        known.add(10, 1, LEASE, &hour(), 3_600);
        assert_eq!(known.settle(2), None, "its window is over");
        assert_eq!(known.unsettled(LEASE, 3_600), 2);
    }

    #[test]
    fn one_that_lasts_for_too_long_is_cut() {
        let mut known = Reservations::default();
        known.add(1, 1, 1_000, &hour(), 100);
        known.add(2, 1, 2_000, &hour(), 100);
        assert_eq!(known.unsettled(LEASE, 100), 2);
        assert_eq!(known.last(), 110);
        assert_eq!(known.unsettled(LEASE, 110), 0);
        // The clock has stepped back.
        assert_eq!(known.unsettled(LEASE, 50), 2);
        assert_eq!((known.last(), known.settle(1)), (60, Some(1)));
        assert_eq!(known.unsettled(LEASE, 60), 0);
    }
}

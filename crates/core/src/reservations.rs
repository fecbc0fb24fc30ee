//! The records of reservations: charges of requests whose costs are known afterwards.
//!
//! Each reservation has an ID, and its record is removed once: when the reservation is settled. So a settlement that comes
//! twice changes nothing the second time. A reservation lapses if nobody settles or extends it. Then nobody waits for it
//! any more, but its record stays for as long as the charge counts. The other writing of this file is
//! `lua/reservations.lua`.

use std::collections::VecDeque;

use crate::{Micros, Pace, Quota};

/// A record stays for this many leases after its reservation has lapsed, also if the charge counts no longer. A gateway that was
/// cut off may still settle it.
const RETAINED: u64 = 6;

/// A key knows so many paces at most; if there are more, nothing is given back.
const MOST_PACES: usize = 16;

/// A key knows so many refunds at most: the latest.
const MOST_REFUNDS: usize = 1_000;

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
    /// What settled reservations gave back since there are records, ascending by time.
    refunds: VecDeque<Refund>,
}

/// What a settled reservation has given back of a debt. Debts are paid off in the order of their charges, so reservations
/// that were made after it are paid off earlier than their receipts say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refund {
    /// When it was given back.
    at: Micros,
    /// When the reservation was made, and its receipt, both in us. Of two that were made at one time the earlier one has the smaller
    /// receipt.
    made: (Micros, Micros),
    /// How long it would have taken to pay off, at the pace of the quota that settled.
    time: Micros,
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
    /// As in [`Refund`].
    made: (Micros, Micros),
    /// As in [`Records`], if there are several.
    paces: Vec<Pace>,
    /// By how much it is paid off earlier than its receipt says, after what others gave back; if that is known.
    earlier: Option<Micros>,
}

impl Reserved {
    /// The receipt by which so many units are given back. The receipt of the decision does not know what others have given
    /// back since then, nor that charges of other plans pay off more.
    pub(crate) fn bounded(&self, unused: u64, quota: &Quota, now: Micros) -> Micros {
        let (charged, receipt) = self.made;
        let Some(pace) = quota.pace() else {
            return receipt;
        };
        let bounded =
            |receipt: Micros, paces: &[Pace]| pace.bounded(receipt, paces, unused, charged, now);
        let receipt = match self.earlier {
            Some(earlier) => receipt.saturating_sub(earlier),
            None => bounded(receipt, &[pace]),
        };
        match self.paces.len() {
            0 | 1 => receipt,
            2..=MOST_PACES => bounded(receipt, &self.paces),
            _ => 0,
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
        self.take(id, 0).map(|reserved| reserved.units)
    }

    /// As [`Reservations::settle`], with what is to be known to give some of it back.
    pub(crate) fn take(&mut self, id: u64, receipt: Micros) -> Option<Reserved> {
        let records = self.0.as_mut()?;
        let index = records.find(id)?;
        let Record { units, charged, .. } = records.remove(index);
        let made = (charged, receipt);
        let earlier = records.earlier(made);
        let paces = match records.paces.len() {
            0 | 1 => Vec::new(),
            _ => records.paces.clone(),
        };
        if records.all.is_empty() {
            self.0 = None;
        }
        Some(Reserved {
            units,
            made,
            paces,
            earlier,
        })
    }

    /// Notes what a settled reservation gives back by this receipt, as long as there are others.
    pub(crate) fn refunded(
        &mut self,
        reserved: &Reserved,
        unused: u64,
        receipt: Micros,
        quota: &Quota,
        now: Micros,
    ) {
        if let Some(records) = &mut self.0
            && let Some(pace) = quota.pace()
        {
            let refund = Refund {
                at: now,
                made: reserved.made,
                time: pace.time(unused).min(receipt.saturating_sub(now)),
            };
            let matters = |refund: &Refund| quota.counts_until(refund.at) > now;
            records.refund(refund, matters);
        }
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

    /// By how much a reservation is paid off earlier; `None` if that is not known any more. A refund of the same microsecond
    /// counts, since it may have come later.
    fn earlier(&self, made: (Micros, Micros)) -> Option<Micros> {
        let oldest = self.refunds.front().map_or(0, |refund| refund.at);
        if self.refunds.len() == MOST_REFUNDS && made.0 <= oldest {
            return None;
        }
        let refunds = self.refunds.iter();
        let counts = refunds.filter(|refund| refund.at >= made.0 && refund.made < made);
        Some(counts.map(|refund| refund.time).sum())
    }

    fn refund(&mut self, refund: Refund, matters: impl Fn(&Refund) -> bool) {
        if refund.time == 0 {
            return;
        }
        while self.refunds.front().is_some_and(|first| !matters(first)) {
            self.refunds.pop_front();
        }
        // A clock may have stepped back.
        let index = self.refunds.partition_point(|other| other.at <= refund.at);
        self.refunds.insert(index, refund);
        if self.refunds.len() > MOST_REFUNDS {
            self.refunds.pop_front();
        }
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

//! Places that requests hold while they are under way, each for a time, unless it is renewed.
//!
//! A place has no name but the time at which it lapses: two that lapse at one time are as good as each other. So a place is
//! renewed and given back by that time. The other writing of this file is `lua/places.lua`.

use crate::Micros;

/// When each place that is taken lapses, in us, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(Vec<Micros>);

impl Places {
    /// How many are taken at `now`: those that have not lapsed. One that would last for longer than `lease` was taken before
    /// the clock stepped back, or for a longer lease; it is cut.
    pub(crate) fn taken(&mut self, lease: Micros, now: Micros) -> u64 {
        for lapse in self
            .0
            .iter_mut()
            .rev()
            .take_while(|lapse| **lapse > now + lease)
        {
            *lapse = now + lease;
        }
        (self.0.len() - self.lapsed(now)) as u64
    }

    /// When the last one lapses; 0 if there is none.
    pub fn last(&self) -> Micros {
        self.0.last().copied().unwrap_or(0)
    }

    /// Takes so many, until `lapse`.
    pub fn take(&mut self, count: u64, lapse: Micros, now: Micros) {
        self.0.drain(..self.lapsed(now));
        let place = self.0.partition_point(|other| *other <= lapse);
        let taken = std::iter::repeat_n(lapse, count as usize);
        self.0.splice(place..place, taken);
    }

    /// Gives up to so many back that lapse at `lapse`; how many there were.
    pub(crate) fn give_back(&mut self, count: u64, lapse: Micros) -> u64 {
        let first = self.0.partition_point(|other| *other < lapse);
        let end = self.0.partition_point(|other| *other <= lapse);
        let found = (end - first).min(count as usize);
        self.0.drain(end - found..end);
        found as u64
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

    fn lapsed(&self, now: Micros) -> usize {
        self.0.partition_point(|lapse| *lapse <= now)
    }
}

//! The words that are passed to a script (lua/README.md).

use std::sync::{Arc, LazyLock};

use tidegate_core::{Micros, Quota};
use tidegate_redis::Word;

use crate::Charge;
use crate::charge::DECISION_LEASE;
use crate::charge::words::{COST, LEASE};

/// The word for the lease under [`Holding::Beside`], where requests take no holds.
static BESIDE: LazyLock<Word> = LazyLock::new(|| Word::interned(format!("-{DECISION_LEASE}")));
/// The word for the lease under [`Holding::Taken`], where requests take holds.
static TAKEN: LazyLock<Word> = LazyLock::new(|| Word::interned(DECISION_LEASE.to_string()));

/// The treatment of holds under limits whose own requests take no holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Holding {
    /// No request holds units under the keys of these limits.
    None,
    /// Requests with keys in several slots of a cluster may hold units, and these units count.
    Beside,
    /// The request has keys in several slots, and holds its cost.
    Taken,
}

/// The words of some charges: the words of their limits, with the costs filled in.
#[derive(Debug)]
pub(in crate::redis) struct Arguments {
    words: Arc<[Word]>,
    // The calendars, each with the index of its numbers. A calendar's numbers depend on the time of the call.
    calendars: Vec<(usize, Quota)>,
}

impl Arguments {
    /// Makes the words of a decision.
    pub(in crate::redis) fn of(charges: &[Charge<'_>], holding: Holding) -> Self {
        let count = charges.iter().map(|charge| charge.limit.words().len());
        let mut words = Vec::with_capacity(count.sum());
        let mut calendars = Vec::new();
        for charge in charges {
            let (own, quota) = (charge.limit.words(), charge.limit.quota());
            let at = words.len();
            words.extend_from_slice(own);
            words[at + COST] = Word::from(charge.cost);
            match holding {
                _ if charge.limit.lease().is_some() => {}
                Holding::None => {}
                // A negative lease: holds count, and the request takes no hold.
                Holding::Beside => words[at + LEASE] = BESIDE.clone(),
                Holding::Taken => words[at + LEASE] = TAKEN.clone(),
            }
            if quota.calendar().is_some() {
                let numbers = quota.numbers(0).len();
                calendars.push((words.len() - numbers, *quota));
            }
        }
        Self {
            words: words.into(),
            calendars,
        }
    }

    /// Returns the words of the charges at `now` by Redis's clock, followed by `words`.
    pub(in crate::redis) fn followed_by(&self, words: &[Word], now: Micros) -> Vec<Word> {
        let own = self.at(now);
        let mut all = Vec::with_capacity(own.len() + words.len());
        all.extend_from_slice(&own);
        all.extend_from_slice(words);
        all
    }

    /// Whether the words depend on the time.
    pub(in crate::redis) fn is_timed(&self) -> bool {
        !self.calendars.is_empty()
    }

    /// Returns the words of a decision at `now` by Redis's clock.
    pub(in crate::redis) fn at(&self, now: Micros) -> Arc<[Word]> {
        if self.calendars.is_empty() {
            return self.words.clone();
        }
        let mut words = self.words.to_vec();
        for (place, quota) in &self.calendars {
            for (word, number) in words[*place..].iter_mut().zip(&*quota.numbers(now)) {
                *word = Word::from(*number);
            }
        }
        words.into()
    }
}

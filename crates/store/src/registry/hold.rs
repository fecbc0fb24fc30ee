//! One charge that a running request holds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{HoldId, Micros, Quota};

use crate::{Charge, Key, Limit};

/// A lease is renewed when this part of it is over.
const RENEWED_AFTER: u32 = 3;

/// Where a charge is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Home {
    Redis,
    /// In this process, by this quota.
    Here(Quota),
}

/// A charge that is held.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) limit: Arc<Limit>,
    pub(crate) key: Key,
    pub(crate) cost: u64,
    pub(crate) home: Home,
    pub(crate) id: HoldId,
    /// When it lapses, by the clock of its home.
    pub(crate) lapse: Micros,
    /// When it was known last that its home has it; none: it was not there yet, as the request was admitted without Redis.
    pub(crate) renewed: Option<Instant>,
    /// The connection of the last renewal, of `concurrency` in Redis.
    pub(crate) connection: u64,
    /// Whether Redis may have it.
    pub(crate) may_be_there: bool,
    /// The share by which this process counts it too while it decides without Redis, of `concurrency` in Redis.
    pub(crate) copy: Option<Box<Quota>>,
    pub(crate) state: State,
    /// When it ends; none: with its request.
    pub(crate) kept_until: Option<Instant>,
}

/// When a renewal was asked for that was done, and over which connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewed {
    pub(crate) sent: Instant,
    pub(crate) connection: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    Held,
    /// A renewal is under way. It ends with an answer, or when its deadline has passed.
    Renewing,
    /// It ended while it was being renewed, and has come to so much.
    Ended(u64),
}

impl Hold {
    pub(crate) fn charge(&self) -> Charge<'_> {
        Charge {
            limit: &self.limit,
            key: self.key,
            cost: self.cost,
            origin: None,
        }
    }

    /// Returns the units to charge at its end. Without a known cost these are the reserved units.
    pub(crate) fn used(&self, known: Option<u64>) -> u64 {
        match self.limit.counts_running() {
            true => 0,
            false => known.unwrap_or(self.cost),
        }
    }

    /// Returns the time for which the end of a hold matters. Redis keeps a hold until a charge at its lapse counts no longer.
    pub(crate) fn matters(&self) -> Duration {
        let period = match self.limit.counts_running() {
            true => 0,
            false => self.limit.quota().period(),
        };
        self.lease() + Duration::from_micros(period)
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_micros(self.limit.lease().unwrap_or(Micros::MAX))
    }

    /// Until when it does not lapse, as far as is known: a part of the lease is left for clocks that differ.
    pub(crate) fn lapses(&self) -> Option<Instant> {
        self.renewed?.checked_add(self.lease() / 10 * 9)
    }

    /// Whether it is of `concurrency` and belongs in Redis.
    pub(crate) fn is_in_redis(&self) -> bool {
        self.limit.counts_running() && matches!(self.home, Home::Redis)
    }

    pub(crate) fn is_due(&self) -> bool {
        let due = |renewed: Instant| renewed.elapsed() >= self.lease() / RENEWED_AFTER;
        matches!(self.state, State::Held) && self.renewed.is_none_or(due)
    }
}

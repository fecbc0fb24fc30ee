//! The hold of one charge of a running request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{HoldId, Micros, Quota};

use crate::{Charge, Key, Limit};

/// A hold is renewed after its lease divided by this number.
const RENEWED_AFTER: u32 = 3;

/// The store that has a hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Home {
    Redis,
    /// The memory store of this process, which counts the hold by this quota.
    Here(Quota),
}

/// The hold of a charge.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) limit: Arc<Limit>,
    pub(crate) key: Key,
    pub(crate) cost: u64,
    pub(crate) home: Home,
    pub(crate) id: HoldId,
    /// The time at which the hold lapses, by the clock of the store in `home`.
    pub(crate) lapse: Micros,
    /// The last time at which the store in `home` certainly had the hold. `None` if that store may lack the hold, for example because this
    /// process admitted the request during an outage of Redis.
    pub(crate) renewed: Option<Instant>,
    /// The number of the connection that sent the last renewal, for `concurrency` in Redis.
    pub(crate) connection: u64,
    /// Whether Redis may have the hold.
    pub(crate) may_be_there: bool,
    /// The quota by which this process counts a copy of the hold while it decides without Redis, for `concurrency` in Redis.
    pub(crate) copy: Option<Box<Quota>>,
    pub(crate) state: State,
    /// The time at which a kept hold ends. `None` if the hold ends with its request.
    pub(crate) kept_until: Option<Instant>,
}

/// A successful renewal of a hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewed {
    /// The time at which the renewal was sent.
    pub(crate) sent: Instant,
    /// The number of the connection that sent the renewal.
    pub(crate) connection: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    Held,
    /// A renewal is under way. The renewal ends with an answer, or when its deadline has passed.
    Renewing,
    /// The request ended during the renewal, with this cost.
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

    /// Returns the units to charge at the end of the hold: `cost`, or the reserved units if it is unknown; 0 for `concurrency`.
    pub(crate) fn used(&self, cost: Option<u64>) -> u64 {
        match self.limit.counts_running() {
            true => 0,
            false => cost.unwrap_or(self.cost),
        }
    }

    /// Returns the time for which the end of a hold can take effect. Redis keeps a lapsed hold until a charge at the time of the lapse
    /// would no longer count.
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

    /// Returns a time before which the hold does not lapse. The last tenth of the lease is left out, because clocks may differ.
    pub(crate) fn lapses(&self) -> Option<Instant> {
        self.renewed?.checked_add(self.lease() / 10 * 9)
    }

    /// Whether the hold is of `concurrency` and belongs in Redis.
    pub(crate) fn is_in_redis(&self) -> bool {
        self.limit.counts_running() && matches!(self.home, Home::Redis)
    }

    pub(crate) fn is_due(&self) -> bool {
        let due = |renewed: Instant| renewed.elapsed() >= self.lease() / RENEWED_AFTER;
        matches!(self.state, State::Held) && self.renewed.is_none_or(due)
    }
}

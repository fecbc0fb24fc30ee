//! The entry of one key: its tally, the time of its next exchange, and the result of the last one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{Micros, Quota, Tally, TallyCounts, TallyTotals};

use super::limits::Watched;
use crate::charge::LimitKey;
use crate::{Charge, Key};

/// The age of counts from which a refused request starts an exchange at once, even if `sync_every` is longer.
const REFUSES_FOR: Duration = Duration::from_secs(1);

/// The time of a key's next exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// At the next attempt, because the last exchange failed.
    Retry,
    /// At the next turn of its interval.
    Turn,
    /// At once.
    Now,
}

/// The entry of one key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) tally: Tally,
    /// The quota of the last request.
    pub(super) quota: Quota,
    // The largest quota of requests since the last call was sent. A reload changes quotas.
    widest: Quota,
    // The value of `widest` when the last call was sent.
    call_quota: Quota,
    /// The interval of its exchanges.
    pub(super) every: Duration,
    /// Whether the last exchange failed.
    pub(super) is_silent: bool,
    /// Whether a call is under way.
    pub(super) is_under_way: bool,
    /// The time of the key's next exchange. `None` if no exchange is due.
    pub(super) due: Option<Due>,
    /// The time since which an exchange has been due or under way.
    pub(super) waiting: Option<Instant>,
    limit: Arc<Watched>,
    // The time when the last answered call was sent.
    heard: Option<Instant>,
}

/// The counts of one key that a call sends.
#[derive(Clone, Debug)]
pub(super) struct Telling {
    pub(super) key: LimitKey,
    pub(super) quota: Quota,
    /// The start of the window of these counts.
    pub(super) start: Micros,
    pub(super) own: TallyCounts,
    /// The ID under which Redis keeps the counts.
    pub(super) gateway: Arc<String>,
    limit: Arc<Watched>,
}

impl Entry {
    pub(super) fn new(tally: Tally, quota: Quota, every: Duration, limit: Arc<Watched>) -> Self {
        Self {
            tally,
            quota,
            widest: quota,
            call_quota: quota,
            every,
            is_silent: false,
            is_under_way: false,
            due: None,
            waiting: None,
            limit,
            heard: None,
        }
    }

    /// Records the quota of a request.
    pub(super) fn note_quota(&mut self, quota: &Quota) {
        self.quota = *quota;
        if quota.capacity() > self.widest.capacity() {
            self.widest = *quota;
        }
    }

    /// Whether the counts of other gateways are older than the interval, and no exchange is due or under way.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        let is_old = self.age(now).is_none_or(|age| age > self.every);
        is_old && self.due.is_none() && !self.is_under_way
    }

    /// Returns the time of the next exchange after a request. If the counts are old, the caller exchanges them earlier. A key that refuses
    /// is exchanged once a second at least.
    pub(super) fn due_after(&self, refused: bool, now: Instant) -> Due {
        let is_old = || self.age(now).is_some_and(|age| age >= REFUSES_FOR);
        if self.is_silent {
            Due::Retry
        } else if refused && !self.is_under_way && is_old() {
            Due::Now
        } else {
            Due::Turn
        }
    }

    /// Begins a call: returns the counts to send now, under the ID `gateway`.
    pub(super) fn tell(&mut self, key: LimitKey, gateway: &Arc<String>) -> Telling {
        self.due = None;
        self.is_under_way = true;
        self.call_quota = std::mem::replace(&mut self.widest, self.quota);
        Telling {
            key,
            quota: self.quota,
            start: self.tally.start(),
            own: self.tally.own(),
            gateway: gateway.clone(),
            limit: self.limit.clone(),
        }
    }

    /// Applies the answer to a call that was sent at `sent`. `now` is the time of the answer by Redis's clock. Returns the time of the
    /// key's next exchange, if one is due.
    pub(super) fn learn(&mut self, totals: TallyTotals, sent: Instant, now: Micros) -> Option<Due> {
        let (beyond, more) = self.tally.learn(&self.call_quota, totals, now);
        self.limit.exceeded(beyond, more);
        self.heard = Some(sent);
        (self.is_silent, self.is_under_way) = (false, false);
        self.waiting = None;
        // The key is due again if a request came meanwhile, or if Redis does not have all counts.
        let due = self.due.take().map(|due| due.max(Due::Turn));
        let untold = (!self.tally.is_told(&self.quota)).then_some(Due::Turn);
        due.max(untold)
    }

    /// Records that the call failed.
    pub(super) fn failed(&mut self) -> Due {
        (self.is_silent, self.is_under_way) = (true, false);
        self.due = None;
        Due::Retry
    }

    fn age(&self, now: Instant) -> Option<Duration> {
        self.heard.map(|heard| now.duration_since(heard))
    }
}

impl Telling {
    /// Makes counts of zero units for a call, for a charge without an entry.
    pub(super) fn nothing(charge: &Charge<'_>, gateway: &Arc<String>) -> Self {
        Self {
            key: charge.limit_key(),
            quota: *charge.limit.quota(),
            start: 0,
            own: TallyCounts::default(),
            gateway: gateway.clone(),
            limit: Arc::new(Watched::new(charge.limit)),
        }
    }

    pub(super) const fn key(&self) -> &Key {
        &self.key.key
    }

    pub(super) fn limit_id(&self) -> &str {
        self.limit.id()
    }
}

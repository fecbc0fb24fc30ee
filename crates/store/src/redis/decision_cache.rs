//! The cache of Redis's last decision on each key. Cached refusals are repeated without a call. During an outage, cached used units still
//! count as used.
//!
//! The table has a fixed size. A new key whose row is full replaces the key with the oldest decision in the row. A replaced key may need
//! another call to Redis, and counts as unused in an outage.
//!
//! - [`single_flight`]: one request calls Redis about a key without units left, and the others wait for the answer
//! - [`larger`]: the waits of costs above the refused cost
//! - [`doubts`]: calls about the other charges of a refused request
//! - [`looks`]: the rate of calls about refused requests

mod doubts;
mod larger;
mod looks;
mod single_flight;

use std::time::{Duration, Instant};

use tidegate_core::{Block, Micros, Quota, State, Verdict};

use crate::charge::{LimitKey, Recall};
use crate::sharded::Sharded;
use crate::{Charge, LastDecision};
pub(super) use doubts::{Doubt, RefusedBy};
use larger::Larger;
use looks::Looks;
use single_flight::Waiters;

/// The number of rows in the table, a power of two. All rows take about 14 MB.
const ROWS: usize = 1 << 14;
/// The most keys in a row.
const KEYS: usize = 4;

/// The longest time for which a refusal is repeated, so that every reset and every changed limit applies within this time.
const LONGEST: Duration = Duration::from_secs(1);

/// The last decisions of Redis.
#[derive(Debug)]
pub(super) struct DecisionCache {
    rows: Sharded<[Option<Seen>; KEYS]>,
    waiters: Waiters,
    looks: Looks,
}

/// The last decision on one key.
#[derive(Clone, Copy, Debug)]
struct Seen {
    key: LimitKey,
    // The quota's numbers. The decision does not apply to a quota with other numbers, such as after a reload.
    capacity: u64,
    period: Micros,
    cost: u64,
    verdict: Verdict,
    // A later refusal of a larger cost.
    larger: Option<Larger>,
    // The time of the decision by Redis's clock.
    at: Micros,
    sent: Instant,
    received: Instant,
    // Whether a refusal may be repeated: since the decision, no call has failed, and the client's limits have not changed.
    holds: bool,
    // The time until which other requests wait, while one request calls Redis about a key without units left.
    asking: Option<Instant>,
}

/// The cached answer about a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The charge is refused. The time is by Redis's clock.
    Refused(Verdict, Micros),
    /// An old answer refuses the charge, so one request should call Redis.
    Stale(Verdict, Micros),
    /// After the last answer, too few units were left for the charge. Enough units may have become free since that answer.
    Exhausted,
    /// No cached answer decides.
    Nothing,
}

/// The times when a call was sent and answered, and the time of its decision by Redis's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) sent: Instant,
    pub(super) received: Instant,
    pub(super) at: Micros,
}

impl Default for DecisionCache {
    fn default() -> Self {
        Self {
            rows: Sharded::new(ROWS, Default::default),
            waiters: Waiters::default(),
            looks: Looks::default(),
        }
    }
}

impl DecisionCache {
    /// Keeps the answer of Redis about a charge.
    pub(super) fn note(&self, charge: &Charge<'_>, verdict: &Verdict, call: Call) {
        let mut seen = Seen {
            key: charge.limit_key(),
            capacity: charge.limit.quota().capacity(),
            period: charge.limit.quota().period(),
            cost: charge.cost,
            verdict: *verdict,
            larger: None,
            at: call.at,
            sent: call.sent,
            received: call.received,
            // Held units may be free at any moment, so this refusal is not repeated.
            holds: !verdict.settling,
            asking: None,
        };
        let index = self.rows.index(&seen.key);
        let mut row = self.rows.at(index);
        let own = row
            .iter()
            .position(|entry| entry.is_some_and(|entry| entry.key == seen.key));
        let place = own.or_else(|| (0..KEYS).min_by_key(|at| row[*at].map(|entry| entry.received)));
        let Some(place) = place.and_then(|place| row.get_mut(place)) else {
            return;
        };
        // The answer to a later call may already be in `place`.
        if own.is_some() && place.is_some_and(|entry| entry.at > seen.at && entry.sent > seen.sent)
        {
            return;
        }
        let refusal = place
            .as_mut()
            .filter(|entry| !entry.verdict.allowed && entry.is_of(&seen.key, charge));
        if let Some(previous) = refusal.filter(|_| !verdict.allowed) {
            if previous.adds(charge, &seen) {
                return;
            }
            seen.larger = previous.larger_than(&seen);
        }
        *place = Some(seen);
    }

    /// Returns the last answer about this charge, such as a refusal that needs no call. While one request calls Redis again, the other
    /// requests get the refusal until its `retry_after` has passed.
    pub(super) fn of(&self, charge: &Charge<'_>, now: Instant) -> Known {
        let answer = self.with(charge, |seen| {
            if !seen.holds || !seen.leaves_nothing(charge) {
                return None;
            }
            if seen.verdict.allowed {
                return Some(Known::Exhausted);
            }
            let Some((verdict, at)) = seen.refusal_of(charge, now) else {
                return Some(Known::Exhausted);
            };
            Some(match seen.is_new(charge, now) || seen.is_asked(now) {
                true => Known::Refused(verdict, at),
                false => Known::Stale(verdict, at),
            })
        });
        answer.unwrap_or(Known::Nothing)
    }

    /// Records that Redis did not answer about a charge. Until Redis answers, the refusal is not repeated, because each limit's
    /// `on_failure` decides.
    pub(super) fn unanswered(&self, charge: &Charge<'_>) {
        self.with(charge, |seen| {
            seen.holds = false;
            None::<()>
        });
    }

    /// Returns the used units of a key in Redis's last decision, as a state at `now` by this machine's clock. The units are scaled to
    /// `quota`, a share of the limit.
    pub(super) fn state(&self, charge: &Charge<'_>, quota: &Quota, now: Micros) -> Option<State> {
        self.with(charge, |seen| {
            let used = seen.used(charge, quota).max(seen.debt(charge, quota));
            if used == 0 {
                return None;
            }
            let at = now.saturating_sub(micros(seen.received.elapsed()));
            let mut state = quota.fresh();
            quota.charge(&mut state, used, at);
            Some(state)
        })
    }

    /// Returns the units that running requests held in Redis's last decision, scaled to `quota`, a share of the limit. Also returns the
    /// time, in us, after which they lapse unless they are renewed.
    pub(super) fn held(&self, charge: &Charge<'_>, quota: &Quota) -> Option<(u64, Micros)> {
        self.with(charge, |seen| {
            let lease = charge.limit.lease()?;
            let left = lease.checked_sub(micros(seen.received.elapsed()))?;
            Some((seen.used(charge, quota), left))
        })
    }

    /// Returns the end of a key's block in the last answer of Redis, by this machine's clock. 0 if the key is not blocked. A change of the
    /// quota does not end a block.
    pub(super) fn blocked_until(&self, charge: &Charge<'_>, now: Micros) -> Micros {
        let Some(block) = charge.limit.block() else {
            return 0;
        };
        let key = charge.limit_key();
        let row = self.rows.lock(&key);
        let last = row.iter().flatten().find(|entry| entry.key == key);
        let Some(refused) = last.filter(|entry| !entry.verdict.allowed) else {
            return 0;
        };
        let wait = refused.verdict.retry_after.min(block.span);
        let left = wait.checked_sub(micros(refused.received.elapsed()));
        left.map_or(0, |left| now + left)
    }

    /// Returns the last decision of Redis on this charge's key, of any age.
    pub(super) fn last(&self, charge: &Charge<'_>) -> Option<LastDecision> {
        self.with(charge, |seen| {
            let age = seen.received.elapsed();
            Some(LastDecision {
                remaining: seen.verdict.remaining,
                retry_after: seen.verdict.retry_after.saturating_sub(micros(age)),
                age,
            })
        })
    }

    /// Drops the last decision on a key.
    pub(super) fn forget(&self, charge: &Charge<'_>) {
        let key = charge.limit_key();
        let mut row = self.rows.lock(&key);
        let _ = row
            .iter_mut()
            .find_map(|place| place.take_if(|entry| entry.key == key));
    }

    /// Stops the repetition of refusals of these clients.
    pub(super) fn forget_refusals(&self, recall: &Recall) {
        for mut row in self.rows.all() {
            let seen = row.iter_mut().flatten();
            for seen in seen.filter(|seen| recall.concerns(&seen.key.key)) {
                seen.holds = false;
            }
        }
    }

    fn with<T>(&self, charge: &Charge<'_>, read: impl FnOnce(&mut Seen) -> Option<T>) -> Option<T> {
        let key = charge.limit_key();
        let mut row = self.rows.lock(&key);
        let mut entries = row.iter_mut().flatten();
        read(entries.find(|entry| entry.is_of(&key, charge))?)
    }
}

impl Seen {
    /// Returns the used units, scaled to `quota`, a share of the limit. The units left are rounded down, so that all shares together have
    /// no more units than are left.
    fn used(&self, charge: &Charge<'_>, quota: &Quota) -> u64 {
        let whole = charge.limit.quota().capacity();
        let left = u128::from(self.verdict.remaining.min(whole));
        let scaled = left * u128::from(quota.capacity()) / u128::from(whole.max(1));
        quota.capacity() - u64::try_from(scaled).unwrap_or(quota.capacity())
    }

    /// Whether the decision has this key, and was made under the charge's capacity and period.
    fn is_of(&self, key: &LimitKey, charge: &Charge<'_>) -> bool {
        self.key == *key
            && self.capacity == charge.limit.quota().capacity()
            && self.period == charge.limit.quota().period()
    }

    /// Whether this decision is so recent that its refusal can be repeated without a call.
    fn is_new(&self, charge: &Charge<'_>, now: Instant) -> bool {
        now.saturating_duration_since(self.sent) < longest(charge)
    }

    /// Whether a request is calling Redis again.
    fn is_asked(&self, now: Instant) -> bool {
        self.asking.is_some_and(|until| now < until)
    }

    /// Returns the refusal with its times as of `now`, and the present time by Redis's clock. `None` if `retry_after` has passed.
    fn refusal(&self, now: Instant) -> Option<(Verdict, Micros)> {
        let since = micros(now.saturating_duration_since(self.received));
        let retry_after = self.verdict.retry_after.saturating_sub(since);
        let verdict = Verdict {
            retry_after,
            reset: self.verdict.reset.saturating_sub(since).max(retry_after),
            ..self.verdict
        };
        (retry_after > 0).then_some((verdict, self.at + since))
    }

    /// Returns the debt of a key if the debt exceeds the capacity. Otherwise returns 0. The debt is computed at the rate of `quota`, a
    /// share of the limit, which pays off the debt more slowly.
    fn debt(&self, charge: &Charge<'_>, quota: &Quota) -> u64 {
        // If the limit has a block, a late `reset` does not show a debt, because the block also makes the `reset` later.
        let owes = self.verdict.reset > charge.limit.quota().period();
        if self.verdict.allowed || !owes || charge.limit.block().is_some() {
            return 0;
        }
        quota.debt_of(self.verdict.reset)
    }

    /// Whether this charge would have been refused right after this decision.
    fn leaves_nothing(&self, charge: &Charge<'_>) -> bool {
        let is_refused = !self.verdict.allowed && self.cost <= charge.cost;
        is_refused || self.verdict.remaining < charge.cost
    }
}

/// Returns the longest time for which a refusal of this charge is repeated without a call. If refused requests prolong the block, this time
/// is so short that a call prolongs the block before its end.
fn longest(charge: &Charge<'_>) -> Duration {
    match charge.limit.block() {
        Some(Block { span, extend: true }) => LONGEST.min(Duration::from_micros(span / 4)),
        _ => LONGEST,
    }
}

fn micros(time: Duration) -> Micros {
    Micros::try_from(time.as_micros()).unwrap_or(Micros::MAX)
}

#[cfg(test)]
mod tests;

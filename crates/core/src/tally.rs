//! The tally of a window counter in mode `synced`, where gateways exchange counts. It has the gateway's own counts, the part of these
//! that the store has, and the counts of the others. Time is the store's.

use crate::{MAX_EXACT, Micros, Quota, State, Verdict};

/// The counts of a window and of the window before it. Counts of others are negative after a reset, which also drops the counts of
/// this gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TallyCounts {
    /// The count of the current window.
    pub current: i64,
    /// The count of the window before.
    pub previous: i64,
}

impl TallyCounts {
    /// Returns the sum of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            current: self.current.saturating_add(other.current),
            previous: self.previous.saturating_add(other.previous),
        }
    }

    /// Returns these counts less the others.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self {
            current: self.current.saturating_sub(other.current),
            previous: self.previous.saturating_sub(other.previous),
        }
    }

    fn each(self, change: impl Fn(i64) -> i64) -> Self {
        Self {
            current: change(self.current),
            previous: change(self.previous),
        }
    }

    /// Returns the same counts, seen `windows` later.
    const fn after(self, windows: Micros) -> Self {
        match windows {
            0 => self,
            1 => Self {
                current: 0,
                previous: self.current,
            },
            _ => Self {
                current: 0,
                previous: 0,
            },
        }
    }
}

/// The store's answer about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TallyTotals {
    /// The time at which the current window started, in us.
    pub start: Micros,
    /// The counts of all gateways.
    pub all: TallyCounts,
    /// The part of these that was added for this gateway.
    pub own: TallyCounts,
}

/// The tally of one key.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    window: Micros,
    // The start of the current window.
    start: Micros,
    own: TallyCounts,
    told: TallyCounts,
    others: TallyCounts,
    // The start of a window and the count of all gateways in it, by the last answer of the store.
    seen: Option<(Micros, i64)>,
}

impl Tally {
    /// Returns an empty tally; none if `quota` is no window counter.
    pub fn of(quota: &Quota, now: Micros) -> Option<Self> {
        let window = quota.counter()?.window;
        Some(Self {
            window,
            start: now - now % window,
            ..Self::default()
        })
    }

    /// Returns the time at which the current window started.
    pub const fn start(&self) -> Micros {
        self.start
    }

    /// Returns all counts of this gateway, also counts that the store does not have yet.
    pub const fn own(&self) -> TallyCounts {
        self.own
    }

    /// Counts `cost`, if the counts of all gateways leave room for it.
    pub fn charge(&mut self, quota: &Quota, cost: u64, now: Micros) -> Verdict {
        self.turn(now);
        self.decide(quota, self.own.with(self.others), cost, now)
    }

    /// Counts `cost`, if this gateway's share, one part in `gateways`, leaves room for it. A part of the counts in the store's last
    /// answer is charged to each share. Later counts of this gateway are charged to its own share.
    pub fn charge_share(
        &mut self,
        quota: &Quota,
        gateways: u64,
        cost: u64,
        now: Micros,
    ) -> Verdict {
        self.turn(now);
        let share = quota.divided(gateways);
        let (part, whole) = (share.capacity(), quota.capacity().max(1));
        // Rounded up: the remaining units are shared, and no unit is admitted twice.
        let part_of = |count: i64| {
            let count = u128::from(count.max(0).unsigned_abs());
            let part = (count * u128::from(part)).div_ceil(u128::from(whole));
            i64::try_from(part).unwrap_or(i64::MAX)
        };
        let known = self.told.with(self.others).each(part_of);
        let since = self.own.without(self.told).each(|count| count.max(0));
        self.decide(&share, known.with(since), cost, now)
    }

    /// Counts `cost`, whether or not it fits.
    pub fn count(&mut self, cost: u64, now: Micros) {
        self.turn(now);
        self.add(cost);
    }

    /// Takes back a cost that was counted in the window that started at `start`.
    pub fn uncount(&mut self, cost: u64, start: Micros) {
        let count = if start == self.start {
            &mut self.own.current
        } else if start + self.window == self.start {
            &mut self.own.previous
        } else {
            return;
        };
        *count = (*count - signed(cost)).max(0);
    }

    /// Takes an answer of the store, at `now` by its clock. Returns the units of all gateways beyond the limit, and the part of these
    /// that was counted after the previous answer. The first answer counts the units of this gateway only: another configuration
    /// may have allowed the rest.
    pub fn learn(&mut self, quota: &Quota, totals: TallyTotals, now: Micros) -> (u64, u64) {
        if totals.start > self.start {
            self.turn_to(totals.start);
        }
        let others = totals.all.without(totals.own);
        if totals.start == self.start {
            (self.told, self.others) = (totals.own, others);
        } else if totals.start + self.window == self.start {
            // The store's window has not turned yet.
            (self.told.previous, self.others.previous) = (totals.own.current, others.current);
        }
        let current = totals.all.current;
        let seen = self.seen.replace((totals.start, current));
        let new = match seen {
            Some((start, count)) if start == totals.start => current - count,
            Some(_) => current,
            None => totals.own.current,
        };
        let mut before = totals;
        before.all.current -= new.max(0);
        let all = beyond(quota, totals, now);
        let more = all.saturating_sub(beyond(quota, before, now));
        (if seen.is_some() { all } else { more }, more)
    }

    /// Assumes that the store has no counts any more: a reset drops all used units.
    pub fn forget(&mut self) {
        self.others = TallyCounts::default().without(self.own);
    }

    /// Whether the store has counts of this gateway that may still count.
    pub fn has_told(&self) -> bool {
        self.told != TallyCounts::default()
    }

    /// Leaves the counts that the store has to another gateway, under whose ID they were sent. Returns false if there are none.
    pub fn leave_told(&mut self) -> bool {
        let has_told = self.has_told();
        let told = std::mem::take(&mut self.told);
        self.others = self.others.with(told);
        self.own = self.own.without(told).each(|count| count.max(0));
        has_told
    }

    /// Whether the store has all counts of this gateway that still count.
    pub fn is_told(&self, quota: &Quota) -> bool {
        let untold = self.own.without(self.told);
        untold.current == 0 && (untold.previous == 0 || !has_previous(quota))
    }

    /// Whether counts of this gateway may still count.
    pub fn matters(&self, quota: &Quota, now: Micros) -> bool {
        let windows = if has_previous(quota) { 2 } else { 1 };
        now < self.start + windows * self.window
    }

    fn decide(&mut self, quota: &Quota, used: TallyCounts, cost: u64, now: Micros) -> Verdict {
        let mut state = state(quota, self.start, used);
        // A cost that never fits the share counts as the whole share.
        let fitting = cost.min(quota.capacity());
        let mut verdict = quota.check(&mut state, fitting, now);
        if verdict.allowed {
            quota.commit(&mut state, fitting, now, &mut verdict);
            self.add(cost);
        }
        verdict
    }

    fn add(&mut self, cost: u64) {
        let most = signed(MAX_EXACT);
        self.own.current = self.own.current.saturating_add(signed(cost)).min(most);
    }

    /// Goes on to the window of `now`. A window ahead of it stays, unless it is ahead by more than its length. If it is, the clock
    /// stepped back, and the counts are kept.
    fn turn(&mut self, now: Micros) {
        let start = now - now % self.window;
        if self.start > now + self.window {
            self.start = start;
        } else if self.start < start {
            self.turn_to(start);
        }
    }

    fn turn_to(&mut self, start: Micros) {
        let windows = (start - self.start) / self.window;
        for counts in [&mut self.own, &mut self.told, &mut self.others] {
            *counts = counts.after(windows);
        }
        self.start = start;
    }
}

fn has_previous(quota: &Quota) -> bool {
    quota.counter().is_some_and(|counter| counter.has_previous)
}

fn state(quota: &Quota, start: Micros, used: TallyCounts) -> State {
    let count = |count: i64| count.max(0).unsigned_abs();
    quota.counted(crate::WindowPair {
        start,
        current: count(used.current),
        previous: count(used.previous),
    })
}

/// Returns the units by which a count, or the estimate of a sliding one, exceeds the limit.
fn beyond(quota: &Quota, totals: TallyTotals, now: Micros) -> u64 {
    let count = |count: i64| u128::from(count.max(0).unsigned_abs());
    let mut used = count(totals.all.current);
    if let Some(counter) = quota.counter().filter(|counter| counter.has_previous) {
        let window = counter.window;
        let left = window.saturating_sub(now.saturating_sub(totals.start));
        used += count(totals.all.previous) * u128::from(left) / u128::from(window);
    }
    let beyond = used.saturating_sub(u128::from(quota.capacity()));
    u64::try_from(beyond).unwrap_or(u64::MAX)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

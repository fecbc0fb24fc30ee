//! The tally of a limit of mode `synced`, where gateways exchange counts. A tally has the gateway's own counts, the part of them that the
//! store has, and the counts of other gateways. All times are by the store's clock.

use crate::{MAX_EXACT, Micros, Quota, State, Verdict};

/// The counts of a window and of the window before it. A count may be negative: after a reset, this gateway sets the counts of other
/// gateways to minus its own counts, so that the sum is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TallyCounts {
    /// The count of the current window.
    pub current: i64,
    /// The count of the previous window.
    pub previous: i64,
}

impl TallyCounts {
    /// Returns the sums of the current counts and of the previous counts.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            current: self.current.saturating_add(other.current),
            previous: self.previous.saturating_add(other.previous),
        }
    }

    /// Returns these counts minus the others.
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

    /// Returns the counts as they are after `windows` more windows.
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

/// The counts of a key in an answer of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TallyTotals {
    /// The time at which the current window started, in us.
    pub start: Micros,
    /// The counts of all gateways.
    pub all: TallyCounts,
    /// The part of `all` that this gateway has sent.
    pub own: TallyCounts,
}

/// The tally of one key.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    window: Micros,
    // The start of the current window.
    start: Micros,
    own: TallyCounts,
    // The counts of `own` that the store has.
    copy: TallyCounts,
    others: TallyCounts,
    // The start of the current window in the store's last answer, and the count of all gateways in that window.
    seen: Option<(Micros, i64)>,
}

impl Tally {
    /// Returns an empty tally. `None` if the algorithm of `quota` does not count per window.
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

    /// Returns all counts of this gateway, including counts that the store does not have yet.
    pub const fn own(&self) -> TallyCounts {
        self.own
    }

    /// Counts `cost` if the counts of all gateways leave room for it.
    pub fn charge(&mut self, quota: &Quota, cost: u64, now: Micros) -> Verdict {
        self.turn(now);
        self.decide(quota, self.own.with(self.others), cost, now)
    }

    /// Counts `cost` if it fits this gateway's share, which is the quota divided by `gateways`. Each share is charged its part of the
    /// counts in the store's last answer. This gateway's later counts are charged to its own share alone.
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
        // The part is rounded up, so that the shares together admit no more units than remain.
        let part_of = |count: i64| {
            let count = u128::from(count.max(0).unsigned_abs());
            let part = (count * u128::from(part)).div_ceil(u128::from(whole));
            i64::try_from(part).unwrap_or(i64::MAX)
        };
        let answer = self.copy.with(self.others).each(part_of);
        let since = self.own.without(self.copy).each(|count| count.max(0));
        self.decide(&share, answer.with(since), cost, now)
    }

    /// Counts `cost`, whether or not it fits.
    pub fn count(&mut self, cost: u64, now: Micros) {
        self.turn(now);
        self.add(cost);
    }

    /// Subtracts a cost that was counted in the window that started at `start`.
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

    /// Applies an answer of the store, at `now` by the store's clock. Returns the units that all gateways counted beyond the limit, and the
    /// number of these units that were counted after the previous answer. For the first answer, both numbers include only the units of this
    /// gateway, because another configuration may have allowed the units of other gateways.
    pub fn learn(&mut self, quota: &Quota, totals: TallyTotals, now: Micros) -> (u64, u64) {
        if totals.start > self.start {
            self.turn_to(totals.start);
        }
        let others = totals.all.without(totals.own);
        if totals.start == self.start {
            (self.copy, self.others) = (totals.own, others);
        } else if totals.start + self.window == self.start {
            // The store's current window is the previous window of this tally.
            (self.copy.previous, self.others.previous) = (totals.own.current, others.current);
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

    /// Applies a reset, after which the store has no counts. The counts of other gateways become negative, so that the sum of all counts is
    /// zero.
    pub fn forget(&mut self) {
        self.others = TallyCounts::default().without(self.own);
    }

    /// Whether the store has counts of this gateway for the current or the previous window.
    pub fn has_told(&self) -> bool {
        self.copy != TallyCounts::default()
    }

    /// Subtracts `copy`, the counts that this gateway has sent, from the gateway's own counts, and adds `copy` to the counts of other
    /// gateways. The caller does this when the gateway gets a new ID, because the store has these counts under the old ID. Returns false if
    /// the store has no counts of this gateway.
    pub fn leave_told(&mut self) -> bool {
        let has_told = self.has_told();
        let copy = std::mem::take(&mut self.copy);
        self.others = self.others.with(copy);
        self.own = self.own.without(copy).each(|count| count.max(0));
        has_told
    }

    /// Whether the store has all counts of this gateway that still count.
    pub fn is_told(&self, quota: &Quota) -> bool {
        let untold = self.own.without(self.copy);
        untold.current == 0 && (untold.previous == 0 || !has_previous(quota))
    }

    /// Whether the counts of this gateway can still affect a decision at `now`, because their windows are not over.
    pub fn matters(&self, quota: &Quota, now: Micros) -> bool {
        let windows = if has_previous(quota) { 2 } else { 1 };
        now < self.start + windows * self.window
    }

    fn decide(&mut self, quota: &Quota, used: TallyCounts, cost: u64, now: Micros) -> Verdict {
        let mut state = state(quota, self.start, used);
        // A cost above the share's capacity is admitted if the whole share is free.
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

    /// Makes the window at `now` the current window. A current window that starts after `now` by at most one window length is kept, because
    /// clocks differ a little. If it starts later than that, the clock stepped back: `start` is set to the window at `now`, and the counts
    /// are kept.
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
        for counts in [&mut self.own, &mut self.copy, &mut self.others] {
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

/// Returns the units by which the count, or the estimate of `sliding_window_counter`, exceeds the limit.
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

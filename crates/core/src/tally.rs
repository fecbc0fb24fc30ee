//! What one of several gateways knows of a window counter that they share by exchanging counts (mode `synced`): its own counts,
//! which of them the store has, and what the others have counted. Time is the store's.

use crate::{MAX_EXACT, Micros, Quota, State, Verdict};

/// The counts of a window and of the one before it. What others have counted is less than nothing after a reset, which
/// forgets what this gateway has counted as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TallyCounts {
    /// Of the current window.
    pub current: i64,
    /// Of the window before.
    pub previous: i64,
}

impl TallyCounts {
    /// The sum of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            current: self.current.saturating_add(other.current),
            previous: self.previous.saturating_add(other.previous),
        }
    }

    /// These less the others.
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

    /// The same, so many windows later.
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

/// What the store answers about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TallyTotals {
    /// When the current window started.
    pub start: Micros,
    /// What all gateways have counted.
    pub all: TallyCounts,
    /// What was noted of it for this gateway.
    pub own: TallyCounts,
}

/// The tally of one key.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    window: Micros,
    // Of the current window.
    start: Micros,
    own: TallyCounts,
    told: TallyCounts,
    others: TallyCounts,
    // The start of a window and the count of all gateways in it, by the last answer of the store.
    seen: Option<(Micros, i64)>,
}

impl Tally {
    /// The tally of a key that nothing is known of; none if `quota` is no window counter's.
    pub fn of(quota: &Quota, now: Micros) -> Option<Self> {
        let window = quota.counter()?.window;
        Some(Self {
            window,
            start: now - now % window,
            ..Self::default()
        })
    }

    /// When the current window started.
    pub const fn start(&self) -> Micros {
        self.start
    }

    /// What this gateway has counted, whether the store knows it or not.
    pub const fn own(&self) -> TallyCounts {
        self.own
    }

    /// Counts `cost`, if what is known of all gateways leaves room for it.
    pub fn charge(&mut self, quota: &Quota, cost: u64, now: Micros) -> Verdict {
        self.turn(now);
        self.decide(quota, self.own.with(self.others), cost, now)
    }

    /// Counts `cost`, if the share of one of so many `gateways` leaves room for it. What all had counted when the store was heard of
    /// last is charged to each share in part. What this gateway has counted since is charged to its own share.
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
        // Rounded up: what is left is shared, and nobody gets a part twice.
        let part_of = |count: i64| {
            let count = u128::from(count.max(0).unsigned_abs());
            let part = (count * u128::from(part)).div_ceil(u128::from(whole));
            i64::try_from(part).unwrap_or(i64::MAX)
        };
        let known = self.told.with(self.others).each(part_of);
        let since = self.own.without(self.told).each(|count| count.max(0));
        self.decide(&share, known.with(since), cost, now)
    }

    /// Counts `cost`, whatever is left.
    pub fn count(&mut self, cost: u64, now: Micros) {
        self.turn(now);
        self.add(cost);
    }

    /// Uncounts a cost that was counted in the window that started at `start`.
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
            // Its window has not turned yet.
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

    /// Takes it that nothing is counted in the store any more: all that was used is forgotten.
    pub fn forget(&mut self) {
        self.others = TallyCounts::default().without(self.own);
    }

    /// Whether anything was told that may still count.
    pub fn has_told(&self) -> bool {
        self.told != TallyCounts::default()
    }

    /// Takes it that what the store was told belongs to another gateway, under whose ID it was noted. Whether that was anything.
    pub fn leave_told(&mut self) -> bool {
        let has_told = self.has_told();
        let told = std::mem::take(&mut self.told);
        self.others = self.others.with(told);
        self.own = self.own.without(told).each(|count| count.max(0));
        has_told
    }

    /// Whether the store has all that this gateway has counted, as far as it still counts.
    pub fn is_told(&self, quota: &Quota) -> bool {
        let untold = self.own.without(self.told);
        untold.current == 0 && (untold.previous == 0 || !has_previous(quota))
    }

    /// Whether what was counted here may still count.
    pub fn matters(&self, quota: &Quota, now: Micros) -> bool {
        let windows = if has_previous(quota) { 2 } else { 1 };
        now < self.start + windows * self.window
    }

    fn decide(&mut self, quota: &Quota, used: TallyCounts, cost: u64, now: Micros) -> Verdict {
        let mut state = state(quota, self.start, used);
        // One that a share can never fit counts as all of it.
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

    /// Goes on to the window of `now`. A window ahead of that stays, unless it is ahead by more than its length. If it is, the
    /// clock stepped back, and what was used is kept.
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

/// By how much a count, or the estimate of a sliding one, exceeds the limit.
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

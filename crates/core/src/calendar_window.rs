//! `fixed_window` by the calendar: at most the limit per day or month of a time zone.
//!
//! A fixed window whose starts and ends come from a [`Calendar`]. Promise: at most the limit per window. `lua/calendar_window.lua` computes
//! the same results. Each call sends the script the windows around `now`.

use crate::numbers::{MAX_SPAN, at_most, nonzero};
use crate::{
    Algorithm, Calendar, Micros, Mode, Numbers, QuotaError, Verdict, WindowCount, WindowPair,
};

/// The largest difference between the caller's clock and Redis's, in us, for windows of two seconds or more.
const LEEWAY: Micros = 1_000_000;

/// The quota of a calendar window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// The limit comes first, as in every other quota. The capacity is then at one offset in all quotas, so that reading it needs no branch on
// the algorithm.
#[repr(C)]
pub struct CalendarWindow {
    limit: u64,
    calendar: &'static Calendar,
}

impl CalendarWindow {
    /// Returns a quota of at most `limit` per window of `calendar`.
    ///
    /// # Errors
    ///
    /// The limit is 0, or too large for exact numbers.
    pub fn new(limit: u64, calendar: &'static Calendar) -> Result<Self, QuotaError> {
        nonzero("limit", limit)?;
        at_most(MAX_SPAN, limit)?;
        Ok(Self { limit, calendar })
    }
}

impl Algorithm for CalendarWindow {
    type State = WindowCount;

    // `leased` is left out: units of calendar windows are not lent in slices.
    const MODES: &'static [Mode] = &[Mode::Exact, Mode::Local];

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn check(&self, state: &mut WindowCount, cost: u64, now: Micros) -> Verdict {
        state.check(self.calendar.windows(now), self.limit, cost, now)
    }

    fn charge(&self, state: &mut WindowCount, cost: u64, now: Micros) {
        state.charge(self.calendar.windows(now)[0], cost);
    }

    fn excess(&self, state: &WindowCount, now: Micros) -> u64 {
        let settled = state.settled(self.calendar.windows(now)[0]);
        settled.count.saturating_sub(self.limit)
    }

    fn counted(&self, counts: WindowPair) -> WindowCount {
        counts.into()
    }

    fn windows(&self, state: &WindowCount, now: Micros) -> Option<WindowPair> {
        Some(state.settled(self.calendar.windows(now)[0]).as_pair())
    }

    fn expires(&self, state: &WindowCount) -> Micros {
        self.counts_until(state.start)
    }

    /// Returns the limit, the start of a window, and the ends of this window and the next two, in us. The first or second of these windows
    /// contains the time by Redis's clock, if `now` differs from that time by less than a second and by less than half a window.
    fn numbers(&self, now: Micros) -> Numbers {
        let [start, end, _] = self.calendar.windows(now);
        let early = ((end - start) / 2).min(LEEWAY);
        let [start, end, next_end] = self.calendar.windows(now.saturating_sub(early));
        let [_, _, last_end] = self.calendar.windows(end);
        [self.limit, start, end, next_end, last_end].into()
    }

    fn period(&self) -> Micros {
        self.calendar.nominal()
    }

    fn written(&self) -> String {
        let window = self.calendar.name().replacen('/', ", zone ", 1);
        format!("limit {}, window {window}", self.limit)
    }

    fn counts_until(&self, at: Micros) -> Micros {
        self.calendar.windows(at)[1]
    }

    fn window_name(&self) -> Option<String> {
        Some(self.calendar.name().to_owned())
    }

    fn calendar(&self) -> Option<&'static Calendar> {
        Some(self.calendar)
    }

    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
        Self::new(capacity, self.calendar)
    }
}

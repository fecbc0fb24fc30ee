//! `fixed_window` by the calendar: so many per day or month of a time zone.
//!
//! Days and months are not equally long, so their starts are a list, which is made elsewhere: this crate knows no time zone.
//! Otherwise it is a fixed window, with the same promise: at most the limit per window. The other writing of this file is
//! `lua/calendar_window.lua`, which is told the windows around now.

use crate::quota::{MAX_EXACT, MAX_SPAN, at_most, nonzero};
use crate::{Algorithm, Micros, QuotaError, Verdict, WindowCount};

/// How far the clocks of who asks and of who decides may differ, in us, where windows are long enough.
const LEEWAY: Micros = 1_000_000;

/// The starts of days or months in a time zone.
#[derive(Debug, PartialEq, Eq)]
pub struct Calendar {
    name: Box<str>,
    starts: Box<[Micros]>,
}

impl Calendar {
    /// The windows that start at `starts`, which ascend strictly; `name` says which they are, as a part of keys. Windows
    /// behind the last start are as long as the last one; before the first start is one window. None without two starts.
    pub fn new(name: impl Into<Box<str>>, starts: impl Into<Box<[Micros]>>) -> Option<Self> {
        let (name, starts) = (name.into(), starts.into());
        let ascends = starts.len() >= 2 && starts.windows(2).all(|pair| pair[0] < pair[1]);
        ascends.then_some(Self { name, starts })
    }

    /// What its windows are called.
    pub const fn name(&self) -> &str {
        &self.name
    }

    /// How long its windows are, in us: the last one that is known, as others may differ.
    pub fn nominal(&self) -> Micros {
        match *self.starts {
            [.., before, last] => last - before,
            _ => Micros::MAX,
        }
    }

    /// The start and end of the window at `now`, and the end of the next one.
    pub fn windows(&self, now: Micros) -> [Micros; 3] {
        let next = self.starts.partition_point(|start| *start <= now);
        if let [end, next_end, ..] = self.starts[next..] {
            let start = next
                .checked_sub(1)
                .map_or(0, |current| self.starts[current]);
            return [start, end, next_end];
        }
        let [.., before, last] = *self.starts else {
            return [0, Micros::MAX, Micros::MAX];
        };
        let length = self.nominal();
        if now < last {
            return [before, last, last + length];
        }
        let start = last + (now - last) / length * length;
        [start, start + length, start + 2 * length]
    }
}

/// The quota of a calendar window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarWindow {
    limit: u64,
    calendar: &'static Calendar,
}

impl CalendarWindow {
    /// At most `limit` per window of `calendar`.
    pub fn new(limit: u64, calendar: &'static Calendar) -> Result<Self, QuotaError> {
        nonzero("limit", limit)?;
        at_most(MAX_SPAN, limit)?;
        Ok(Self { limit, calendar })
    }

    /// Its windows.
    pub const fn calendar(&self) -> &'static Calendar {
        self.calendar
    }

    /// What the script takes: limit, the start of a window, and the ends of that and the next two, in us. The time of the
    /// call is in one of the first two, if `now` is wrong by less than a second, and by less than half a window.
    pub fn numbers(&self, now: Micros) -> [u64; 5] {
        let [start, end, _] = self.calendar.windows(now);
        let early = ((end - start) / 2).min(LEEWAY);
        let [start, end, next_end] = self.calendar.windows(now.saturating_sub(early));
        let [_, _, last_end] = self.calendar.windows(end);
        [self.limit, start, end, next_end, last_end]
    }

    /// The count of the window that counts at `now`: the current one, or the next, if the clock stepped back from it.
    fn settle(&self, state: &WindowCount, now: Micros) -> WindowCount {
        let [start, ..] = self.calendar.windows(now);
        if state.start >= start {
            *state
        } else {
            WindowCount { start, count: 0 }
        }
    }

    fn end(&self, settled: &WindowCount) -> Micros {
        let [_, end, _] = self.calendar.windows(settled.start);
        end
    }
}

impl Algorithm for CalendarWindow {
    type State = WindowCount;

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn check(&self, state: &mut WindowCount, cost: u64, now: Micros) -> Verdict {
        let [start, end, _] = self.calendar.windows(now);
        if state.start > end {
            state.start = start;
        }
        let settled = self.settle(state, now);
        let remaining = self.limit.saturating_sub(settled.count);
        let left = self.end(&settled) - now;
        let allowed = cost <= remaining;
        Verdict {
            allowed,
            settling: false,
            remaining,
            reset: left,
            retry_after: if allowed { 0 } else { left },
            delay: 0,
        }
    }

    fn commit(&self, state: &mut WindowCount, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.charge(state, cost, now);
        verdict.remaining -= cost;
    }

    fn charge(&self, state: &mut WindowCount, cost: u64, now: Micros) {
        *state = self.settle(state, now);
        state.count = state.count.saturating_add(cost).min(MAX_EXACT);
    }

    fn excess(&self, state: &WindowCount, now: Micros) -> u64 {
        self.settle(state, now).count.saturating_sub(self.limit)
    }

    fn give_back(&self, state: &mut WindowCount, cost: u64, receipt: Micros, now: Micros) {
        self.check(state, cost, now);
        let settled = self.settle(state, now);
        if self.end(&settled) == receipt {
            *state = settled;
            state.count = state.count.saturating_sub(cost);
        }
    }

    fn expires(&self, state: &WindowCount) -> Micros {
        self.end(state)
    }

    fn divided(&self, parts: u64) -> Self {
        Self {
            limit: (self.limit / parts.max(1)).max(1),
            ..*self
        }
    }
}

//! The health of a server: its failed requests and its health checks decide whether it takes requests.
//!
//! No function reads the clock: callers pass the time.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::settings::{EjectSettings, HealthSettings};

/// The longest ejection, in multiples of the first ejection.
const LONGEST: u32 = 32;

/// The share of its weight that a returning server has at first, under `slow_start`.
const FIRST_SHARE: f64 = 0.1;

/// The number of failures among the last 64 requests from which a server counts as failing too often, even if other requests in between
/// succeeded.
const HALF: u32 = 32;

/// A server is ejected only if its recent failures are at least this multiple of the recent failures of another server.
const MORE: u32 = 3;

/// The health of a server.
#[derive(Debug, Default)]
pub(crate) struct Health {
    // Failures in a row. A failure counts only if the server served no other request while the failed request was open.
    failures: AtomicU32,
    // The last 64 requests, the newest in the lowest bit. A failure is 1.
    recent: AtomicU64,
    served: AtomicU64,
    ejected: AtomicBool,
    unhealthy: AtomicBool,
    // Whether requests fail in a row although the server is not ejected.
    failing: AtomicBool,
    past: Mutex<Past>,
}

#[derive(Debug, Default)]
struct Past {
    /// The length of the last ejection, and its end.
    ejection: Option<(Duration, Instant)>,
    /// Checks in a row whose result contradicts the current state.
    against: u32,
    was_checked: bool,
    back: Option<Instant>,
    /// The requests that all servers together had served when the current row of failures began. A row begins when its first failed
    /// request is sent.
    row_began: u64,
}

/// The counts of served requests at the time when a request is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    /// Requests that were served by the server that gets the request.
    pub(crate) here: u64,
    /// Requests that were served by all servers of the upstream together.
    pub(crate) by_all: u64,
}

/// The state of a server, for metrics and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Healthy,
    /// The server gets requests, but its last requests failed in a row.
    Failing,
    Ejected,
    Unhealthy,
}

impl State {
    /// Returns the word of metrics and documents.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Failing => "failing",
            Self::Ejected => "ejected",
            Self::Unhealthy => "unhealthy",
        }
    }
}

impl Health {
    /// Returns the gravest state that applies.
    pub(crate) fn state(&self) -> State {
        match () {
            () if self.is_unhealthy() => State::Unhealthy,
            () if self.is_ejected() => State::Ejected,
            () if self.failing.load(Ordering::SeqCst) => State::Failing,
            () => State::Healthy,
        }
    }

    /// Whether the server takes requests: it is neither ejected nor unhealthy.
    pub(crate) fn is_in(&self) -> bool {
        !self.is_ejected() && !self.is_unhealthy()
    }

    pub(crate) fn is_ejected(&self) -> bool {
        self.ejected.load(Ordering::Relaxed)
    }

    pub(crate) fn is_unhealthy(&self) -> bool {
        self.unhealthy.load(Ordering::Relaxed)
    }

    /// Returns the number of failures without a success in between.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that the server has served.
    pub(crate) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// Records a request that the server served. Returns whether the server was failing until now.
    pub(crate) fn succeeded(&self) -> bool {
        self.served.fetch_add(1, Ordering::Relaxed);
        // The counter is nearly always 0, and a needless store would invalidate the caches of other cores.
        let mut was_failing = false;
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::SeqCst);
            was_failing = self.failing.swap(false, Ordering::SeqCst);
        }
        if self.recent.load(Ordering::Relaxed) > 0 {
            self.remember(0);
        }
        was_failing
    }

    /// Marks a server that was not ejected as failing, if its last `after` requests failed. Returns whether this call marked the server.
    pub(crate) fn starts_failing(&self, after: u32) -> bool {
        let fails = || self.failures.load(Ordering::SeqCst) >= after;
        if !fails() || self.failing.swap(true, Ordering::SeqCst) {
            return false;
        }
        // A success between the check and the mark did not see the mark, so the count is checked again.
        fails() || !self.failing.swap(false, Ordering::SeqCst)
    }

    /// Records a request that failed at the server. If the server served another request in the meantime, the failure is not added to the
    /// failures in a row.
    pub(crate) fn failed(&self, before: Served) {
        self.remember(1);
        if self.served() != before.here {
            return;
        }
        if self.failures.fetch_add(1, Ordering::Relaxed) == 0 {
            self.past.lock().row_began = before.by_all;
        }
    }

    fn remember(&self, outcome: u64) {
        let next = |recent: u64| Some(recent << 1 | outcome);
        let _ = self
            .recent
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Whether the server has failed often enough to be ejected. `by_all` is the number of requests that all servers together have served.
    ///
    /// Clients can make many requests fail at the same moment. So a row of failures counts only if other servers served at least `after -
    /// 1` requests during the row.
    pub(crate) fn fails(&self, settings: &EjectSettings, by_all: u64) -> bool {
        let elsewhere = || by_all.saturating_sub(self.past.lock().row_began);
        let in_a_row = self.failures() >= settings.after
            && elsewhere() >= u64::from(settings.after.saturating_sub(1));
        in_a_row || self.recent_failures() >= HALF.max(settings.after)
    }

    /// Whether the server fails far more often than `other`. This condition prevents ejections by requests that fail at every server.
    pub(crate) fn fails_more_than(&self, other: &Self) -> bool {
        self.recent_failures() >= MORE * other.recent_failures()
    }

    fn recent_failures(&self) -> u32 {
        self.recent.load(Ordering::Relaxed).count_ones()
    }

    /// Ejects the server, and returns the length of the ejection. Each ejection doubles the length of the previous ejection. If the server
    /// was in use for at least the length of its last ejection, the next ejection has the first length again.
    pub(crate) fn eject(&self, settings: &EjectSettings, now: Instant) -> Duration {
        let mut past = self.past.lock();
        let lasts = match past.ejection {
            Some((lasted, ended)) if now < ended + lasted => lasted.saturating_mul(2),
            _ => settings.lasts,
        };
        let lasts = lasts.min(settings.lasts.saturating_mul(LONGEST));
        past.ejection = Some((lasts, now + lasts));
        self.ejected.store(true, Ordering::Relaxed);
        self.failing.store(false, Ordering::SeqCst);
        lasts
    }

    /// Returns the end of the ejection, if the server is ejected.
    pub(crate) fn ejected_until(&self) -> Option<Instant> {
        let ejection = self.past.lock().ejection;
        ejection
            .filter(|_| self.is_ejected())
            .map(|(_, until)| until)
    }

    /// Ends the ejection. One more failure before any success may eject the server again.
    pub(crate) fn end_ejection(&self, settings: &EjectSettings, now: Instant) {
        self.past.lock().back = Some(now);
        self.failures.store(settings.after - 1, Ordering::Relaxed);
        // Replaces the record of the last 64 requests by `after - 1` failures.
        let count = settings.after.saturating_sub(1).min(u64::BITS - 1);
        self.recent.store((1 << count) - 1, Ordering::Relaxed);
        self.ejected.store(false, Ordering::Relaxed);
    }

    /// Records the result of a check. Returns whether the server is healthy now, or `None` if the check did not change the state. If the
    /// first check of a server fails, the server is unhealthy at once.
    pub(crate) fn checked(
        &self,
        settings: &HealthSettings,
        passed: bool,
        now: Instant,
    ) -> Option<bool> {
        let mut past = self.past.lock();
        let first = !std::mem::replace(&mut past.was_checked, true);
        let unhealthy = self.is_unhealthy();
        if passed != unhealthy {
            past.against = 0;
            return None;
        }
        past.against += 1;
        let enough = if passed {
            settings.healthy_after
        } else {
            settings.unhealthy_after
        };
        if past.against < enough && !first {
            return None;
        }
        past.against = 0;
        if passed {
            past.back = Some(now);
        }
        self.unhealthy.store(!passed, Ordering::Relaxed);
        Some(passed)
    }

    /// Records that the server was added to an upstream with other servers, so `slow_start` applies to the new server.
    pub(crate) fn joined(&self, now: Instant) {
        self.past.lock().back = Some(now);
    }

    /// Returns the share of its weight that the server has now. The share grows to 1 within `slow_start` after the server returned.
    pub(crate) fn share(&self, slow_start: Duration, now: Instant) -> f64 {
        let back = self.past.lock().back;
        back.map_or(1.0, |back| {
            let since = now.saturating_duration_since(back);
            (since.as_secs_f64() / slow_start.as_secs_f64()).clamp(FIRST_SHARE, 1.0)
        })
    }
}

#[cfg(test)]
mod tests;

//! Whether a server takes requests: what its own answers say, and what checks say of it.
//!
//! Time is passed in.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::settings::{EjectPlan, HealthPlan};

/// The longest ejection, in multiples of the first.
const LONGEST: u32 = 32;

/// The share of its weight with which a server comes back, if it starts slowly.
const FIRST_SHARE: f64 = 0.1;

/// How a server is.
#[derive(Debug, Default)]
pub(crate) struct Health {
    // Without a success in between.
    failures: AtomicU32,
    ejected: AtomicBool,
    unhealthy: AtomicBool,
    past: Mutex<Past>,
}

#[derive(Debug, Default)]
struct Past {
    /// How long the last ejection lasts, and when it ends.
    ejection: Option<(Duration, Instant)>,
    /// Checks in a row that said otherwise than what is believed.
    against: u32,
    was_checked: bool,
    back: Option<Instant>,
}

impl Health {
    /// Whether it has its turn like the others.
    pub(crate) fn is_in(&self) -> bool {
        !self.is_ejected() && !self.is_unhealthy()
    }

    pub(crate) fn is_ejected(&self) -> bool {
        self.ejected.load(Ordering::Relaxed)
    }

    pub(crate) fn is_unhealthy(&self) -> bool {
        self.unhealthy.load(Ordering::Relaxed)
    }

    /// Failures without a success in between.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    /// It served a request.
    pub(crate) fn succeeded(&self) {
        // Nearly always so already, and then no other core has to hear of it.
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// It did not; how often in a row so far.
    pub(crate) fn failed(&self) -> u32 {
        self.failures
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }

    /// Leaves it out, and returns for how long. This is twice as long as the last time, unless the server was well since then for
    /// as long as it had been out.
    pub(crate) fn eject(&self, plan: &EjectPlan, now: Instant) -> Duration {
        let mut past = self.past.lock();
        let lasts = match past.ejection {
            Some((lasted, ended)) if now < ended + lasted => lasted.saturating_mul(2),
            _ => plan.lasts,
        };
        let lasts = lasts.min(plan.lasts.saturating_mul(LONGEST));
        past.ejection = Some((lasts, now + lasts));
        self.ejected.store(true, Ordering::Relaxed);
        lasts
    }

    /// When it is back, if it is ejected.
    pub(crate) fn ejected_until(&self) -> Option<Instant> {
        let ejection = self.past.lock().ejection;
        ejection
            .filter(|_| self.is_ejected())
            .map(|(_, until)| until)
    }

    /// Its time is over; one more failure, before any success, ejects it again.
    pub(crate) fn end_ejection(&self, plan: &EjectPlan, now: Instant) {
        self.past.lock().back = Some(now);
        self.failures.store(plan.after - 1, Ordering::Relaxed);
        self.ejected.store(false, Ordering::Relaxed);
    }

    /// A check passed or failed; what is believed now, if that changed. Of a server that was never checked one bad
    /// answer is enough.
    pub(crate) fn checked(&self, plan: &HealthPlan, passed: bool, now: Instant) -> Option<bool> {
        let mut past = self.past.lock();
        let first = !std::mem::replace(&mut past.was_checked, true);
        let unhealthy = self.is_unhealthy();
        if passed != unhealthy {
            past.against = 0;
            return None;
        }
        past.against += 1;
        let enough = if passed {
            plan.healthy_after
        } else {
            plan.unhealthy_after
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

    /// It is new among others that served before.
    pub(crate) fn joined(&self, now: Instant) {
        self.past.lock().back = Some(now);
    }

    /// The share of its weight that it gets, if it takes `slow_start` to get all of it.
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

//! A clock that runs while the machine sleeps, so that lent units are not spent after their lapse.
//!
//! [`Instant`] stands still on Linux while a virtual machine is suspended. Redis's clock runs, so slices may lapse in Redis. Times of this
//! clock may be later than [`Instant::now`]. So these times are only compared with each other.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tidegate_redis::uptime;

/// The time at which this clock was first read, and the machine's uptime at that time.
static START: OnceLock<(Instant, Duration)> = OnceLock::new();

/// Returns the time by this clock.
pub(super) fn now() -> Instant {
    let (start, up) = *START.get_or_init(|| (Instant::now(), uptime()));
    start + (uptime() + asleep()).saturating_sub(up)
}

/// Returns the time for which tests have simulated a sleep of the machine.
#[cfg(not(test))]
const fn asleep() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
static ASLEEP: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[cfg(test)]
fn asleep() -> Duration {
    Duration::from_millis(ASLEEP.load(std::sync::atomic::Ordering::Relaxed))
}

/// Moves the clock on, like a sleep of the machine for this time.
#[cfg(test)]
pub(super) fn sleep(time: Duration) {
    let millis = u64::try_from(time.as_millis()).unwrap();
    ASLEEP.fetch_add(millis, std::sync::atomic::Ordering::Relaxed);
}

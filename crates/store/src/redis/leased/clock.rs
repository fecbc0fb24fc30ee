//! A clock that goes on while the machine sleeps: what was lent may not be spent after its time, wherever that was spent.
//!
//! [`Instant`] stands still on Linux while a virtual machine is suspended. Redis's clock does not, so the slice has lapsed
//! there. Times of this clock are Instants that may lie ahead of the present one. They are compared with each other alone.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// When it was first asked, and how long the machine had been up then.
static START: OnceLock<(Instant, Duration)> = OnceLock::new();

/// The time by this clock.
pub(super) fn now() -> Instant {
    let (start, up) = *START.get_or_init(|| (Instant::now(), uptime()));
    start + (uptime() + asleep()).saturating_sub(up)
}

/// How long tests have had the machine sleep.
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

/// As if the machine had slept for so long.
#[cfg(test)]
pub(super) fn sleep(time: Duration) {
    let millis = u64::try_from(time.as_millis()).unwrap();
    ASLEEP.fetch_add(millis, std::sync::atomic::Ordering::Relaxed);
}

/// How long the machine has been up, asleep or awake.
#[cfg(target_os = "linux")]
fn uptime() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Neither is below 0.
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

/// As far as is known: by a clock that may stand still meanwhile.
#[cfg(not(target_os = "linux"))]
fn uptime() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// It goes on with the machine's uptime, which counts sleep as well.
#[cfg(all(test, target_os = "linux"))]
#[test]
fn it_is_the_clock_of_the_uptime() {
    let up = || {
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
        Duration::from_secs_f64(seconds)
    };
    let (before, uptime, after) = (up(), uptime(), up());
    let tick = Duration::from_millis(10);
    assert!(before <= uptime + tick && uptime <= after + tick);
    assert!(now() <= now());
}

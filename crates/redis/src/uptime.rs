//! The uptime of the machine, including the time for which it sleeps.
//!
//! On Linux, an [`Instant`](std::time::Instant) does not advance while a machine is suspended, but Redis's clock does. So leases of this
//! gateway may lapse in Redis during the sleep.

use std::time::Duration;

/// Returns the uptime of the machine, including the time for which it slept.
#[cfg(target_os = "linux")]
pub fn uptime() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // The uptime is never negative.
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

/// Returns the time since the first call. This clock may not advance while the machine sleeps.
#[cfg(not(target_os = "linux"))]
pub fn uptime() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}

/// Compares the uptime with `/proc/uptime`, which includes sleep.
#[cfg(all(test, target_os = "linux"))]
#[test]
fn it_is_the_uptime_of_the_machine() {
    let up = || {
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
        Duration::from_secs_f64(seconds)
    };
    let (before, uptime, after) = (up(), uptime(), up());
    let tick = Duration::from_millis(10);
    assert!(before <= uptime + tick && uptime <= after + tick);
}

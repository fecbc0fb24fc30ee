//! Measures the memory of the process. If memory is short, the process gives up connections without requests first, and then new requests.
//!
//! At 90 % of `max_memory`, new connections are refused and idle connections are closed. At `max_memory`, requests are refused before any
//! work is done for them. Requests under way are completed. Each state ends when memory has fallen 5 % of `max_memory` below the start of
//! the state. Without this margin, the state could change at every check.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// The pause between two checks of memory.
const LOOK: Duration = Duration::from_millis(250);

/// The percentage of `max_memory` at which [`Pressure::Near`] begins.
const NEAR: u64 = 90;
/// The percentage of `max_memory` at which [`Pressure::Full`] begins.
const FULL: u64 = 100;
/// The percentage of `max_memory` by which memory must fall below the start of a state before the state ends.
const LEFT_BELOW: u64 = 5;

/// The size of the block that `give_back` allocates, in bytes. An allocator takes such a large block from the system, not from its free
/// small blocks.
const LARGE: usize = 8 << 20;

/// The degree to which the process is short of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Pressure {
    /// New connections and requests are accepted.
    #[default]
    None,
    /// New connections are refused, and idle connections are closed.
    Near,
    /// New requests are refused, in addition to the effects of [`Near`](Self::Near).
    Full,
}

/// The memory of the process at the last check.
#[derive(Debug, Default)]
pub struct Overload {
    // A copy of the value in `sender`. Requests read this copy, because the read is cheaper.
    pressure: AtomicU8,
    resident: AtomicU64,
    sender: watch::Sender<Pressure>,
}

impl Overload {
    /// Returns the current shortage of memory.
    pub fn pressure(&self) -> Pressure {
        match self.pressure.load(Ordering::Relaxed) {
            0 => Pressure::None,
            1 => Pressure::Near,
            _ => Pressure::Full,
        }
    }

    /// Returns a receiver of the pressure, for tasks that wait for a change.
    pub fn watch(&self) -> watch::Receiver<Pressure> {
        self.sender.subscribe()
    }

    /// Returns the resident bytes of the process at the last check; 0 if the system does not provide the number.
    pub fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// Records that the process uses `resident` of `max` bytes.
    fn checked(&self, resident: u64, max: Option<u64>) {
        self.resident.store(resident, Ordering::Relaxed);
        let before = self.pressure();
        let now = before.next(resident, max);
        if now == before {
            return;
        }
        self.pressure.store(now as u8, Ordering::Relaxed);
        self.sender.send_replace(now);
        let max = max.unwrap_or_default();
        match now {
            Pressure::None => {
                tracing::info!(
                    resident,
                    max,
                    "memory is below max_memory; connections and requests are accepted again"
                );
            }
            Pressure::Near => tracing::warn!(
                resident,
                max,
                "memory is near max_memory; new connections are refused and idle connections closed"
            ),
            Pressure::Full => tracing::warn!(
                resident,
                max,
                "memory is at max_memory; requests are refused with 503"
            ),
        }
    }
}

impl Pressure {
    fn next(self, resident: u64, max: Option<u64>) -> Self {
        let Some(max) = max else {
            return Self::None;
        };
        let reaches = |state, entered: u64| {
            let percent = if self >= state {
                entered - LEFT_BELOW
            } else {
                entered
            };
            u128::from(resident) * 100 >= u128::from(max) * u128::from(percent)
        };
        if reaches(Self::Full, FULL) {
            Self::Full
        } else if reaches(Self::Near, NEAR) {
            Self::Near
        } else {
            Self::None
        }
    }
}

/// Checks the memory of the process against `max`, until the future is dropped.
pub async fn watch_memory(overload: &Overload, max: impl Fn() -> Option<u64>) {
    let mut every = tokio::time::interval(LOOK);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_warned = false;
    loop {
        every.tick().await;
        give_back();
        let max = max();
        match resident() {
            Some(bytes) => overload.checked(bytes, max),
            None if max.is_some() && !is_warned => {
                is_warned = true;
                tracing::warn!(
                    "max_memory is ignored: this system does not report the memory of a process"
                );
            }
            None => {}
        }
    }
}

/// Returns the resident memory of the process, in bytes; only Linux provides it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// Makes mimalloc, the allocator, return free memory to the system. mimalloc returns memory that has been free for a while, but only when a
/// large block is freed. So this function allocates and frees a large block. Otherwise an idle gateway would keep all memory that it ever
/// needed.
fn give_back() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_left_below_where_they_are_entered() {
        let overload = Overload::default();
        let mut sent = overload.watch();
        let mut seen = Vec::new();
        for used in [0, 89, 90, 86, 99, 100, 96, 95, 94, 85, 84, 89, 200, 84] {
            overload.checked(used, Some(100));
            assert_eq!(*sent.borrow_and_update(), overload.pressure());
            seen.push(overload.pressure() as u8);
        }
        assert_eq!(seen, [0, 0, 1, 1, 1, 2, 2, 2, 1, 1, 0, 0, 2, 0]);
    }

    #[test]
    fn without_a_bound_there_is_no_pressure() {
        let overload = Overload::default();
        overload.checked(100, Some(100));
        assert_eq!(overload.pressure(), Pressure::Full);
        overload.checked(u64::MAX, None);
        assert_eq!(overload.pressure(), Pressure::None);
        assert_eq!(overload.resident(), u64::MAX);
        overload.checked(u64::MAX - 1, Some(u64::MAX));
        assert_eq!(overload.pressure(), Pressure::Near);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_takes_some_memory() {
        assert!((1 << 20..1 << 40).contains(&resident().unwrap()));
    }
}

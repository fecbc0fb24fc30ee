//! Logs requests that the admin port refuses. Each address gets at most one line a minute, with the number of its refusals since the last
//! line.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The shortest time between two lines for one address.
const EVERY: Duration = Duration::from_secs(60);

/// The most addresses that get a line within [`EVERY`].
const MOST: usize = 64;

/// The addresses whose requests were refused recently.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<HashMap<IpAddr, Address>>);

#[derive(Debug)]
struct Address {
    logged: Instant,
    unlogged: u64,
}

impl Refusals {
    /// Logs that a request of `from` was refused with `error`, unless the address got a line within the last minute.
    pub(super) fn log(&self, error: &str, from: IpAddr) {
        let from = from.to_canonical();
        if let Some(earlier) = self.add(from, Instant::now()) {
            tracing::warn!(%from, error, earlier, "the admin port refused a request");
        }
    }

    /// Counts a refusal. Returns the number of unlogged refusals before this one if a line is due, and otherwise `None`.
    fn add(&self, from: IpAddr, now: Instant) -> Option<u64> {
        let mut addresses = self.0.lock();
        if let Some(address) = addresses.get_mut(&from) {
            if now.duration_since(address.logged) < EVERY {
                address.unlogged += 1;
                return None;
            }
            address.logged = now;
            return Some(std::mem::take(&mut address.unlogged));
        }
        if addresses.len() >= MOST {
            addresses.retain(|_, address| now.duration_since(address.logged) < EVERY);
        }
        if addresses.len() >= MOST {
            return None;
        }
        let (logged, unlogged) = (now, 0);
        addresses.insert(from, Address { logged, unlogged });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_line_a_minute_and_so_many_addresses_have_one() {
        let refusals = Refusals::default();
        let start = Instant::now();
        let address = |number: u32| IpAddr::V4(number.into());
        assert_eq!(refusals.add(address(0), start), Some(0));
        for _ in 0..50 {
            assert_eq!(refusals.add(address(0), start), None);
        }
        assert_eq!(refusals.add(address(0), start + EVERY), Some(50));
        let later = start + 2 * EVERY;
        let lines = (0..1_000).filter_map(|number| refusals.add(address(number), later));
        assert_eq!(lines.count(), MOST);
        assert_eq!(refusals.0.lock().len(), MOST);
    }
}

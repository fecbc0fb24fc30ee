//! Addresses that have used up a limit by request heads that the HTTP parser refused. For up to a second, the gateway closes connections
//! from these addresses without reading them.
//!
//! If the list is empty, which is the usual case, a check costs one atomic load.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::connection_limit::network;

/// The most addresses that are kept. If the list is full, connections of further addresses are read, and their heads are charged for.
const MOST: usize = 10_000;
/// The longest time for which an address is kept. So a reset of the address's limit, or a new configuration, takes effect within this time.
const LONGEST: Duration = Duration::from_secs(1);
/// The least time between two log lines about connections that were closed because of control frames.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Addresses, each with the time until which its connections are not read.
#[derive(Debug, Default)]
pub(crate) struct Offenders {
    count: AtomicUsize,
    until: Mutex<HashMap<IpAddr, Instant>>,
    reported: Mutex<Option<Instant>>,
}

impl Offenders {
    /// Adds an address that a limit refuses for `refused_for`.
    pub(crate) fn add(&self, ip: IpAddr, refused_for: Duration) {
        let now = Instant::now();
        let mut until = self.until.lock();
        if until.len() >= MOST {
            until.retain(|_, until| *until > now);
        }
        if until.len() < MOST {
            until.insert(network(ip), now + refused_for.min(LONGEST));
        }
        self.count.store(until.len(), Ordering::Relaxed);
    }

    /// Whether the log is to report a flood of control frames: the first one, and later ones at most once a minute.
    pub(crate) fn is_report_due(&self) -> bool {
        let mut reported = self.reported.lock();
        let is_due = reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY);
        if is_due {
            *reported = Some(Instant::now());
        }
        is_due
    }

    /// Whether to close connections of an address before any byte of them is read.
    pub(crate) fn contain(&self, ip: IpAddr) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut until = self.until.lock();
        // Uses `get`, because `entry` would make room for a missing address.
        let address = network(ip);
        let Some(end) = until.get(&address) else {
            return false;
        };
        let is_one = *end > Instant::now();
        if !is_one {
            until.remove(&address);
            self.count.store(until.len(), Ordering::Relaxed);
        }
        is_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_remembered_for_as_long_as_it_is_refused() {
        let offenders = Offenders::default();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        offenders.add(ip("2001:db8::1"), Duration::from_secs(3_600));
        assert!(offenders.contain(ip("2001:db8::2")));
        assert!(!offenders.contain(ip("2001:db8:0:1::1")));
        offenders.add(ip("192.0.2.1"), Duration::ZERO);
        assert!(!offenders.contain(ip("192.0.2.1")));
        assert_eq!(offenders.until.lock().len(), 1);
    }

    #[test]
    fn no_more_are_remembered_than_may_be() {
        let offenders = Offenders::default();
        for n in 0..MOST as u32 + 10 {
            let ip = std::net::Ipv4Addr::from_bits(n).into();
            offenders.add(ip, Duration::from_secs(3_600));
        }
        assert!(offenders.until.lock().len() <= MOST);
    }
}

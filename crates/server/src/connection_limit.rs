//! The number of open connections, in total and by address, and a notification when all are closed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Counts and bounds open connections, or open TLS handshakes.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLimit {
    open: AtomicUsize,
    // The number of permits of each address. The map contains only addresses that have a bound and hold at least one permit.
    by_ip: Mutex<HashMap<IpAddr, usize>>,
    all_closed: Notify,
}

/// The permit of one connection or handshake, which is counted until the permit is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    ip: Option<IpAddr>,
}

/// The most connections, or handshakes, that may be open at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The bound on the permits of all addresses together.
    pub(crate) total: usize,
    /// The address, and the bound on its permits; `None` if the address has no bound.
    pub(crate) of_ip: Option<(IpAddr, usize)>,
}

/// The bound that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitReached {
    /// The bound of all connections.
    Total,
    /// The bound of the address.
    Address,
}

impl ConnectionLimit {
    /// Returns a permit, or the bound that is reached.
    pub(crate) fn take(self: &Arc<Self>, bounds: Bounds) -> Result<ConnectionPermit, LimitReached> {
        self.open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| {
                (open < bounds.total).then_some(open + 1)
            })
            .map_err(|_| LimitReached::Total)?;
        let mut permit = ConnectionPermit {
            limit: self.clone(),
            ip: None,
        };
        if let Some((ip, most)) = bounds.of_ip {
            let ip = network(ip);
            let mut by_ip = self.by_ip.lock();
            let open = by_ip.entry(ip).or_default();
            if *open >= most {
                // An address at its bound has open connections, so `or_default` has not added an empty entry.
                drop(by_ip);
                return Err(LimitReached::Address);
            }
            *open += 1;
            permit.ip = Some(ip);
        }
        Ok(permit)
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Waits until no connection is open.
    pub(crate) async fn all_closed(&self) {
        loop {
            let mut notified = std::pin::pin!(self.all_closed.notified());
            // Registers for the notification before the count is read, so that a last close in between is not missed.
            notified.as_mut().enable();
            if self.open() == 0 {
                return;
            }
            notified.await;
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        if let Some(ip) = self.ip
            && let Entry::Occupied(mut open) = self.limit.by_ip.lock().entry(ip)
        {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
        if self.limit.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.limit.all_closed.notify_waiters();
        }
    }
}

/// Returns the network that counts as one address. In IPv6 it is a /64, because one client has a whole /64.
pub(crate) fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn in_all(total: usize) -> Bounds {
        Bounds { total, of_ip: None }
    }

    #[tokio::test]
    async fn there_are_as_many_as_are_allowed_at_the_time() {
        let limit = Arc::new(ConnectionLimit::default());
        limit.all_closed().await;
        let first = limit.take(in_all(2)).unwrap();
        let second = limit.take(in_all(2)).unwrap();
        assert_eq!(limit.take(in_all(2)).unwrap_err(), LimitReached::Total);
        let third = limit.take(in_all(3)).unwrap();
        drop((first, second));
        // One connection is open, and the bound is one now.
        assert!(limit.take(in_all(1)).is_err());
        assert_eq!(limit.open(), 1);
        let (all, ()) = tokio::join!(limit.all_closed(), async { drop(third) });
        assert_eq!(((), 0), (all, limit.open()));
    }

    #[test]
    fn an_address_has_its_share_and_others_have_theirs() {
        let limit = Arc::new(ConnectionLimit::default());
        let of = |ip: &str| Bounds {
            total: 100,
            of_ip: Some((ip.parse().unwrap(), 2)),
        };
        for (one, same, other) in [
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
            ("2001:db8::1", "2001:db8::ffff:0:0:1", "2001:db8:0:1::1"),
        ] {
            let first = limit.take(of(one)).unwrap();
            let _second = limit.take(of(same)).unwrap();
            assert_eq!(limit.take(of(one)).unwrap_err(), LimitReached::Address);
            let _other = limit.take(of(other)).unwrap();
            let _trusted = limit.take(in_all(100)).unwrap();
            drop(first);
            assert!(limit.take(of(same)).is_ok());
        }
        // A refused connection is not counted, and closed connections leave no entries.
        assert_eq!((limit.open(), limit.by_ip.lock().len()), (0, 0));
    }
}

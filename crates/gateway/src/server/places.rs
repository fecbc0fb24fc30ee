//! The places that connections take: how many there are at once, in all and of one address, and when all are back.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How many places are taken.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: AtomicUsize,
    // Of those that are counted by address; none is kept without a place.
    by_ip: Mutex<HashMap<IpAddr, usize>>,
    all_back: Notify,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    ip: Option<IpAddr>,
}

/// How many places there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// In all.
    pub(super) most: usize,
    /// For whoever asks, and for how many its address is good.
    pub(super) of_ip: Option<(IpAddr, usize)>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// All are taken.
    AtAll,
    /// The address has as many as it may.
    ForIp,
}

impl Places {
    /// A place, if fewer than there may be are taken.
    pub(super) fn take(self: &Arc<Self>, bounds: Bounds) -> Result<Place, NoPlace> {
        let more = |taken: usize| (taken < bounds.most).then_some(taken + 1);
        let taken = self
            .taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.map_err(|_| NoPlace::AtAll)?;
        let mut place = Place {
            places: self.clone(),
            ip: None,
        };
        if let Some((ip, most)) = bounds.of_ip {
            let ip = network(ip);
            let mut by_ip = self.by_ip.lock();
            let taken = by_ip.entry(ip).or_default();
            if *taken >= most {
                // There is at least one, so nothing is kept for nobody.
                drop(by_ip);
                return Err(NoPlace::ForIp);
            }
            *taken += 1;
            place.ip = Some(ip);
        }
        Ok(place)
    }

    /// How many are taken now.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Ready when none is taken.
    pub(super) async fn all_back(&self) {
        loop {
            let mut told = std::pin::pin!(self.all_back.notified());
            // Before the look, so that the last one is not missed.
            told.as_mut().enable();
            if self.taken() == 0 {
                return;
            }
            told.await;
        }
    }

    fn leave(&self, ip: IpAddr) {
        let mut by_ip = self.by_ip.lock();
        if let Some(taken) = by_ip.get_mut(&ip) {
            *taken -= 1;
            if *taken == 0 {
                by_ip.remove(&ip);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ip) = self.ip {
            self.places.leave(ip);
        }
        if self.places.taken.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.places.all_back.notify_waiters();
        }
    }
}

/// Whose address it is: in IPv6 whoever has one has a whole /64 of them.
pub(super) fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn in_all(most: usize) -> Bounds {
        Bounds { most, of_ip: None }
    }

    #[tokio::test]
    async fn there_are_as_many_as_are_allowed_at_the_time() {
        let places = Arc::new(Places::default());
        places.all_back().await;
        let first = places.take(in_all(2)).unwrap();
        let second = places.take(in_all(2)).unwrap();
        assert_eq!(places.take(in_all(2)).unwrap_err(), NoPlace::AtAll);
        let third = places.take(in_all(3)).unwrap();
        drop((first, second));
        // One is out, which is all that there are by now.
        assert!(places.take(in_all(1)).is_err());
        assert_eq!(places.taken(), 1);
        let (all, ()) = tokio::join!(places.all_back(), async { drop(third) });
        assert_eq!(((), 0), (all, places.taken()));
    }

    #[test]
    fn an_address_has_its_share_and_others_have_theirs() {
        let places = Arc::new(Places::default());
        let of = |ip: &str| Bounds {
            most: 100,
            of_ip: Some((ip.parse().unwrap(), 2)),
        };
        for (one, same, other) in [
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
            ("2001:db8::1", "2001:db8::ffff:0:0:1", "2001:db8:0:1::1"),
        ] {
            let first = places.take(of(one)).unwrap();
            let _second = places.take(of(same)).unwrap();
            assert_eq!(places.take(of(one)).unwrap_err(), NoPlace::ForIp);
            let _other = places.take(of(other)).unwrap();
            let _trusted = places.take(in_all(100)).unwrap();
            drop(first);
            assert!(places.take(of(same)).is_ok());
        }
        // A refusal takes no place, and nothing is kept of those that left.
        assert_eq!((places.taken(), places.by_ip.lock().len()), (0, 0));
    }
}

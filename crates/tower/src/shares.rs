//! A bounded number of permits that no single address can take in full.
//!
//! Half of the permits are kept for addresses that hold fewer than [`FEW`]. An address with more permits gets another one only from the
//! other half, and only while it holds fewer permits than are free in that half. So a single greedy address gets at most a quarter of all
//! permits, and two such addresses together get three eighths. Greedy addresses can never take the half that is kept for other addresses.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// An address with fewer permits than this number gets another permit while any permit is free.
pub(crate) const FEW: usize = 16;

const SHARDS: usize = 16;

/// A bounded number of permits, shared by addresses.
#[derive(Debug)]
pub struct Shares {
    most: usize,
    taken: AtomicUsize,
    // The number of `Permit`s.
    holders: AtomicUsize,
    // The number of permits of each address. The hash is seeded per process, so that clients cannot choose addresses that share one lock.
    held: [Mutex<HashMap<IpAddr, usize>>; SHARDS],
    hasher: RandomState,
}

/// One permit, or several permits that were taken together. Dropping this value frees the permits.
#[derive(Debug)]
pub struct Permit {
    shares: Arc<Shares>,
    address: IpAddr,
    count: usize,
}

impl Shares {
    /// Makes `most` permits.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
            held: Default::default(),
            hasher: RandomState::new(),
        })
    }

    pub(crate) fn holders(&self) -> usize {
        self.holders.load(Ordering::Relaxed)
    }

    /// Takes `count` permits together for this address. `None` if the address may not have all of them.
    pub fn take(self: &Arc<Self>, address: IpAddr, count: usize) -> Option<Permit> {
        let mut held = self.shard(address).lock();
        let own = held.get(&address).copied().unwrap_or(0);
        let one_more = |taken: usize| {
            let for_many = (self.most / 2).saturating_sub(taken);
            let (own, taken) = (own + count, taken + count);
            let may = taken <= self.most && own <= for_many.max(FEW);
            may.then_some(taken)
        };
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.ok()?;
        held.insert(address, own + count);
        Some(self.permit(address, count))
    }

    /// Takes `count` permits for this address, even beyond the bound.
    pub(crate) fn take_beyond(self: &Arc<Self>, address: IpAddr, count: usize) -> Permit {
        *self.shard(address).lock().entry(address).or_default() += count;
        self.taken.fetch_add(count, Ordering::Relaxed);
        self.permit(address, count)
    }

    fn permit(self: &Arc<Self>, address: IpAddr, count: usize) -> Permit {
        self.holders.fetch_add(1, Ordering::Relaxed);
        Permit {
            shares: self.clone(),
            address,
            count,
        }
    }

    fn shard(&self, address: IpAddr) -> &Mutex<HashMap<IpAddr, usize>> {
        let hash = self.hasher.hash_one(address);
        &self.held[(hash % SHARDS as u64) as usize]
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.shares.shard(self.address).lock();
        if let Some(own) = held.get_mut(&self.address) {
            *own -= self.count;
            if *own == 0 {
                held.remove(&self.address);
            }
        }
        if held.is_empty() {
            *held = HashMap::new();
        }
        self.shares.taken.fetch_sub(self.count, Ordering::Relaxed);
        self.shares.holders.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(nth: usize) -> IpAddr {
        IpAddr::from(u32::try_from(nth).unwrap().to_be_bytes())
    }

    /// Takes all permits that one address can get.
    fn all(shares: &Arc<Shares>, nth: usize) -> Vec<Permit> {
        std::iter::from_fn(|| shares.take(address(nth), 1)).collect()
    }

    #[test]
    fn greedy_addresses_leave_half_for_others() {
        let shares = Shares::new(20_000);
        let first = all(&shares, 0);
        assert_eq!(first.len(), 5_000);
        let others: Vec<_> = (1..=100).map(|nth| all(&shares, nth)).collect();
        assert!(others.iter().all(|permits| permits.len() >= FEW));
        assert!(shares.holders() < 12_000, "{}", shares.holders());
        let late = all(&shares, 101);
        assert_eq!(late.len(), FEW);
        drop((first, others, late));
        assert_eq!(shares.holders(), 0);
        let empty = |held: &Mutex<HashMap<_, _>>| held.lock().capacity() == 0;
        assert!(shares.held.iter().all(empty));
    }

    #[test]
    fn there_are_no_more_than_all() {
        let shares = Shares::new(3);
        let permits: Vec<_> = (0..4).map(|nth| shares.take(address(nth), 1)).collect();
        let taken: Vec<_> = permits.iter().map(Option::is_some).collect();
        assert_eq!(taken, [true, true, true, false]);
        drop((shares.take_beyond(address(9), 5), permits));
        assert_eq!(shares.holders(), 0);
        assert_eq!(shares.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn permits_that_are_held_together_count_each() {
        let shares = Shares::new(20_000);
        let take = || shares.take(address(0), 6);
        let large: Vec<_> = std::iter::from_fn(take).collect();
        assert_eq!(large.len(), 5_000 / 6);
        assert_eq!(shares.holders(), large.len());
        drop(large);
        assert_eq!(shares.taken.load(Ordering::Relaxed), 0);
        assert!(shares.take(address(0), 10_001).is_none());
    }
}

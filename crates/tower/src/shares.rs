//! A bounded number of permits, of which no address can take all.
//!
//! Half of the permits are for addresses that hold few. Of the other half an address gets another permit only while it holds
//! fewer than are free of that half. So one address alone gets a quarter of all permits, and two get three eighths. Any number of
//! greedy addresses leaves half of them for addresses that hold fewer than [`FEW`].

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// An address that holds fewer gets another permit while there is one.
pub(crate) const FEW: usize = 16;

const SHARDS: usize = 16;

/// The permits.
#[derive(Debug)]
pub(crate) struct Shares {
    most: usize,
    taken: AtomicUsize,
    // Addresses that hold permits, and how many. Seeded per process: nobody outside can aim addresses at one lock.
    held: [Mutex<HashMap<IpAddr, usize>>; SHARDS],
    hasher: RandomState,
}

/// One permit. Dropping it frees it.
#[derive(Debug)]
pub(crate) struct Permit {
    shares: Arc<Shares>,
    address: IpAddr,
}

impl Shares {
    /// As many permits as `most`.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: AtomicUsize::new(0),
            held: Default::default(),
            hasher: RandomState::new(),
        })
    }

    /// How many permits are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// A permit for this address, if the address may have one more.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Permit> {
        let mut held = self.shard(address).lock();
        let own = held.get(&address).copied().unwrap_or(0);
        let one_more = |taken: usize| {
            let for_many = (self.most / 2).saturating_sub(taken);
            let may = taken < self.most && (own < FEW || own < for_many);
            may.then_some(taken + 1)
        };
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.ok()?;
        held.insert(address, own + 1);
        let shares = self.clone();
        Some(Permit { shares, address })
    }

    /// A permit beyond the bound.
    pub(crate) fn take_beyond(self: &Arc<Self>, address: IpAddr) -> Permit {
        *self.shard(address).lock().entry(address).or_default() += 1;
        self.taken.fetch_add(1, Ordering::Relaxed);
        let shares = self.clone();
        Permit { shares, address }
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
            *own -= 1;
            if *own == 0 {
                held.remove(&self.address);
            }
        }
        if held.is_empty() {
            *held = HashMap::new();
        }
        self.shares.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(nth: usize) -> IpAddr {
        IpAddr::from(u32::try_from(nth).unwrap().to_be_bytes())
    }

    /// As many permits as an address can get.
    fn all(shares: &Arc<Shares>, nth: usize) -> Vec<Permit> {
        std::iter::from_fn(|| shares.take(address(nth))).collect()
    }

    #[test]
    fn greedy_addresses_leave_half_for_others() {
        let shares = Shares::new(20_000);
        let first = all(&shares, 0);
        assert_eq!(first.len(), 5_000);
        let others: Vec<_> = (1..=100).map(|nth| all(&shares, nth)).collect();
        assert!(others.iter().all(|permits| permits.len() >= FEW));
        assert!(shares.taken() < 12_000, "{}", shares.taken());
        let late = all(&shares, 101);
        assert_eq!(late.len(), FEW);
        drop((first, others, late));
        assert_eq!(shares.taken(), 0);
        let empty = |held: &Mutex<HashMap<_, _>>| held.lock().capacity() == 0;
        assert!(shares.held.iter().all(empty));
    }

    #[test]
    fn there_are_no_more_than_all() {
        let shares = Shares::new(3);
        let permits: Vec<_> = (0..4).map(|nth| shares.take(address(nth))).collect();
        let taken: Vec<_> = permits.iter().map(Option::is_some).collect();
        assert_eq!(taken, [true, true, true, false]);
        drop((shares.take_beyond(address(9)), permits));
        assert_eq!(shares.taken(), 0);
    }
}

//! The number of requests at a server, and the bound on that number.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The places for requests at one server.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    taken: Arc<AtomicUsize>,
    most: Option<usize>,
}

/// One request's place. A drop frees it.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    taken: Arc<AtomicUsize>,
    // The client's address and the queue for places. `None` if places have no bound.
    shared: Option<(IpAddr, Arc<dyn PlaceQueue>)>,
}

/// The queue of requests that wait for places.
pub(crate) trait PlaceQueue: Debug + Send + Sync {
    /// Gives a place that a request from `address` has freed to a waiting request.
    fn freed(self: Arc<Self>, address: IpAddr);
}

impl ConnectionLimit {
    /// Returns `most` places, or places without a bound for `None`.
    pub(crate) fn new(most: Option<usize>) -> Self {
        let taken = Arc::default();
        Self { taken, most }
    }

    /// Returns the number of taken places.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns the number of free places.
    pub(crate) fn free(&self) -> usize {
        self.most
            .map_or(usize::MAX, |most| most.saturating_sub(self.taken()))
    }

    /// Takes a place. `shared` has the client's address and the queue, if places have a bound. In that case the caller holds the lock of
    /// the queue from its call of [`free`](Self::free) to the return of this function.
    pub(crate) fn take(&self, shared: Option<(IpAddr, Arc<dyn PlaceQueue>)>) -> ConnectionPermit {
        self.taken.fetch_add(1, Ordering::Relaxed);
        let taken = self.taken.clone();
        ConnectionPermit { taken, shared }
    }
}

impl ConnectionPermit {
    /// Whether other requests may wait for this place.
    pub(crate) const fn is_bounded(&self) -> bool {
        self.shared.is_some()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
        if let Some((address, queue)) = self.shared.take() {
            queue.freed(address);
        }
    }
}

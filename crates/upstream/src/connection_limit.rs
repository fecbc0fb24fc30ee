//! How many requests a server has, and the bound on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places for requests at one server.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    taken: Arc<AtomicUsize>,
    bound: Option<Bound>,
}

#[derive(Debug)]
struct Bound {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
    most_waiting: usize,
}

/// One request's place, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    taken: Arc<AtomicUsize>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// There is no place, and no room to wait for one.
#[derive(Debug)]
pub(crate) struct Full;

impl ConnectionLimit {
    /// So many places, and so many who may wait for one.
    pub(crate) fn new(most: Option<usize>, most_waiting: usize) -> Self {
        let bound = most.map(|most| Bound {
            free: Arc::new(Semaphore::new(most)),
            waiting: AtomicUsize::new(0),
            most_waiting,
        });
        Self {
            taken: Arc::default(),
            bound,
        }
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether a request would have to wait.
    pub(crate) fn is_full(&self) -> bool {
        let bound = self.bound.as_ref();
        bound.is_some_and(|bound| bound.free.available_permits() == 0)
    }

    /// A place, as soon as there is one.
    pub(crate) async fn take(&self) -> Result<ConnectionPermit, Full> {
        let permit = match &self.bound {
            Some(bound) => Some(bound.permit().await?),
            None => None,
        };
        self.taken.fetch_add(1, Ordering::Relaxed);
        Ok(ConnectionPermit {
            taken: self.taken.clone(),
            _permit: permit,
        })
    }
}

impl Bound {
    async fn permit(&self) -> Result<OwnedSemaphorePermit, Full> {
        if let Ok(permit) = self.free.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let one_more = |waiting| (waiting < self.most_waiting).then_some(waiting + 1);
        let queued = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        queued.map_err(|_| Full)?;
        let _waiting = Waiting(&self.waiting);
        // Nobody closes it.
        self.free.clone().acquire_owned().await.map_err(|_| Full)
    }
}

/// A request that waits, until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

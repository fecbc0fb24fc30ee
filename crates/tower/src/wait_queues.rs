//! Wait queues: lists of requests that wait for a limit in this gateway, in the order of their arrival.
//!
//! Each limit and key for which a request waits has one wait queue. Only the head of a wait queue calls the store. When the head leaves,
//! the next request becomes the head. Requests that a `leaky_bucket` with a `queue` admitted wait for their turns in a separate wait queue,
//! in the order of their turns. Each wait queue is bounded, and so is the total number of waiting requests. An empty wait queue takes no
//! memory. A request needs a permit to wait, and no address can take all permits ([`crate::shares`]).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::Request;
use parking_lot::{Mutex, MutexGuard};
use tidegate_core::{Micros, Verdict, micros};
use tidegate_store::Key;
use tokio::sync::Notify;

use crate::retries::Retries;
use crate::shares::{Permit, Shares};

/// The most requests in one wait queue of a limit. The bound does not apply to the `queue` of a `leaky_bucket`, because the limit itself
/// bounds its `queue`.
pub const MAX_IN_QUEUE: usize = 1_000;

/// The most requests in one wait queue that wait for holds of other requests to end. The bound is low, because most requests of a longer
/// queue would wait in vain.
pub const MAX_SETTLING: usize = 32;

/// The most permits of one gateway for waiting requests. A request takes one permit, and one more for each full 2 KiB of its head.
pub const MAX_WAITING: usize = 20_000;

/// The bytes of a request's head for which the request takes one more permit. Usual heads of browsers and API clients are smaller.
const HEAD_BYTES: usize = 2 << 10;

/// The most exchanges of one gateway that continue after their clients have left.
pub const MAX_ABANDONED: usize = 4_096;
/// The most requests whose body's beginning is kept before they are forwarded. Each keeps 64 KB and one read at most.
pub(crate) const MAX_BODIES: usize = 1_024;

const SHARDS: usize = 64;

/// All wait queues of a gateway, and its exchanges whose clients have left. Clones share the same queues.
#[derive(Clone)]
pub struct WaitQueues(Arc<Shared>);

/// The address of a request that may have to wait, and the number of permits that it takes if it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) address: IpAddr,
    permits: usize,
}

impl Sender {
    pub(crate) fn of<B>(address: IpAddr, request: &Request<B>) -> Self {
        let path = request.uri().path_and_query();
        let mut bytes = path.map_or(0, |path| path.as_str().len());
        for (name, value) in request.headers() {
            bytes += name.as_str().len() + value.len();
        }
        Self {
            permits: 1 + bytes / HEAD_BYTES,
            address,
        }
    }
}

impl From<IpAddr> for Sender {
    /// Makes a sender with one permit, for a request with a small head.
    fn from(address: IpAddr) -> Self {
        let permits = 1;
        Self { address, permits }
    }
}

/// The identity of a wait queue: one limit and one key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct QueueKey {
    /// The limit's ID. Each plan with budgets of its own has a different ID, and so a wait queue of its own.
    pub(crate) limit: Box<str>,
    pub(crate) key: Key,
    /// Whether the requests in the wait queue were admitted by the limit's `queue`, and wait for their turns.
    pub(crate) is_queue: bool,
}

type Shard = HashMap<QueueKey, WaitQueue>;

struct Shared {
    shards: [Mutex<Shard>; SHARDS],
    // Seeded per process, so that a client cannot choose keys that share one lock.
    hasher: RandomState,
    next: AtomicU64,
    permits: Arc<Shares>,
    abandoned: Arc<Shares>,
    bodies: Arc<Shares>,
    retries: Retries,
}

struct WaitQueue {
    entries: BTreeMap<Position, Entry>,
    /// The total cost of the waiting requests.
    units: u64,
    /// The last refusal of the limit. `None` if the requests were admitted and wait for their turns in a `queue`.
    last_refusal: Option<LastRefusal>,
    /// The turn of the request that left a `queue` most recently, and the time when it left.
    last_turn: Option<(Micros, Instant)>,
}

/// The position of a request in a wait queue. Requests are ordered by turn (in us, by the clock that decided), then by arrival. A request
/// without a turn has turn 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    turn: Micros,
    number: u64,
}

struct Entry {
    cost: u64,
    is_first: Arc<Notify>,
}

/// The last refusal that the head of a wait queue got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastRefusal {
    pub(crate) verdict: Verdict,
    /// The time of the decision in us since the epoch, by the clock that decided.
    pub(crate) now: Micros,
    pub(crate) came: Instant,
}

/// A request in a wait queue. Dropping this value takes the request out of the wait queue.
pub(crate) struct Waiter {
    pub(crate) key: QueueKey,
    position: Position,
    is_first: Arc<Notify>,
    /// The total cost of the requests that were before this request when it joined the wait queue.
    pub(crate) ahead: u64,
    queues: WaitQueues,
    // Some of the `MAX_WAITING` permits.
    _permit: Permit,
}

impl Default for WaitQueues {
    fn default() -> Self {
        Self(Arc::new(Shared {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            next: AtomicU64::new(0),
            permits: Shares::new(MAX_WAITING),
            abandoned: Shares::new(MAX_ABANDONED),
            bodies: Shares::new(MAX_BODIES),
            retries: Retries::default(),
        }))
    }
}

impl WaitQueues {
    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.0.permits.holders()
    }

    /// Returns the number of exchanges that continue after their clients have left.
    pub fn abandoned(&self) -> usize {
        self.0.abandoned.holders()
    }

    /// Takes a permit for an exchange whose client has left. `None` if too many such exchanges run, in total or for this address.
    pub(crate) fn abandon(&self, address: IpAddr) -> Option<Permit> {
        self.0.abandoned.take(address, 1)
    }

    /// Takes a permit to keep the beginning of a request's body until the request is forwarded. `None` if too many requests have such a
    /// permit, in total or for this address.
    pub(crate) fn keep_body(&self, address: IpAddr) -> Option<Permit> {
        self.0.bodies.take(address, 1)
    }

    /// Returns the schedule of the store calls that heads of wait queues make while they wait for holds.
    pub(crate) fn retries(&self) -> &Retries {
        &self.0.retries
    }

    pub(crate) fn last_refusal(&self, key: &QueueKey) -> Option<LastRefusal> {
        self.shard(key).get(key)?.last_refusal
    }

    /// Joins the end of a wait queue, and creates the wait queue if no request waits. `None` if the wait queue is full, or if too few
    /// permits are left for this address.
    pub(crate) fn join(
        &self,
        key: QueueKey,
        sender: impl Into<Sender>,
        cost: u64,
        last_refusal: LastRefusal,
    ) -> Option<Waiter> {
        let permit = self.permit(sender)?;
        self.stand(key, permit, 0, cost, Some(last_refusal))
    }

    /// Joins the wait queue of requests that a `queue` admitted. `turn` determines the request's position.
    pub(crate) fn join_queue(&self, key: QueueKey, permit: Permit, turn: Micros) -> Option<Waiter> {
        self.stand(key, permit, turn, 0, None)
    }

    /// Takes the permits that a request needs to wait. There are [`MAX_WAITING`] permits in total. Dropping the [`Permit`] frees its
    /// permits. `None` if too few permits are left for this address.
    pub(crate) fn permit(&self, sender: impl Into<Sender>) -> Option<Permit> {
        let Sender { address, permits } = sender.into();
        self.0.permits.take(address, permits)
    }

    /// Takes the permits, even beyond the bound, for a request that is already charged and can no longer be refused.
    pub(crate) fn permit_beyond(&self, sender: Sender) -> Permit {
        let Sender { address, permits } = sender;
        self.0.permits.take_beyond(address, permits)
    }

    fn stand(
        &self,
        key: QueueKey,
        permit: Permit,
        turn: Micros,
        cost: u64,
        last_refusal: Option<LastRefusal>,
    ) -> Option<Waiter> {
        let most = match &last_refusal {
            None => usize::MAX,
            Some(last_refusal) if last_refusal.verdict.settling => MAX_SETTLING,
            Some(_) => MAX_IN_QUEUE,
        };
        let mut queues = self.shard(&key);
        let length = queues.get(&key).map_or(0, |queue| queue.entries.len());
        if length >= most {
            return None;
        }
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let position = Position { turn, number };
        let queue = queues.entry(key.clone()).or_insert_with(|| WaitQueue {
            entries: BTreeMap::new(),
            units: 0,
            last_refusal,
            last_turn: None,
        });
        let ahead = queue.units;
        queue.units = ahead.saturating_add(cost);
        let is_first = Arc::new(Notify::new());
        let entry = Entry {
            cost,
            is_first: is_first.clone(),
        };
        queue.entries.insert(position, entry);
        drop(queues);
        Some(Waiter {
            key,
            position,
            is_first,
            ahead,
            queues: self.clone(),
            _permit: permit,
        })
    }

    fn shard(&self, key: &QueueKey) -> MutexGuard<'_, Shard> {
        let hash = self.0.hasher.hash_one(key);
        self.0.shards[(hash % SHARDS as u64) as usize].lock()
    }
}

impl Waiter {
    /// Waits until the request is the head of its wait queue.
    pub(crate) async fn first(&self) {
        while !self.is_head() {
            self.is_first.notified().await;
        }
    }

    /// Returns the time that the head of a `queue` still has to wait after its turn, because the previous request left late. At least half
    /// of the time between the turns of two requests must pass between their departures. So a late gateway catches up step by step.
    pub(crate) fn distance(&self) -> Duration {
        let queues = self.queues.shard(&self.key);
        let last_turn = queues.get(&self.key).and_then(|queue| queue.last_turn);
        last_turn.map_or(Duration::ZERO, |(turn, at)| {
            let between = Duration::from_micros(self.position.turn.saturating_sub(turn));
            (between / 2).saturating_sub(at.elapsed())
        })
    }

    /// Leaves the wait queue. Records the request's turn and the current time for [`distance`](Self::distance).
    pub(crate) fn go(self) {
        if let Some(queue) = self.queues.shard(&self.key).get_mut(&self.key) {
            queue.last_turn = Some((self.position.turn, Instant::now()));
        }
    }

    pub(crate) fn is_head(&self) -> bool {
        let queues = self.queues.shard(&self.key);
        let queue = queues.get(&self.key);
        let first = queue.and_then(|queue| queue.entries.first_key_value());
        first.is_some_and(|(position, _)| *position == self.position)
    }

    pub(crate) fn last_refusal(&self) -> Option<LastRefusal> {
        self.queues.last_refusal(&self.key)
    }

    pub(crate) fn note_refusal(&self, last_refusal: LastRefusal) {
        if let Some(queue) = self.queues.shard(&self.key).get_mut(&self.key) {
            queue.last_refusal = Some(last_refusal);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut queues = self.queues.shard(&self.key);
        let Some(queue) = queues.get_mut(&self.key) else {
            return;
        };
        if let Some(entry) = queue.entries.remove(&self.position) {
            queue.units = queue.units.saturating_sub(entry.cost);
        }
        match queue.entries.first_key_value() {
            Some((_, first)) => first.is_first.notify_one(),
            None => {
                queues.remove(&self.key);
            }
        }
        if queues.is_empty() {
            *queues = HashMap::new();
        }
    }
}

impl LastRefusal {
    /// Returns the time until the limit can admit the refused request; zero if this time has passed.
    pub(crate) fn left(&self) -> Duration {
        Duration::from_micros(self.verdict.retry_after).saturating_sub(self.came.elapsed())
    }

    /// Returns the refusal with its times counted from now. `left` is the time until the limit can admit the request.
    pub(crate) fn refusal(&self, left: Duration) -> (Verdict, Micros) {
        let since = micros(self.came.elapsed());
        let retry_after = micros(left).max(1);
        let verdict = Verdict {
            retry_after,
            reset: self.verdict.reset.saturating_sub(since).max(retry_after),
            ..self.verdict
        };
        (verdict, self.now + since)
    }
}

// Not derived, because the keys of clients must not appear in logs.
impl fmt::Debug for WaitQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitQueues")
            .field("waiting", &self.waiting())
            .field("abandoned", &self.abandoned())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

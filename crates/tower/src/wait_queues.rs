//! Lines: requests that wait for a limit to let them through, first come, first served, in this gateway.
//!
//! A limit and a subject have one line, as long as somebody waits there. Only its head asks the store; whoever leaves makes
//! room for the next. Those who are admitted to a queue, and wait for their turns, stand in another, by their turns. Lines
//! are bounded, each and together, and a line that nobody stands in takes no memory. No address gets all seats
//! ([`crate::shares`]). This module must not know why requests wait.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tidegate_core::{Micros, Verdict};
use tidegate_store::Subject;
use tokio::sync::Notify;

use crate::retries::Retries;
use crate::shares::{Permit, Shares};

/// The most requests that wait in one line; a queue bounds itself.
pub const MOST_IN_A_LINE: usize = 1_000;

/// The most requests that wait in one line for unsettled reservations: most of them would wait in vain.
pub const MOST_SETTLING: usize = 32;

/// The most requests of one gateway that wait, in lines or for their turns in queues.
pub const MOST_WAITING: usize = 20_000;

/// The most exchanges of one gateway that go on though their clients have left.
pub const MOST_ABANDONED: usize = 4_096;

const SHARDS: usize = 64;

/// All lines of a gateway, and the exchanges that outlive their clients; cheap to clone.
#[derive(Clone)]
pub struct Lines(Arc<Waiting>);

/// Whose line it is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The limit's name.
    pub(crate) limit: Box<str>,
    /// For whom it is counted.
    pub(crate) subject: Subject,
    /// Whether it is the line of those who are admitted to its queue.
    pub(crate) is_queue: bool,
}

type Shard = HashMap<Key, Line>;

struct Waiting {
    shards: [Mutex<Shard>; SHARDS],
    // Seeded per process: nobody outside can aim keys at one lock.
    hasher: RandomState,
    next: AtomicU64,
    seats: Arc<Shares>,
    abandoned: Arc<Shares>,
    retries: Retries,
}

struct Line {
    waiters: BTreeMap<Ticket, Waiter>,
    /// The units that all of them ask for.
    units: u64,
    /// Nothing in a queue.
    heard: Option<Heard>,
    /// The turn of who went last in a queue, and when that was.
    went: Option<(Micros, Instant)>,
}

/// By their turns, in us by the deciding clock, and in a line that has none, first come, first served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    turn: Micros,
    number: u64,
}

struct Waiter {
    cost: u64,
    is_first: Arc<Notify>,
}

/// What the store said last to the head of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// The refusal.
    pub(crate) verdict: Verdict,
    /// The time of the decision by the deciding clock, in us since the epoch.
    pub(crate) now: Micros,
    /// When it came.
    pub(crate) came: Instant,
}

/// A place in a line, which is left when this is dropped.
pub(crate) struct Place {
    key: Key,
    ticket: Ticket,
    is_first: Arc<Notify>,
    /// The units that those ask for who stood before it when it came.
    pub(crate) ahead: u64,
    lines: Lines,
    // Its seat, one of MOST_WAITING.
    _seat: Permit,
}

impl Default for Lines {
    fn default() -> Self {
        Self(Arc::new(Waiting {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            next: AtomicU64::new(0),
            seats: Shares::new(MOST_WAITING),
            abandoned: Shares::new(MOST_ABANDONED),
            retries: Retries::default(),
        }))
    }
}

impl Lines {
    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.0.seats.taken()
    }

    /// How many exchanges go on though their clients have left.
    pub fn abandoned(&self) -> usize {
        self.0.abandoned.taken()
    }

    /// Lets an exchange go on whose client, at this address, has left; nothing if there are too many.
    pub(crate) fn abandon(&self, address: IpAddr) -> Option<Permit> {
        self.0.abandoned.take(address)
    }

    /// What bounds the calls to the store of those who wait.
    pub(crate) fn retries(&self) -> &Retries {
        &self.0.retries
    }

    /// What was heard in a line, if there is one.
    pub(crate) fn heard(&self, key: &Key) -> Option<Heard> {
        self.shard(key).get(key)?.heard
    }

    /// Joins the end of a line, which begins here if nobody waits; nothing if there is no room for this address.
    pub(crate) fn join(&self, key: Key, address: IpAddr, cost: u64, heard: Heard) -> Option<Place> {
        let seat = self.seat(address)?;
        self.stand(key, seat, 0, cost, Some(heard))
    }

    /// Joins a queue, whose turn is known.
    pub(crate) fn join_queue(&self, key: Key, seat: Permit, turn: Micros) -> Option<Place> {
        self.stand(key, seat, turn, 0, None)
    }

    /// Room for one more to wait; nothing if there is none for this address.
    pub(crate) fn seat(&self, address: IpAddr) -> Option<Permit> {
        self.0.seats.take(address)
    }

    /// Room for one who has been charged already, and cannot be refused any more.
    pub(crate) fn seat_beyond(&self, address: IpAddr) -> Permit {
        self.0.seats.take_beyond(address)
    }

    fn stand(
        &self,
        key: Key,
        seat: Permit,
        turn: Micros,
        cost: u64,
        heard: Option<Heard>,
    ) -> Option<Place> {
        let most = match &heard {
            None => usize::MAX,
            Some(heard) if heard.verdict.settling => MOST_SETTLING,
            Some(_) => MOST_IN_A_LINE,
        };
        let mut lines = self.shard(&key);
        let length = lines.get(&key).map_or(0, |line| line.waiters.len());
        if length >= most {
            return None;
        }
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket { turn, number };
        let line = lines.entry(key.clone()).or_insert_with(|| Line {
            waiters: BTreeMap::new(),
            units: 0,
            heard,
            went: None,
        });
        let ahead = line.units;
        line.units = ahead.saturating_add(cost);
        let is_first = Arc::new(Notify::new());
        let waiter = Waiter {
            cost,
            is_first: is_first.clone(),
        };
        line.waiters.insert(ticket, waiter);
        drop(lines);
        Some(Place {
            key,
            ticket,
            is_first,
            ahead,
            lines: self.clone(),
            _seat: seat,
        })
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        let hash = self.0.hasher.hash_one(key);
        self.0.shards[(hash % SHARDS as u64) as usize].lock()
    }
}

impl Place {
    /// Whose line it is in.
    pub(crate) const fn key(&self) -> &Key {
        &self.key
    }

    /// Ready when it is the head.
    pub(crate) async fn first(&self) {
        while !self.is_head() {
            self.is_first.notified().await;
        }
    }

    /// How long the head of a queue should still wait whose turn has come, because the one before it was late: half the way
    /// between their turns lies between them in any case, so that a gateway that was held up catches up, and not at once.
    pub(crate) fn distance(&self) -> Duration {
        let lines = self.lines.shard(&self.key);
        let went = lines.get(&self.key).and_then(|line| line.went);
        went.map_or(Duration::ZERO, |(turn, at)| {
            let between = Duration::from_micros(self.ticket.turn.saturating_sub(turn));
            (between / 2).saturating_sub(at.elapsed())
        })
    }

    /// Goes on, as its turn has come.
    pub(crate) fn go(self) {
        if let Some(line) = self.lines.shard(&self.key).get_mut(&self.key) {
            line.went = Some((self.ticket.turn, Instant::now()));
        }
    }

    /// Whether it is the head.
    pub(crate) fn is_head(&self) -> bool {
        let lines = self.lines.shard(&self.key);
        let line = lines.get(&self.key);
        let first = line.and_then(|line| line.waiters.first_key_value());
        first.is_some_and(|(ticket, _)| *ticket == self.ticket)
    }

    /// What the store said last to the head.
    pub(crate) fn heard(&self) -> Option<Heard> {
        self.lines.heard(&self.key)
    }

    /// Notes what the store said to the head.
    pub(crate) fn hear(&self, heard: Heard) {
        if let Some(line) = self.lines.shard(&self.key).get_mut(&self.key) {
            line.heard = Some(heard);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.lines.shard(&self.key);
        let Some(line) = lines.get_mut(&self.key) else {
            return;
        };
        if let Some(waiter) = line.waiters.remove(&self.ticket) {
            line.units = line.units.saturating_sub(waiter.cost);
        }
        match line.waiters.first_key_value() {
            Some((_, first)) => first.is_first.notify_one(),
            None => {
                lines.remove(&self.key);
            }
        }
        if lines.is_empty() {
            *lines = HashMap::new();
        }
    }
}

impl Heard {
    /// How long until a request fits, by what was heard; no time if that has passed.
    pub(crate) fn left(&self) -> Duration {
        Duration::from_micros(self.verdict.retry_after).saturating_sub(self.came.elapsed())
    }

    /// The refusal as it is to be told now to a request that fits in so long.
    pub(crate) fn refusal(&self, left: Duration) -> (Verdict, Micros) {
        let micros = |time: Duration| Micros::try_from(time.as_micros()).unwrap_or(Micros::MAX);
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

// Not derived: subjects are nobody's business.
impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("waiting", &self.waiting())
            .field("abandoned", &self.abandoned())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

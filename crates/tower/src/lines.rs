//! Lines: requests that wait for a limit to let them through, first come, first served, in this gateway.
//!
//! A limit and a subject have one line, as long as somebody waits there. Only its head asks the store; whoever leaves makes
//! room for the next. Those who are admitted to a queue, and wait for their turns, stand in another, by their turns. Lines
//! are bounded, each and together, and a line that nobody stands in takes no memory. This module must not know why requests
//! wait.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::{Micros, Verdict};
use tidegate_store::Subject;
use tokio::sync::Notify;

/// The most requests that wait in one line; a queue bounds itself.
pub const MOST_IN_A_LINE: usize = 1_000;

/// The most requests of one gateway that wait, in lines or for their turns in queues.
pub const MOST_WAITING: usize = 20_000;

/// All lines of a gateway; cheap to clone.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Waiting>>);

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

#[derive(Default)]
struct Waiting {
    lines: HashMap<Key, Line>,
    seats: usize,
    next: u64,
}

struct Line {
    waiters: BTreeMap<Ticket, Waiter>,
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

/// What waits is one of [`MOST_WAITING`]; dropped when it does not any more.
pub(crate) struct Seat(Lines);

/// A place in a line, which is left when this is dropped.
pub(crate) struct Place {
    key: Key,
    ticket: Ticket,
    is_first: Arc<Notify>,
    /// The units that those ask for who stood before it when it came.
    pub(crate) ahead: u64,
    seat: Seat,
}

impl Lines {
    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.0.lock().seats
    }

    /// A seat, if there is one.
    pub(crate) fn seat(&self) -> Option<Seat> {
        let mut waiting = self.0.lock();
        (waiting.seats < MOST_WAITING).then(|| {
            waiting.seats += 1;
            Seat(self.clone())
        })
    }

    /// What was heard in a line, if there is one.
    pub(crate) fn heard(&self, key: &Key) -> Option<Heard> {
        self.0.lock().lines.get(key)?.heard
    }

    /// Joins the end of a line, which begins here if nobody waits; nothing if there is no room.
    pub(crate) fn join(&self, key: Key, cost: u64, heard: Heard) -> Option<Place> {
        self.stand(key, 0, cost, Some(heard))
    }

    /// Joins a queue, whose turn is known; nothing if there is no room.
    pub(crate) fn join_queue(&self, key: Key, turn: Micros) -> Option<Place> {
        self.stand(key, turn, 0, None)
    }

    fn stand(&self, key: Key, turn: Micros, cost: u64, heard: Option<Heard>) -> Option<Place> {
        let seat = self.seat()?;
        let mut waiting = self.0.lock();
        let number = waiting.next;
        let ticket = Ticket { turn, number };
        let line = waiting.lines.entry(key.clone()).or_insert_with(|| Line {
            waiters: BTreeMap::new(),
            heard,
            went: None,
        });
        if line.waiters.len() >= MOST_IN_A_LINE && !key.is_queue {
            // A seat takes the lock to be left.
            drop(waiting);
            return None;
        }
        let ahead = line.waiters.values().map(|waiter| waiter.cost).sum();
        let is_first = Arc::new(Notify::new());
        let waiter = Waiter {
            cost,
            is_first: is_first.clone(),
        };
        line.waiters.insert(ticket, waiter);
        waiting.next += 1;
        drop(waiting);
        Some(Place {
            key,
            ticket,
            is_first,
            ahead,
            seat,
        })
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
        let waiting = self.seat.0.0.lock();
        let went = waiting.lines.get(&self.key).and_then(|line| line.went);
        went.map_or(Duration::ZERO, |(turn, at)| {
            let between = Duration::from_micros(self.ticket.turn.saturating_sub(turn));
            (between / 2).saturating_sub(at.elapsed())
        })
    }

    /// Goes on, as its turn has come.
    pub(crate) fn go(self) {
        if let Some(line) = self.seat.0.0.lock().lines.get_mut(&self.key) {
            line.went = Some((self.ticket.turn, Instant::now()));
        }
    }

    /// Whether it is the head.
    pub(crate) fn is_head(&self) -> bool {
        let waiting = self.seat.0.0.lock();
        let line = waiting.lines.get(&self.key);
        let first = line.and_then(|line| line.waiters.first_key_value());
        first.is_some_and(|(ticket, _)| *ticket == self.ticket)
    }

    /// What the store said last to the head.
    pub(crate) fn heard(&self) -> Option<Heard> {
        self.seat.0.heard(&self.key)
    }

    /// Notes what the store said to the head.
    pub(crate) fn hear(&self, heard: Heard) {
        if let Some(line) = self.seat.0.0.lock().lines.get_mut(&self.key) {
            line.heard = Some(heard);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.seat.0.0.lock();
        let Some(line) = waiting.lines.get_mut(&self.key) else {
            return;
        };
        line.waiters.remove(&self.ticket);
        match line.waiters.first_key_value() {
            Some((_, first)) => first.is_first.notify_one(),
            None => {
                waiting.lines.remove(&self.key);
            }
        }
        if waiting.lines.is_empty() {
            waiting.lines = HashMap::new();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.0.lock().seats -= 1;
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
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

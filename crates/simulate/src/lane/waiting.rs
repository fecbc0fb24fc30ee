//! Requests that wait for a limit to admit them, as in `tidegate-tower`. Each key of a limit has a queue. Only the request at the head of a
//! queue is decided again.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_core::{Micros, Verdict, micros};
use tidegate_store::{Decision, Outcome};
use tidegate_tower::{MAX_IN_QUEUE, MAX_SETTLING, SETTLING, Until};

use super::Lane;
use super::events::{Event, QueueKey};
use crate::asked::Asked;

/// Shortest time between two decisions on the head of a queue, in us.
const SHORTEST: Micros = 1_000;

/// A request that waits.
pub(super) struct Waiting<'p> {
    request: Asked<'p>,
    came: Micros,
    /// Identifies the request in its queue.
    number: u64,
}

impl<'p> Waiting<'p> {
    pub(super) const fn new(request: Asked<'p>, came: Micros) -> Self {
        let number = request.number << 8 | request.attempt as u64;
        Self {
            request,
            came,
            number,
        }
    }
}

/// The requests that wait at one limit for one key.
pub(super) struct WaitQueue<'p> {
    entries: VecDeque<(Waiting<'p>, u64)>,
    units: u64,
    /// The last refusal of the head, and its time.
    last: (Verdict, Micros),
}

impl WaitQueue<'_> {
    pub(super) const fn is_settling(&self) -> bool {
        self.last.0.settling
    }
}

impl<'p> Lane<'p> {
    /// Returns whether other requests wait in front of this request. If so, the request has joined their queue, or is refused.
    pub(super) fn is_behind(&mut self, request: &Asked<'p>, now: Micros) -> bool {
        let mut charges = request.charged.charges.iter().enumerate();
        let place = charges.find_map(|(index, charge)| {
            let key = request.charged.key(index);
            let queue = self.queues.get(&key).filter(|_| charge.rule.may_wait())?;
            let (verdict, at) = queue.last;
            let left = verdict.retry_after.saturating_sub(now - at);
            let ahead = micros(charge.pace(queue.units));
            let longest = micros(charge.max_wait());
            let is_full = queue.entries.len() >= most(&verdict);
            let is_vain = !verdict.settling && left + ahead > longest;
            // If the queue is full, the gateway does not add the time of the queue to Retry-After.
            let refused = match is_full {
                true => Some(0),
                false => is_vain.then_some(ahead),
            };
            Some((key, index, longest, refused))
        });
        let Some((key, index, longest, refused)) = place else {
            return false;
        };
        let waiting = Waiting::new(request.clone(), now);
        if let Some(ahead) = refused {
            let decision = self.last_refusal(&waiting, key, (index, ahead), now);
            self.refuse(waiting.request, &decision, now, now);
            return true;
        }
        self.events
            .push(now + longest, Event::Deadline(key, waiting.number));
        self.join(key, index, waiting, None);
        true
    }

    /// Lets a refused request wait, if a limit may still admit it in time. Otherwise refuses it for good.
    pub(super) fn refused(&mut self, waiting: Waiting<'p>, decision: &Decision, now: Micros) {
        let Some((index, verdict, until)) = longest(&waiting, decision, now) else {
            return self.refuse(waiting.request, decision, waiting.came, now);
        };
        let charge = waiting.request.charged.charges[index];
        let key = waiting.request.charged.key(index);
        let queue = self.queues.get(&key);
        let units = queue.map_or(0, |queue| queue.units);
        let longest = micros(charge.max_wait());
        let waited = now - waiting.came;
        let is_worth = match until {
            Until::Over(first) => waited + micros(first) + micros(charge.pace(units)) <= longest,
            Until::Settled => true,
        };
        let is_full = queue.is_some_and(|queue| queue.entries.len() >= most(&verdict));
        if !is_worth || is_full {
            return self.refuse(waiting.request, decision, waiting.came, now);
        }
        let is_head = units == 0;
        self.events
            .push(waiting.came + longest, Event::Deadline(key, waiting.number));
        let came = waiting.came;
        self.join(key, index, waiting, Some((verdict, now)));
        if is_head {
            let at = next_ask(until, came, now);
            self.events.push(at, Event::Wake(key));
        }
    }

    fn join(
        &mut self,
        key: QueueKey,
        index: usize,
        waiting: Waiting<'p>,
        last: Option<(Verdict, Micros)>,
    ) {
        let cost = waiting.request.charged.charges[index].cost;
        let queue = self.queues.entry(key).or_insert_with(|| WaitQueue {
            entries: VecDeque::new(),
            units: 0,
            last: last.unwrap_or_default(),
        });
        if let Some(last) = last.filter(|_| queue.entries.is_empty()) {
            queue.last = last;
        }
        queue.entries.push_back((waiting, cost));
        queue.units += cost;
    }

    /// Decides the head of a wait queue again.
    pub(super) fn wake(&mut self, key: &QueueKey) {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let Some((head, cost)) = queue.entries.pop_front() else {
            self.queues.remove(key);
            return;
        };
        queue.units -= cost;
        let decision = self.decide(&head.request, now);
        if decision.outcome == Outcome::Admitted {
            let came = head.came;
            self.admit(&head.request, &decision, came, now);
            return self.next_head(key, now);
        }
        let longest = longest(&head, &decision, now);
        let longest = longest.filter(|(index, ..)| head.request.charged.key(*index) == *key);
        if let Some((_, verdict, until)) = longest
            && let Some(queue) = self.queues.get_mut(key)
        {
            queue.last = (verdict, now);
            queue.units += cost;
            let at = next_ask(until, head.came, now);
            queue.entries.push_front((head, cost));
            self.events.push(at, Event::Wake(*key));
        } else {
            self.refused(head, &decision, now);
            self.next_head(key, now);
        }
    }

    /// Wakes the next request of a wait queue at once, because it is the head now.
    fn next_head(&mut self, key: &QueueKey, now: Micros) {
        match self.queues.get(key) {
            Some(queue) if queue.entries.is_empty() => _ = self.queues.remove(key),
            Some(_) => self.events.push(now, Event::Wake(*key)),
            None => {}
        }
    }

    /// Ends the wait of a request at its deadline.
    pub(super) fn give_up(&mut self, key: &QueueKey, number: u64) {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let mut entries = queue.entries.iter();
        let Some(at) = entries.position(|(waiting, _)| waiting.number == number) else {
            return;
        };
        if at == 0 {
            // The head of a queue gets one more decision at its deadline.
            return self.wake(key);
        }
        if let Some((waiting, cost)) = queue.entries.remove(at) {
            queue.units -= cost;
            let came = waiting.came;
            let mut limits = waiting.request.charged.limits.iter();
            let index = limits.position(|limit| *limit == key.0);
            let decision = self.last_refusal(&waiting, *key, (index.unwrap_or(0), 0), now);
            self.refuse(waiting.request, &decision, came, now);
        }
    }

    /// Returns a refusal without a decision of the store: a copy of the last refusal of the queue's head. Adds `ahead` to its Retry-After:
    /// the time that the requests in front need, in us.
    fn last_refusal(
        &self,
        waiting: &Waiting<'p>,
        key: QueueKey,
        (index, ahead): (usize, Micros),
        now: Micros,
    ) -> Decision {
        let last = self.queues.get(&key).map(|queue| queue.last);
        let (verdict, at) = last.unwrap_or_default();
        let left = verdict.retry_after.saturating_sub(now - at);
        let refusal = |nth| {
            (nth == index).then_some(Verdict {
                allowed: false,
                retry_after: left + ahead,
                ..verdict
            })
        };
        Decision {
            outcome: Outcome::Refused,
            via: tidegate_store::Via::Here,
            now,
            verdicts: (0..waiting.request.charged.charges.len())
                .map(refusal)
                .collect(),
            sources: Default::default(),
            call: None,
        }
    }
}

/// Returns the charge whose limit requires the longest wait. `None` if no limit refuses the request, or if a limit that refuses the request
/// would not admit it in time.
fn longest(
    waiting: &Waiting<'_>,
    decision: &Decision,
    now: Micros,
) -> Option<(usize, Verdict, Until)> {
    let waited = Duration::from_micros(now - waiting.came);
    let mut longest: Option<(usize, Verdict, Until)> = None;
    let verdicts = waiting
        .request
        .charged
        .charges
        .iter()
        .zip(&decision.verdicts);
    for (index, (charge, verdict)) in verdicts.enumerate() {
        let refused = verdict.filter(|verdict| !verdict.allowed);
        let Some(verdict) = refused.filter(|_| !charge.limit.is_observed()) else {
            continue;
        };
        let until = charge.wait(&verdict, waited)?;
        if longest.is_none_or(|(_, _, previous)| previous < until) {
            longest = Some((index, verdict, until));
        }
    }
    longest
}

/// Returns the time of the head's next decision. The end of a hold may wake the head earlier.
fn next_ask(until: Until, came: Micros, now: Micros) -> Micros {
    match until {
        Until::Settled => (came + micros(SETTLING)).max(now + SHORTEST),
        Until::Over(first) => now + micros(first).max(SHORTEST),
    }
}

/// Returns the largest length of a queue whose head was last refused with this verdict.
const fn most(verdict: &Verdict) -> usize {
    if verdict.settling {
        MAX_SETTLING
    } else {
        MAX_IN_QUEUE
    }
}

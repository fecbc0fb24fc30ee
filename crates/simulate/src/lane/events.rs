//! What is going to happen, in the order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use tidegate_core::Micros;
use tidegate_store::Decision;

use crate::asked::Asked;

/// A wait queue, by the numbers of its limit and key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct QueueKey {
    limit: u16,
    key: u32,
}

impl QueueKey {
    pub(super) const fn of(limit: u16, key: u32) -> Self {
        Self { limit, key }
    }

    pub(super) const fn limit(&self) -> u16 {
        self.limit
    }
}

/// A request that holds something while it runs.
pub(super) struct Running<'p> {
    pub(super) asked: Asked<'p>,
    pub(super) decision: Decision,
}

/// Something that happens.
pub(super) enum Event<'p> {
    /// A request ends.
    End(Box<Running<'p>>),
    /// What the request with this number holds is held for longer.
    Renew(u64),
    /// The head of this wait queue asks again.
    Wake(QueueKey),
    /// The request with this number does not wait in this queue any longer.
    Deadline(QueueKey, u64),
    /// A refused client comes again.
    Retry(Box<Asked<'p>>),
}

enum Planned<'p> {
    End(u64),
    Other(Event<'p>),
}

/// The events, and the requests that run.
#[derive(Default)]
pub(super) struct Events<'p> {
    order: BinaryHeap<Reverse<(Micros, u64)>>,
    planned: HashMap<u64, Planned<'p>, foldhash::fast::RandomState>,
    running: HashMap<u64, Box<Running<'p>>, foldhash::fast::RandomState>,
    next: u64,
    /// How many of them decide about a request.
    deciding: usize,
}

impl Event<'_> {
    /// Whether it decides about a request. What ends, or is held for longer, matters to those alone that are decided later.
    const fn decides(&self) -> bool {
        matches!(self, Self::Wake(_) | Self::Deadline(..) | Self::Retry(_))
    }
}

impl<'p> Events<'p> {
    /// Whether there is an event that decides about a request.
    pub(super) const fn decide(&self) -> bool {
        self.deciding > 0
    }

    pub(super) fn push(&mut self, at: Micros, event: Event<'p>) {
        self.deciding += usize::from(event.decides());
        self.plan(at, Planned::Other(event));
    }

    fn plan(&mut self, at: Micros, planned: Planned<'p>) {
        self.next += 1;
        self.order.push(Reverse((at, self.next)));
        self.planned.insert(self.next, planned);
    }

    /// A request runs from now until its end, and holds something that lapses after `lease` unless it is renewed.
    pub(super) fn hold(
        &mut self,
        running: Box<Running<'p>>,
        [now, end]: [Micros; 2],
        lease: Micros,
    ) {
        self.next += 1;
        let number = self.next;
        self.running.insert(number, running);
        self.plan(end, Planned::End(number));
        if end - now > lease / 2 {
            self.push(now + lease / 2, Event::Renew(number));
        }
    }

    pub(super) fn running(&self, number: u64) -> Option<&Running<'p>> {
        self.running.get(&number).map(|running| &**running)
    }

    /// The next event, if it happens until this time.
    pub(super) fn next(&mut self, until: Micros) -> Option<(Micros, Event<'p>)> {
        loop {
            let Reverse((at, number)) = *self.order.peek()?;
            if at > until {
                return None;
            }
            self.order.pop();
            let event = match self.planned.remove(&number) {
                Some(Planned::End(running)) => self.running.remove(&running).map(Event::End),
                Some(Planned::Other(Event::Renew(running))) => {
                    let runs = self.running.contains_key(&running);
                    runs.then_some(Event::Renew(running))
                }
                Some(Planned::Other(event)) => Some(event),
                None => None,
            };
            if let Some(event) = event {
                self.deciding -= usize::from(event.decides());
                return Some((at, event));
            }
        }
    }
}

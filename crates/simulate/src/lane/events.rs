//! The future events of a run, in the order of their times.

use std::collections::{BTreeMap, HashMap};

use tidegate_core::Micros;
use tidegate_store::Decision;

use crate::asked::Asked;

/// The name of a wait queue: the numbers of its limit and of its key.
pub(super) type QueueKey = (u16, u32);

/// A request that holds units while it runs.
pub(super) struct Running<'p> {
    pub(super) request: Asked<'p>,
    pub(super) decision: Decision,
}

/// A future event of a run.
pub(super) enum Event<'p> {
    /// The request that runs under this number ends.
    End(u64),
    /// The holds of the request that runs under this number are renewed.
    Renew(u64),
    /// The head of this wait queue is decided again.
    Wake(QueueKey),
    /// The request with this number stops waiting in this queue.
    Deadline(QueueKey, u64),
    /// The client of a refused request retries.
    Retry(Box<Asked<'p>>),
}

/// The future events, and the requests that hold units.
#[derive(Default)]
pub(super) struct Events<'p> {
    /// The events, by their time and the order in which they were planned.
    planned: BTreeMap<(Micros, u64), Event<'p>>,
    pub(super) running: HashMap<u64, Running<'p>, foldhash::fast::RandomState>,
    next: u64,
    /// Number of events that decide a request.
    deciding: usize,
}

impl Event<'_> {
    /// Whether the event decides a request. Ends and renewals do not: they only affect requests that are decided later.
    const fn decides(&self) -> bool {
        matches!(self, Self::Wake(_) | Self::Deadline(..) | Self::Retry(_))
    }
}

impl<'p> Events<'p> {
    /// Whether there is an event that decides a request.
    pub(super) const fn decide(&self) -> bool {
        self.deciding > 0
    }

    pub(super) fn push(&mut self, at: Micros, event: Event<'p>) {
        self.deciding += usize::from(event.decides());
        self.next += 1;
        self.planned.insert((at, self.next), event);
    }

    /// Runs a request from now until its end. Its holds lapse after `lease` unless they are renewed.
    pub(super) fn hold(&mut self, running: Running<'p>, [now, end]: [Micros; 2], lease: Micros) {
        self.next += 1;
        let number = self.next;
        self.running.insert(number, running);
        self.push(end, Event::End(number));
        if end - now > lease / 2 {
            self.push(now + lease / 2, Event::Renew(number));
        }
    }

    /// Removes the next event and returns it with its time. `None` if no event happens up to `until`.
    pub(super) fn next(&mut self, until: Micros) -> Option<(Micros, Event<'p>)> {
        let first = self.planned.first_entry()?;
        let (at, _) = *first.key();
        if at > until {
            return None;
        }
        let event = first.remove();
        self.deciding -= usize::from(event.decides());
        Some((at, event))
    }
}

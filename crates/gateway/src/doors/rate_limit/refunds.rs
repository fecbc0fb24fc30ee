//! Units of calls that later calls give back (`is_negative_hits`).
//!
//! The protocol gives calls no ID. So a refund ends the oldest hold of a call with the same descriptors, and gives back at most the units
//! of that hold. Only limits that hold units have refunds. A hold without a refund is charged after a time.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_doors::{Call, Reply, Status};
use tidegate_tower::HeldUnits;
use tokio::time::Instant;

/// The longest time until a refund.
const LONGEST: Duration = Duration::from_secs(300);
/// The most calls that wait for a refund.
const MOST: usize = 100_000;

/// The domain and the descriptors of calls that hold units.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RefundKey {
    domain: String,
    descriptors: Vec<Vec<(Box<str>, Box<str>)>>,
}

/// The units that calls hold, by the calls' descriptors.
#[derive(Debug, Default)]
pub(crate) struct Refunds(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    calls: HashMap<RefundKey, VecDeque<(HeldUnits, Instant)>>,
    count: usize,
}

impl RefundKey {
    /// Returns the key of a call. `holding` has the indices of the descriptors that hold units.
    pub(super) fn of(call: &Call, holding: &[usize]) -> Self {
        let descriptors = holding.iter().map(|index| &call.descriptors[*index]);
        Self {
            domain: call.domain.clone(),
            descriptors: descriptors.map(|it| it.entries.clone()).collect(),
        }
    }
}

impl Refunds {
    /// Keeps the units of a call until a refund. If too many calls wait, the units are charged now.
    pub(super) fn keep(&self, key: RefundKey, held: HeldUnits) {
        let mut waiting = self.0.lock();
        if waiting.count < MOST {
            waiting.count += 1;
            let until = Instant::now() + LONGEST;
            let calls = waiting.calls.entry(key).or_default();
            calls.push_back((held, until));
        }
    }

    /// Gives back units of the oldest call with the same descriptors. Returns the reply.
    pub(super) fn give_back(&self, call: &Call, key: RefundKey) -> Reply {
        let refunds = call.descriptors.iter().filter(|it| it.is_refund);
        let units = refunds.map(|descriptor| descriptor.hits).max();
        let oldest = self.0.lock().take(&key);
        if let Some((held, _)) = oldest {
            held.give_back(units.unwrap_or_default());
        }
        Reply {
            statuses: vec![Status::default(); call.descriptors.len()],
            ..Reply::default()
        }
    }

    /// Charges the units of calls whose time for a refund is over.
    pub(crate) fn end_late(&self) {
        let now = Instant::now();
        let mut late = Vec::new();
        let mut waiting = self.0.lock();
        waiting.calls.retain(|_, calls| {
            while calls.front().is_some_and(|(_, until)| *until <= now) {
                late.extend(calls.pop_front());
            }
            !calls.is_empty()
        });
        waiting.count -= late.len();
        drop(waiting);
        drop(late);
    }

    /// Charges the units of all calls, because the gateway stops.
    pub(crate) fn end_all(&self) {
        let waiting = std::mem::take(&mut *self.0.lock());
        drop(waiting);
    }
}

impl Waiting {
    fn take(&mut self, key: &RefundKey) -> Option<(HeldUnits, Instant)> {
        let calls = self.calls.get_mut(key)?;
        let oldest = calls.pop_front()?;
        self.count -= 1;
        if calls.is_empty() {
            self.calls.remove(key);
        }
        Some(oldest)
    }
}

//! Units of calls that later calls give back (`is_negative_hits`).
//!
//! The protocol gives calls no ID. So a refund ends the oldest hold of a call with the same descriptors, and gives back at most the units
//! of that hold. Only limits that hold units have refunds. A hold without a refund is charged after a time.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use parking_lot::Mutex;
use tidegate_doors::Call;
use tidegate_tower::HeldUnits;
use tokio::time::Instant;

/// The longest time until a refund.
const LONGEST: Duration = Duration::from_secs(300);
/// The most calls that wait for a refund.
const MOST: usize = 100_000;

/// A hash of the domain and the descriptors of calls that hold units. Values of descriptors may be long, so they are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RefundKey([u8; 32]);

/// The units that calls hold, by the calls' descriptors.
#[derive(Debug, Default)]
pub(crate) struct Refunds(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    calls: HashMap<RefundKey, VecDeque<(HeldUnits, Instant)>>,
    count: usize,
}

impl RefundKey {
    /// Returns the key of a call. `holding` has the indices of the descriptors that hold units, or that give units back.
    pub(super) fn of(call: &Call, holding: &[usize]) -> Self {
        let mut context = Context::new(&SHA256);
        let mut add = |text: &str| {
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text.as_bytes());
        };
        add(&call.domain);
        for index in holding {
            let entries = &call.descriptors[*index].entries;
            add(&entries.len().to_string());
            for (key, value) in entries {
                add(key);
                add(value);
            }
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        Self(hash)
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

    /// Gives back units of the oldest call with the same descriptors: for each limit, at most the units in `given_back`.
    pub(super) fn give_back(&self, key: &RefundKey, given_back: &HashMap<&str, u64>) {
        let oldest = self.0.lock().take(key);
        if let Some((held, _)) = oldest {
            held.give_back(|limit| given_back.get(limit).copied().unwrap_or_default());
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

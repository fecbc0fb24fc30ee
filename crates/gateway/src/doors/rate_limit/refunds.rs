//! Units of calls that later calls give back (`is_negative_hits`).
//!
//! The protocol gives calls no ID. So a refund ends the oldest hold of a call with the same descriptors, and gives back at most the units
//! of that hold. Only limits that hold units have refunds. A hold without a refund is charged after a time.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tidegate_doors::Call;
use tidegate_tower::HeldUnits;
use tokio::time::Instant;

use crate::doors::places::{Place, Places};

/// The longest time until a refund.
const LONGEST: Duration = Duration::from_secs(300);

/// A hash of the domain and the descriptors of calls that hold units. Values of descriptors may be long, so they are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RefundKey([u8; 32]);

/// The units that calls hold, by the calls' descriptors.
#[derive(Debug)]
pub(crate) struct Refunds {
    places: Places,
    calls: Mutex<Calls>,
}

/// The calls that wait for a refund, the oldest call of each key first.
type Calls = HashMap<RefundKey, VecDeque<Waiting>>;

#[derive(Debug)]
struct Waiting {
    held: HeldUnits,
    until: Instant,
    _place: Place,
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
    /// Keeps no call yet. `waiting` shows the number of calls that wait for a refund.
    pub(crate) fn new(waiting: Gauge) -> Self {
        Self {
            places: Places::new(waiting),
            calls: Mutex::default(),
        }
    }

    /// Keeps the units of a call until a refund. If the address of the caller may not have another place, the units are charged now.
    pub(super) fn keep(&self, key: RefundKey, held: HeldUnits, caller: IpAddr) {
        if let Some(place) = self.places.take(caller) {
            let waiting = Waiting {
                held,
                until: Instant::now() + LONGEST,
                _place: place,
            };
            let mut calls = self.calls.lock();
            calls.entry(key).or_default().push_back(waiting);
        }
    }

    /// Gives back units of the oldest call with the same descriptors: for each limit, at most the units in `given_back`.
    pub(super) fn give_back(&self, key: &RefundKey, given_back: &HashMap<&str, u64>) {
        if let Some(oldest) = self.take(key) {
            let held = oldest.held;
            held.give_back(|limit| given_back.get(limit).copied().unwrap_or_default());
        }
    }

    fn take(&self, key: &RefundKey) -> Option<Waiting> {
        let mut calls = self.calls.lock();
        let same = calls.get_mut(key)?;
        let oldest = same.pop_front();
        if same.is_empty() {
            calls.remove(key);
        }
        oldest
    }

    /// Charges the units of calls whose time for a refund is over.
    pub(crate) fn end_late(&self) {
        let now = Instant::now();
        let mut late = Vec::new();
        self.calls.lock().retain(|_, same| {
            while same.front().is_some_and(|oldest| oldest.until <= now) {
                late.extend(same.pop_front());
            }
            !same.is_empty()
        });
        drop(late);
    }

    /// Charges the units of all calls, because the gateway stops.
    pub(crate) fn end_all(&self) {
        let calls = std::mem::take(&mut *self.calls.lock());
        drop(calls);
    }
}

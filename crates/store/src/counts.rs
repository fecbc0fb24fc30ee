//! Counts of keys and pages of keys, which operators read.

use std::sync::Arc;

use tidegate_core::{Micros, Quota, WindowPair};
use tidegate_redis::Cursor;

use crate::{Key, Limit};

/// The number of keys that Redis examines for one [`KeyPage`].
pub(crate) const EXAMINED: u64 = 1_000;
/// The number of keys after which a [`KeyPage`] of the memory store ends. A page ends with a whole shard, so it may have more keys.
pub(crate) const ENOUGH: usize = 1_000;

/// The counts of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The units that requests hold.
    pub held: u64,
    /// The counts in force, for an algorithm that counts units per window.
    pub windows: Option<WindowPair>,
}

impl Counts {
    /// Reads the counts of a state that scripts wrote: two or three numbers for an algorithm that counts units per window.
    pub(crate) fn read(quota: &Quota, state: &str, held: u64, now: Micros) -> Self {
        let mut numbers = state.split(' ').map_while(|number| number.parse().ok());
        let mut next = || numbers.next().unwrap_or(0);
        let windows = WindowPair {
            start: next(),
            current: next(),
            previous: next(),
        };
        Self {
            held,
            windows: quota.windows(&quota.counted(windows), now),
        }
    }
}

/// Some keys of a limit, and the position of the next keys.
#[derive(Debug, Default)]
pub struct KeyPage {
    /// Each key with its limit, which has the numbers of the key's budget. In Redis, a key may come twice in an iteration.
    pub keys: Vec<(Arc<Limit>, Key)>,
    /// The position of the next page. `None` at the end.
    pub next: Option<Cursor>,
}

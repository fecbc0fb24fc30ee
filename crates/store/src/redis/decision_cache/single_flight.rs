//! Single flight: if a key has no units left, one request calls Redis, and the others wait for its answer.
//!
//! A key that many clients share may refuse a hundred requests a millisecond. When the refusal ends, all requests before the next answer
//! would call Redis, so all but one wait for this answer. After the wait, the answer refuses the request, or the request calls Redis
//! itself.

use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::DecisionCache;
use crate::Charge;

/// The number of notifiers. Several keys share a notifier, so a woken request checks the cache again.
const SHARED: usize = 64;

/// Requests that wait for the answer to another request.
#[derive(Debug)]
pub(super) struct Waiters([Notify; SHARED]);

/// The guard of the request that calls Redis about these charges.
#[derive(Debug)]
pub(in super::super) struct Flight<'a> {
    cache: &'a DecisionCache,
    charges: &'a [Charge<'a>],
}

impl Default for Waiters {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Notify::new()))
    }
}

impl DecisionCache {
    /// Waits until a call about any of these charges is answered, or for `patience`; returns whether there was a call.
    pub(in super::super) async fn wait(&self, charges: &[Charge<'_>], patience: Duration) -> bool {
        let now = Instant::now();
        let Some(charge) = charges.iter().find(|charge| self.is_asked(charge, now)) else {
            return false;
        };
        let mut answered = std::pin::pin!(self.waiters(charge).notified());
        // The waiter is enabled here, so that an answer before the wait below also wakes it.
        answered.as_mut().enable();
        if self.is_asked(charge, now) {
            let _ = tokio::time::timeout(patience, answered).await;
        }
        true
    }

    /// Makes other requests wait while this request calls Redis about these charges, for `patience` at most.
    pub(in super::super) fn fly<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        patience: Duration,
    ) -> Flight<'a> {
        let until = Instant::now() + patience;
        for charge in charges {
            self.with(charge, |seen| {
                if seen.leaves_nothing(charge) {
                    seen.asking = Some(until);
                }
                None::<()>
            });
        }
        self.flight(charges)
    }

    /// Returns the flight of a request that has claimed these charges.
    pub(super) const fn flight<'a>(&'a self, charges: &'a [Charge<'a>]) -> Flight<'a> {
        Flight {
            cache: self,
            charges,
        }
    }

    fn is_asked(&self, charge: &Charge<'_>, now: Instant) -> bool {
        let asking = self.with(charge, |seen| seen.asking);
        asking.is_some_and(|until| now < until)
    }

    fn waiters(&self, charge: &Charge<'_>) -> &Notify {
        &self.waiters.0[self.rows.index(&charge.limit_key()) % SHARED]
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        for charge in self.charges {
            self.cache.with(charge, |seen| {
                seen.asking = None;
                None::<()>
            });
            self.cache.waiters(charge).notify_waiters();
        }
    }
}

//! Turns: of those who ask at once about a key that has nothing left, one asks Redis, and the others wait for what it hears.
//!
//! A key that many share may be refused to a hundred requests a millisecond. Each refusal ends when something may be left
//! again, and without turns all that come before the next answer would ask. Waiting refuses nobody: whoever has waited is
//! refused by what Redis said, or asks as well.

use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::DecisionCache;
use crate::Charge;

/// Keys share these, so whoever is woken looks again.
const PLACES: usize = 64;

/// Tells those who wait that whoever asked has an answer, or has left.
#[derive(Debug)]
pub(super) struct Told([Notify; PLACES]);

/// Someone's turn to ask about these charges, which ends when this is dropped.
#[derive(Debug)]
pub(in super::super) struct Turn<'a> {
    cache: &'a DecisionCache,
    charges: &'a [Charge<'a>],
}

impl Default for Told {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Notify::new()))
    }
}

impl DecisionCache {
    /// Waits until whoever asks about one of these charges has an answer, or for `patience`; whether there was anybody.
    pub(in super::super) async fn wait(&self, charges: &[Charge<'_>], patience: Duration) -> bool {
        let now = Instant::now();
        let Some(asked) = charges.iter().find(|charge| self.is_asked(charge, now)) else {
            return false;
        };
        let mut told = std::pin::pin!(self.told(asked).notified());
        // Who is told between this look and the waiting is told as well.
        told.as_mut().enable();
        if self.is_asked(asked, now) {
            let _ = tokio::time::timeout(patience, told).await;
        }
        true
    }

    /// Takes the turn to ask about these charges, for `patience` at most.
    pub(in super::super) fn turn<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        patience: Duration,
    ) -> Turn<'a> {
        let until = Instant::now() + patience;
        for charge in charges {
            self.with(charge, |seen| {
                if seen.leaves_nothing(charge) {
                    seen.asking = Some(until);
                }
                None::<()>
            });
        }
        Turn {
            cache: self,
            charges,
        }
    }

    fn is_asked(&self, charge: &Charge<'_>, now: Instant) -> bool {
        let asking = self.with(charge, |seen| seen.asking);
        asking.is_some_and(|until| now < until)
    }

    fn told(&self, charge: &Charge<'_>) -> &Notify {
        &self.told.0[self.rows.index(&charge.limit_key()) % PLACES]
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        for charge in self.charges {
            self.cache.with(charge, |seen| {
                seen.asking = None;
                None::<()>
            });
            self.cache.told(charge).notify_waiters();
        }
    }
}

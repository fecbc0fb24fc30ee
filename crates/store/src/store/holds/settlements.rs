//! Ends of holds in Redis: each is sent until it takes effect, or until it can no longer take effect.

use tokio::task::JoinSet;

use super::AT_ONCE;
use crate::Store;
use crate::registry::Settlement;

/// The most ends that are sent again in one round.
const AGAIN: usize = 1_024;

impl Store {
    /// Sends unanswered ends again: first a single end, and more ends if Redis answers it.
    pub(super) async fn settle_again(&self) {
        let mut left = AGAIN;
        let mut at_once = 1;
        while left > 0 {
            let taken = self.registry().unanswered.take(at_once.min(left));
            if taken.is_empty() {
                return;
            }
            left -= taken.len();
            at_once = AT_ONCE;
            let mut calls = JoinSet::new();
            for settlement in taken {
                let store = self.clone();
                calls.spawn(async move { store.settle(settlement).await });
            }
            let mut answered = true;
            while let Some(was_answered) = calls.join_next().await {
                answered &= was_answered.unwrap_or(false);
            }
            if !answered {
                return;
            }
        }
    }

    /// Returns the number of ends that wait for an answer of Redis, and the number of dropped ends since start.
    pub fn unanswered_settlements(&self) -> (usize, u64) {
        let unanswered = &self.registry().unanswered;
        (unanswered.count(), unanswered.dropped())
    }

    /// Ends a hold in Redis, or keeps its end to be sent again. Returns whether Redis answered. If the script cannot read the data under
    /// the keys, the end is dropped, because the hold does not exist any more.
    pub(super) async fn settle(&self, settlement: Settlement) -> bool {
        let Self::Redis(store) = self else {
            return true;
        };
        let Settlement { hold, used, .. } = &settlement;
        let (charge, exact) = (hold.charge(), store.exact());
        match exact.end(&charge, hold.id, *used).await {
            Ok(()) => self.registry().unanswered.end(&settlement),
            Err(error) if error.is_about_keys() && !error.is_moving() => {
                self.registry().unanswered.give_up(&settlement, &error);
            }
            Err(_) => {
                self.registry().unanswered.add(settlement);
                return false;
            }
        }
        self.settled(&hold.limit, hold.key);
        true
    }
}

//! Leased: slices of budgets that this gateway has borrowed from Redis and spends by itself.
//!
//! A slice counts as spent while it is lent, so all gateways together never spend more than the limit. The gateway calls Redis in three
//! cases. When a slice is used up, the next request causes a call. When little of a slice is left, the gateway calls in the background.
//! When a slice has lasted for a while, the gateway settles the spent units and returns unneeded units to Redis. A key that is seldom used
//! has no slice, and Redis decides each of its requests, as for exact limits.
//!
//! - [`mod@slice`]: one slice, and the calls that it needs; [`table`]: all slices; [`slices`]: the work on all slices
//! - [`lender`]: the call and its answer; [`answered`]: the verdicts that follow from an answer
//! - [`clock`]: the clock by which slices end

mod answered;
mod clock;
mod lender;
mod slice;
mod slices;
mod table;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::RwLock;
use tidegate_core::Verdict;
use tidegate_redis::Wait;

pub(super) use lender::Lender;
pub(super) use slice::Spent;
use slices::Next;
use table::{MAX_SLICES, Table};

use crate::{Charge, Recall, StoreError};

/// All slices that are lent to this gateway, and their lender. When this value is dropped, slices that are still lent lapse, and count as
/// spent.
#[derive(Debug)]
pub(super) struct Leased {
    lender: Lender,
    table: Table,
    // The limits of which this gateway borrows slices, by the hashes of their IDs. `None` if it borrows slices of all leased limits.
    leased: RwLock<Option<HashSet<u64>>>,
    // The last number given to a session or a call.
    last_number: AtomicU64,
}

/// The result of a charge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) verdict: Verdict,
    /// Whether Redis was called.
    pub(super) was_called: bool,
    /// The slice from which the cost was spent. `None` if Redis charged the cost, or if the charge was refused.
    pub(super) spent: Option<Spent>,
}

impl Leased {
    /// Starts without slices, and starts the task that settles slices. Must be called inside a tokio runtime.
    pub(super) fn start(lender: Lender) -> Arc<Self> {
        Self::with_capacity(lender, MAX_SLICES)
    }

    fn with_capacity(lender: Lender, capacity: usize) -> Arc<Self> {
        let leased = Arc::new(Self {
            lender,
            table: Table::new(capacity),
            leased: RwLock::default(),
            last_number: AtomicU64::new(0),
        });
        tokio::spawn(slices::keep(Arc::downgrade(&leased)));
        leased
    }

    /// Spends from the charge's slice. If the slice does not suffice, Redis decides, and lends a slice if the key is in demand. If a call
    /// about this key is under way, waits for its answer. A charge that Redis made is not undone. If `checks` is true, no unit is spent or
    /// charged, because another limit has refused the request.
    pub(super) async fn reserve(
        self: &Arc<Self>,
        charge: &Charge<'_>,
        checks: bool,
        wait: Wait,
    ) -> Result<Taken, StoreError> {
        answer(wait, || self.take(charge, checks, wait)).await
    }

    /// Returns the verdict on a charge if the key's slice, or Redis's last answer for the key, is enough to decide. Spends no unit.
    pub(super) fn look(&self, charge: &Charge<'_>) -> Option<Verdict> {
        let mut entry = self.current(charge)?;
        let quota = charge.limit.quota();
        entry.slice.look(quota, charge.cost, clock::now())
    }

    /// Puts the units that a refused request has spent back into the slice.
    pub(super) fn put_back(&self, charge: &Charge<'_>, spent: Spent) {
        if let Some(mut entry) = self.table.get(&charge.limit_key()) {
            entry.slice.put_back(charge.cost, spent);
        }
    }

    /// Returns the units left in the charge's slice, if it has one.
    pub(super) fn left(&self, charge: &Charge<'_>) -> Option<u64> {
        let entry = self.current(charge)?;
        Some(entry.slice.rest(clock::now()))
    }

    /// Drops the last answer about a key, which was reset.
    pub(super) fn forget(&self, charge: &Charge<'_>) {
        if let Some(mut entry) = self.table.get(&charge.limit_key()) {
            entry.slice.forget();
        }
    }

    /// Settles the spent units of this key, and returns the other units of its slice to Redis.
    pub(super) async fn settle(
        self: &Arc<Self>,
        charge: &Charge<'_>,
        wait: Wait,
    ) -> Result<(), StoreError> {
        let settled = answer(wait, || self.end(charge, wait)).await;
        settled.map(drop)
    }

    /// Settles all slices of these clients once and returns them to Redis, in the background. Requests may borrow new slices meanwhile.
    pub(super) fn recall(self: &Arc<Self>, recall: Recall) {
        let leased = self.clone();
        tokio::spawn(async move { leased.return_of(&recall).await });
    }

    /// From now on borrows slices only of these limits, which are named by the hashes of their IDs. Settles the slices of other limits and
    /// returns them to Redis, and retries while Redis does not answer. If this future is dropped before the end, the remaining slices
    /// lapse. No other mode counts the units that were spent of a lapsed slice.
    pub(super) async fn keep_only(self: &Arc<Self>, limits: HashSet<u64>) {
        *self.leased.write() = Some(limits);
        self.end_where(|key| !self.is_leased(key)).await;
    }

    /// Settles all slices of a gateway that ends, and returns them to Redis. Unsettled slices lapse, as if all their units were spent.
    pub(super) async fn close(self: &Arc<Self>) {
        self.end_where(|_| true).await;
    }
}

/// Takes the next steps of a request until it has an answer.
async fn answer(wait: Wait, next: impl Fn() -> Next) -> Result<Taken, StoreError> {
    loop {
        let mut watch = match next() {
            Next::Done(taken) => return Ok(taken),
            // The call completes even if its request has stopped waiting.
            Next::Asking(asking) => return asking.await.unwrap_or(Err(StoreError::Disconnected)),
            Next::Wait(watch) => watch,
        };
        let answered = watch.wait_for(Option::is_some);
        match tokio::time::timeout_at(wait.until.into(), answered).await {
            Ok(Ok(result)) => {
                if let Some(Err(error)) = &*result {
                    return Err(error.clone());
                }
            }
            Ok(Err(_)) => return Err(StoreError::Disconnected),
            Err(_) => return Err(StoreError::Timeout),
        }
    }
}

#[cfg(test)]
mod tests;

//! Places that running requests of this process hold in Redis: they are renewed, and taken again where Redis has lost them.
//!
//! While one of them may be missing, its server is not asked for decisions on limits with places: the answer would count
//! too few. So a gateway never takes the place of its own running request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{HoldId, Micros, Receipt};

use super::RedisStore;
use super::afterwards::{Afterwards, LONGEST};
use super::script::Task;
use super::split::Caller;
use super::wire::confirmation::Confirmed;
use super::wire::shard::Shard;
use crate::{Charge, StoreError};

/// The server of a place.
#[derive(Clone, Debug)]
pub(crate) struct Server(Arc<Shard>);

impl Server {
    /// Which connection it is asked over now; 0: there is none. A server may have lost its data since the one before.
    pub(crate) fn connection(&self) -> u64 {
        self.0.client.connection()
    }

    /// Notes a place that was taken over this connection, and does not lapse before `lapse`; none: it is not known to be
    /// there. To be called while the list of places is locked, as [`set`](Self::set).
    pub(crate) fn add(&self, lapse: Option<Instant>, connection: u64) {
        self.0.confirmation.add(lapse, connection);
    }

    /// Notes all places of the list, which were confirmed over this connection.
    pub(crate) fn set(&self, confirmed: Confirmed, connection: u64) {
        self.0.confirmation.set(confirmed, connection);
    }

    /// Whether both are one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl RedisStore {
    /// The server that keeps the places of this charge, if it is known.
    pub(crate) fn server_of(&self, charge: &Charge<'_>) -> Option<Server> {
        let shard = self.caller.shards.of(&charge.subject.tag);
        shard.ok().map(Server)
    }

    /// All servers that are known.
    pub(crate) fn servers(&self) -> Vec<Server> {
        let all = self.caller.shards.all().unwrap_or_default();
        all.into_iter().map(|(_, shard)| Server(shard)).collect()
    }

    /// Waits until Redis has all places that requests of this process hold on the servers of these charges.
    pub(super) async fn confirmed(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<(), StoreError> {
        loop {
            let progress = self.registry().progress.notified();
            let mut is_confirmed = true;
            for charge in charges.iter().filter(|charge| charge.limit.has_places()) {
                let shard = self.caller.shards.of(&charge.subject.tag)?;
                if !shard.confirmation.holds(shard.client.connection()) {
                    is_confirmed = false;
                    // Nobody waits for a server that does not answer.
                    if shard.guard.fails() || !shard.client.is_up() {
                        return Err(StoreError::NotAsked);
                    }
                }
            }
            if is_confirmed {
                return Ok(());
            }
            self.registry().wanted.notify_one();
            if tokio::time::timeout_at(until.into(), progress)
                .await
                .is_err()
            {
                return Err(StoreError::NotAsked);
            }
        }
    }

    /// Gives back the places with this ID.
    pub(crate) async fn free(&self, charge: &Charge<'_>, hold: HoldId) {
        let receipt = Receipt { until: 0, hold };
        self.give_back(charge, receipt).await;
    }

    /// Holds the places with this ID for another lease; they are taken again if they are missing. When this ends, it is
    /// done or will not be done any more.
    ///
    /// # Errors
    ///
    /// It is not known to be done. An answer that these places cannot be held is none of these errors.
    pub(crate) async fn hold_places(
        &self,
        charge: &Charge<'_>,
        hold: HoldId,
    ) -> Result<(), StoreError> {
        let renewing = self.caller.renew(charge, hold, self.timeout);
        let answer = tokio::time::timeout(LONGEST, renewing).await;
        match answer.unwrap_or(Err(StoreError::Timeout)) {
            Err(error) if error.is_about_keys() && !error.is_moving() => Ok(()),
            answer => answer,
        }
    }
}

impl Caller {
    /// Gives back the places that a decision may have taken whose answer is not known: nobody holds them.
    pub(super) fn abandon(&self, charges: &[Charge<'_>], hold: HoldId, error: &StoreError) {
        if !matches!(error, StoreError::Timeout | StoreError::Disconnected) {
            return;
        }
        for charge in charges.iter().filter(|charge| charge.limit.has_places()) {
            let call = self.by_receipt(charge, Receipt { until: 0, hold });
            let caller = self.clone();
            // Behind the decision, on the same connection; what is lost lapses.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { caller.send(&call).await });
            }
        }
    }

    /// Renews places, by a deadline; `quick` is how soon an answer shows that decisions can be had.
    async fn renew(
        &self,
        charge: &Charge<'_>,
        hold: HoldId,
        quick: Duration,
    ) -> Result<(), StoreError> {
        // A deadline by a clock that has changed since is told, and the clock is known then.
        for _ in 0..2 {
            let shard = self.shards.of(&charge.subject.tag)?;
            let (sent, deadline) = (Instant::now(), shard.guard.deadline(LONGEST));
            let reply = self.send(&self.renewed(charge, hold, deadline)).await?;
            let &[now, done] = reply.as_slice() else {
                return Err(StoreError::unknown_reply());
            };
            let now = Micros::try_from(now).map_err(|_| StoreError::unknown_reply())?;
            if done == 1 {
                shard.guard.saw(now, sent);
                if sent.elapsed() < quick {
                    shard.guard.answered();
                }
                return Ok(());
            }
            shard.guard.was_late(now, sent);
        }
        Err(StoreError::Late)
    }

    /// The call that holds places for another lease, unless it comes after the deadline.
    pub(super) fn renewed(
        &self,
        charge: &Charge<'_>,
        hold: HoldId,
        deadline: Option<Micros>,
    ) -> Afterwards {
        let lease = charge.limit.lease().unwrap_or(0);
        // As they were taken, and as they are to be held.
        let words = [charge.cost, lease, lease];
        self.of_places(Task::Renew, charge, deadline, hold, &words)
    }
}

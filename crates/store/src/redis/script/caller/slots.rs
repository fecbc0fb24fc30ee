//! Calls about the slots of running requests: they are held for longer, or given back.

use std::time::{Duration, Instant};

use tidegate_core::{HoldId, Micros, Receipt};
use tidegate_redis::{Word, with_deadline};

use super::compensation::{Compensation, LONGEST};
use super::{Caller, Task};
use crate::{Charge, StoreError};

impl Caller {
    /// Gives back the slots that a decision may have taken whose answer is not known: nobody holds them.
    pub(in crate::redis) fn abandon(
        &self,
        charges: &[Charge<'_>],
        hold: HoldId,
        error: &StoreError,
    ) {
        if !matches!(error, StoreError::Timeout | StoreError::Disconnected) {
            return;
        }
        for charge in charges.iter().filter(|charge| charge.limit.holds_slots()) {
            let call = self.by_receipt(charge, Receipt { until: 0, hold });
            let caller = self.clone();
            // Behind the decision, on the same connection; what is lost lapses.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { caller.send(&call).await });
            }
        }
    }

    /// Renews slots, by a deadline; `quick` is how soon an answer shows that decisions can be had.
    pub(in crate::redis) async fn renew(
        &self,
        charge: &Charge<'_>,
        hold: HoldId,
        quick: Duration,
    ) -> Result<(), StoreError> {
        // A deadline by a clock that has changed since is told, and the clock is known then.
        for _ in 0..2 {
            let shard = self.shards.of(&charge.key.tag)?;
            let (sent, deadline) = (Instant::now(), shard.in_flight.deadline(LONGEST));
            let reply = self.send(&self.renewed(charge, hold, deadline)).await?;
            let &[now, done] = reply.as_slice() else {
                return Err(StoreError::unknown_reply());
            };
            let now = Micros::try_from(now).map_err(|_| StoreError::unknown_reply())?;
            if done == 1 {
                shard.in_flight.saw(now, sent);
                if sent.elapsed() < quick {
                    shard.in_flight.answered();
                }
                return Ok(());
            }
            shard.in_flight.was_late(now, sent);
        }
        Err(StoreError::Late)
    }

    /// The call that holds slots for another lease, unless it comes after the deadline.
    pub(in crate::redis) fn renewed(
        &self,
        charge: &Charge<'_>,
        hold: HoldId,
        deadline: Option<Micros>,
    ) -> Compensation {
        let lease = charge.limit.lease().unwrap_or(0);
        // As they were taken, and as they are to be held.
        let words = [charge.cost, lease, lease];
        self.of_slots(Task::Renew, charge, deadline, hold, &words)
    }

    /// A call about the slots of a request, unless it comes after the deadline.
    pub(in crate::redis) fn of_slots(
        &self,
        task: Task,
        charge: &Charge<'_>,
        deadline: Option<Micros>,
        hold: HoldId,
        numbers: &[u64],
    ) -> Compensation {
        let keys = vec![charge.redis_key(&self.key_prefix).into()];
        let numbers: Vec<Word> = numbers.iter().copied().map(Word::from).collect();
        let words = with_deadline(deadline, hold.0, &numbers);
        self.compensation(task, charge, keys, words)
            .without_charge()
    }
}

//! Calls that renew or end a hold after its decision.
//!
//! These calls are not counted as calls in flight, because no request waits for their answers. The end of a hold is sent until Redis
//! answers it ([`crate::Store`]). An end takes effect once, even if it is sent several times.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{HoldId, Micros};
use tidegate_redis::{Word, deadline};

use super::{Arguments, Caller, Holding, Task};
use crate::redis::script;
use crate::{Charge, StoreError};

/// The longest time that a call after a decision may take.
pub(in crate::redis) const LONGEST: Duration = Duration::from_secs(1);

/// A call that renews or ends holds, with all its data.
#[derive(Debug)]
pub(in crate::redis) struct Compensation {
    tag: [u8; 16],
    script: usize,
    keys: Arc<[Word]>,
    /// The charges' words. The numbers of a calendar are computed at the time of the call.
    charges: Arguments,
    words: Vec<Word>,
}

impl Caller {
    /// Ends a hold, and charges the real cost.
    pub(in crate::redis) fn ended(
        &self,
        charge: &Charge<'_>,
        hold: HoldId,
        used: u64,
    ) -> Compensation {
        self.ended_all(&[*charge], hold, &[used])
    }

    /// Ends holds under keys that share a slot, and charges the real cost of each.
    pub(in crate::redis) fn ended_all(
        &self,
        charges: &[Charge<'_>],
        hold: HoldId,
        used: &[u64],
    ) -> Compensation {
        let mut words = vec![hold.to_string().into(), Word::default()];
        words.extend(used.iter().copied().map(Word::from));
        self.of_holds(charges, words)
    }

    /// Renews a hold, unless the call comes after the deadline.
    pub(in crate::redis) fn renewed(
        &self,
        charge: &Charge<'_>,
        hold: HoldId,
        until: Option<Micros>,
    ) -> Compensation {
        self.of_holds(&[*charge], vec![hold.to_string().into(), deadline(until)])
    }

    fn of_holds(&self, charges: &[Charge<'_>], words: Vec<Word>) -> Compensation {
        let holding = Holding::Taken;
        Compensation {
            tag: charges.first().map_or([0; 16], |charge| charge.key.tag),
            script: script::number(Task::Hold, charges, holding),
            keys: self.hold_keys(charges),
            charges: Arguments::of(charges, holding),
            words,
        }
    }

    /// Returns the keys of the charges' states and holds, without the keys of blocks.
    fn hold_keys(&self, charges: &[Charge<'_>]) -> Arc<[Word]> {
        let mut keys: Vec<Word> = Vec::new();
        for charge in charges {
            keys.extend(charge.keys(&self.key_prefix, true));
            let blocks = usize::from(charge.limit.block().is_some());
            keys.truncate(keys.len() - blocks);
        }
        keys.into()
    }

    /// Ends the holds that an unanswered decision may have taken, because no request uses them.
    pub(in crate::redis) fn abandon(
        &self,
        charges: &[Charge<'_>],
        hold: HoldId,
        error: &StoreError,
    ) {
        if !matches!(error, StoreError::Timeout | StoreError::Disconnected) {
            return;
        }
        let held = charges.iter().filter(|it| it.limit.lease().is_some());
        let held: Vec<Charge<'_>> = held.copied().collect();
        if held.is_empty() {
            return;
        }
        let call = self.ended_all(&held, hold, &vec![0; held.len()]);
        let caller = self.clone();
        // The end follows the decision on the same connection. If the end is lost, the hold lapses.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { caller.send(&call).await });
        }
    }

    /// Renews a hold, unless the call reaches Redis after its deadline. An answer within `quick` shows that Redis can decide.
    pub(in crate::redis) async fn renew(
        &self,
        charge: &Charge<'_>,
        hold: HoldId,
        quick: Duration,
    ) -> Result<(), StoreError> {
        let begun = Instant::now();
        // If the first call is late, its answer has Redis's time, from which the second call computes its deadline.
        for _ in 0..2 {
            let shard = self.shards.of(&charge.key.tag)?;
            // The caller gives up when `LONGEST` has passed since the first call, so the second call must not run later.
            let left = LONGEST.saturating_sub(begun.elapsed());
            let (sent, until) = (Instant::now(), shard.in_flight.deadline(left));
            let reply = self.send(&self.renewed(charge, hold, until)).await?;
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

    /// Sends a call. The reply begins with the time. Logs an error of Redis, because no decision reports it.
    pub(in crate::redis) async fn send(&self, call: &Compensation) -> Result<Vec<i64>, StoreError> {
        let answer = self.sent(call).await;
        match &answer {
            Err(error) if error.is_about_keys() => {
                if !error.is_moving()
                    && let Ok(shard) = self.shards.of(&call.tag)
                {
                    shard.in_flight.complain(error);
                }
            }
            Err(error @ StoreError::Refused(_)) if self.complaints.is_due(error) => {
                tracing::warn!(
                    %error,
                    "Redis does not take what follows decisions: ends and renewals of holds"
                );
            }
            _ => {}
        }
        answer
    }

    async fn sent(&self, call: &Compensation) -> Result<Vec<i64>, StoreError> {
        let now = self.shards.now(&call.tag).unwrap_or_else(crate::now);
        let reply = self.send_at(call, now).await?;
        match *reply.as_slice() {
            // Redis's time is outside the calendar windows of the call, so the script made no change.
            [now, -1] if call.charges.is_timed() => {
                let now = Micros::try_from(now).map_err(|_| StoreError::unknown_reply())?;
                self.send_at(call, now).await
            }
            _ => Ok(reply),
        }
    }

    async fn send_at(&self, call: &Compensation, now: Micros) -> Result<Vec<i64>, StoreError> {
        let words = call.charges.followed_by(&call.words, now);
        let (tag, script, keys) = (&call.tag, call.script, &call.keys);
        self.shards.call(tag, script, keys, &words).await
    }
}

#[cfg(test)]
mod tests;

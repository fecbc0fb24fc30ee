//! What is said of a charge after its decision: it is given back, settled, or held for longer.
//!
//! Such calls do not count as calls in flight, which are decisions. They have no deadline, because they charge nothing that was not
//! admitted, and nobody waits for them. A settlement is sent until it is answered ([`crate::Store`]); it changes something once,
//! however often it comes. Any other give-back is sent once. One that is lost leaves what its key's time, or its lease, ends.

use std::time::Duration;

use tidegate_core::{HoldId, Micros, Receipt, Verdict};
use tidegate_redis::Word;

use super::{Arguments, Caller, Task};
use crate::charge::unsettled_key;
use crate::redis::script;
use crate::{Charge, Source, StoreError};

/// How long such a call may take; nobody waits for it.
pub(in crate::redis) const LONGEST: Duration = Duration::from_secs(1);

/// A call that knows all it needs.
#[derive(Debug)]
pub(in crate::redis) struct Compensation {
    tag: [u8; 16],
    script: usize,
    keys: Vec<Word>,
    /// Of a calendar's windows, those around the time of the call are sent.
    charge: Option<Arguments>,
    words: Vec<Word>,
}

impl Compensation {
    /// The same call, without the words of its charge.
    pub(super) fn without_charge(self) -> Self {
        Self {
            charge: None,
            ..self
        }
    }
}

impl Caller {
    /// Takes back what was charged by this decision.
    pub(in crate::redis) fn given_back(
        &self,
        charge: &Charge<'_>,
        source: &Source,
        verdict: &Verdict,
    ) -> Compensation {
        let receipt = Receipt {
            until: source.at + verdict.reset,
            hold: HoldId(source.hold),
        };
        match charge.limit.reserves() {
            Some(_) => self.settled(charge, receipt, source.at, 0),
            None => self.by_receipt(charge, receipt),
        }
    }

    /// Takes back what was charged, as far as it still counts.
    pub(in crate::redis) fn by_receipt(
        &self,
        charge: &Charge<'_>,
        receipt: Receipt,
    ) -> Compensation {
        let keys = vec![charge.redis_key(&self.key_prefix).into()];
        let words = vec![receipt.until.into(), receipt.hold.to_string().into()];
        self.compensation(Task::GiveBack, charge, keys, words)
    }

    /// Settles the reservation of the time `charged` with this receipt: `used` is what it has come to.
    pub(in crate::redis) fn settled(
        &self,
        charge: &Charge<'_>,
        receipt: Receipt,
        charged: Micros,
        used: u64,
    ) -> Compensation {
        let (until, hold) = (receipt.until, receipt.hold.to_string().into());
        let words = vec![until.into(), hold, used.into(), charged.into()];
        self.of_reservation(Task::Settle, charge, words)
    }

    /// Holds the reservation with this ID for another lease.
    pub(in crate::redis) fn extended(&self, charge: &Charge<'_>, id: u64) -> Compensation {
        self.of_reservation(Task::Extend, charge, vec![format!("{id:x}").into()])
    }

    fn of_reservation(&self, task: Task, charge: &Charge<'_>, words: Vec<Word>) -> Compensation {
        let key = charge.redis_key(&self.key_prefix);
        let keys = vec![key.clone().into(), unsettled_key(&key).into()];
        self.compensation(task, charge, keys, words)
    }

    pub(super) fn compensation(
        &self,
        task: Task,
        charge: &Charge<'_>,
        keys: Vec<Word>,
        words: Vec<Word>,
    ) -> Compensation {
        let charges = std::slice::from_ref(charge);
        Compensation {
            tag: charge.key.tag,
            script: script::number(task, charges),
            keys,
            charge: Some(Arguments::of(charges)),
            words,
        }
    }

    /// Sends it; the reply begins with the time. An error of Redis is logged, since no decision has it.
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
                    "Redis does not take what follows decisions: settlements, renewals, and units that are given back"
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
            // A calendar's windows were others, and nothing was done. It has told the time.
            [now, -1] if call.charge.is_some() => {
                let now = Micros::try_from(now).map_err(|_| StoreError::unknown_reply())?;
                self.send_at(call, now).await
            }
            _ => Ok(reply),
        }
    }

    async fn send_at(&self, call: &Compensation, now: Micros) -> Result<Vec<i64>, StoreError> {
        let (tag, script, keys) = (&call.tag, call.script, &call.keys);
        match &call.charge {
            None => self.shards.call(tag, script, keys, &call.words).await,
            Some(charge) => {
                let words = charge.followed_by(&call.words, now);
                self.shards.call(tag, script, keys, &words).await
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! What is said of a charge after its decision: it is given back, settled, or held for longer.
//!
//! Such calls have no guard, whose places are for decisions, and no deadline: they charge nothing that was not admitted, and
//! nobody waits for them. A settlement is sent until it is answered ([`crate::under_way`]); it changes something once,
//! however often it comes. Any other give-back is sent once. One that is lost leaves what its key's time, or its lease, ends.

use std::time::Duration;

use tidegate_core::{HoldId, Micros, Receipt, Verdict};

use super::RedisStore;
use super::script::{Arguments, Task, with_deadline};
use super::split::Caller;
use crate::charge::unsettled_key;
use crate::{Charge, Source, StoreError};

/// How long such a call may take; nobody waits for it.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// A call that knows all it needs.
#[derive(Debug)]
pub(super) struct Afterwards {
    tag: [u8; 16],
    script: usize,
    keys: Vec<String>,
    /// Of a calendar's windows, those around the time of the call are sent.
    charge: Option<Arguments>,
    words: Vec<String>,
}

impl RedisStore {
    /// Settles the reservation with this ID: `used` is what it has come to.
    ///
    /// # Errors
    ///
    /// It is not known to be settled, and may be: it should be told again. An answer that it cannot be settled is none of
    /// these errors.
    pub(crate) async fn settle(
        &self,
        charge: &Charge<'_>,
        receipt: Micros,
        id: u64,
        used: u64,
    ) -> Result<(), StoreError> {
        let call = self.caller.settled(charge, receipt, id, used);
        let answer = tokio::time::timeout(LONGEST, self.caller.send(&call)).await;
        match answer.unwrap_or(Err(StoreError::Timeout)) {
            // What stands under the key will not settle anything.
            Err(error) if error.is_about_keys() && !error.is_moving() => {
                if let Ok(shard) = self.caller.shards.of(&charge.subject.tag) {
                    shard.guard.complain(&error);
                }
                Ok(())
            }
            answer => answer.map(drop),
        }
    }

    /// The time by the clock of the server that keeps this charge, as far as is known.
    pub(crate) fn time_of(&self, charge: &Charge<'_>) -> Option<Micros> {
        self.caller.shards.now(&charge.subject.tag)
    }

    /// Lets the clock of the server that keeps this charge be believed to show this time.
    #[cfg(test)]
    pub(crate) fn believe(&self, charge: &Charge<'_>, time: Micros) {
        if let Ok(shard) = self.caller.shards.of(&charge.subject.tag) {
            shard.guard.saw(time, std::time::Instant::now());
        }
    }

    /// Takes back what was charged, as far as it still counts.
    pub(crate) async fn give_back(&self, charge: &Charge<'_>, receipt: Receipt) {
        let call = self.caller.by_receipt(charge, receipt);
        // What is lost goes unused.
        let _ = tokio::time::timeout(LONGEST, self.caller.send(&call)).await;
    }

    /// Holds a reservation with this ID for another lease; when it lapses then, if it is there and Redis answers.
    pub(crate) async fn extend(&self, charge: &Charge<'_>, id: u64) -> Option<Micros> {
        let call = self.caller.extended(charge, id);
        let answer = tokio::time::timeout(LONGEST, self.caller.send(&call)).await;
        match answer.ok()?.ok()?.as_slice() {
            [_, renewed] if *renewed > 0 => Micros::try_from(*renewed).ok(),
            _ => None,
        }
    }
}

impl Caller {
    /// Takes back what was charged by this decision.
    pub(super) fn given_back(
        &self,
        charge: &Charge<'_>,
        source: &Source,
        verdict: &Verdict,
    ) -> Afterwards {
        let (until, hold) = (source.at + verdict.reset, HoldId(source.hold));
        match charge.limit.reserves() {
            Some(_) => self.settled(charge, until, source.hold, 0),
            None => self.by_receipt(charge, Receipt { until, hold }),
        }
    }

    /// Takes back what was charged, as far as it still counts.
    pub(super) fn by_receipt(&self, charge: &Charge<'_>, receipt: Receipt) -> Afterwards {
        let keys = vec![charge.key(&self.key_prefix)];
        let words = vec![receipt.until.to_string(), receipt.hold.to_string()];
        self.afterwards(Task::GiveBack, charge, keys, words)
    }

    /// Settles the reservation with this ID: `used` is what it has come to.
    pub(super) fn settled(
        &self,
        charge: &Charge<'_>,
        receipt: Micros,
        id: u64,
        used: u64,
    ) -> Afterwards {
        let words = vec![receipt.to_string(), format!("{id:x}"), used.to_string()];
        self.of_reservation(Task::Settle, charge, words)
    }

    /// Holds the reservation with this ID for another lease.
    pub(super) fn extended(&self, charge: &Charge<'_>, id: u64) -> Afterwards {
        self.of_reservation(Task::Extend, charge, vec![format!("{id:x}")])
    }

    /// A call about the places of a request, unless it comes after the deadline.
    pub(super) fn of_places(
        &self,
        task: Task,
        charge: &Charge<'_>,
        deadline: Option<Micros>,
        hold: HoldId,
        numbers: &[u64],
    ) -> Afterwards {
        let keys = vec![charge.key(&self.key_prefix)];
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let words = with_deadline(deadline, hold.0, &numbers);
        Afterwards {
            charge: None,
            ..self.afterwards(task, charge, keys, words)
        }
    }

    fn of_reservation(&self, task: Task, charge: &Charge<'_>, words: Vec<String>) -> Afterwards {
        let key = charge.key(&self.key_prefix);
        let keys = vec![key.clone(), unsettled_key(&key)];
        self.afterwards(task, charge, keys, words)
    }

    fn afterwards(
        &self,
        task: Task,
        charge: &Charge<'_>,
        keys: Vec<String>,
        words: Vec<String>,
    ) -> Afterwards {
        let charges = std::slice::from_ref(charge);
        Afterwards {
            tag: charge.subject.tag,
            script: self.scripts.of(task, charges).index(),
            keys,
            charge: Some(Arguments::of(charges)),
            words,
        }
    }

    /// Sends it; the reply begins with the time.
    pub(super) async fn send(&self, call: &Afterwards) -> Result<Vec<i64>, StoreError> {
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

    async fn send_at(&self, call: &Afterwards, now: Micros) -> Result<Vec<i64>, StoreError> {
        let script = self.scripts.at(call.script);
        let (tag, keys) = (&call.tag, &call.keys);
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

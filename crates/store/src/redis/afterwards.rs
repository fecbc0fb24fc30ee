//! What is said of a charge after its decision: it is given back, settled, or held for longer.
//!
//! Such calls have no guard, whose places are for decisions, and no deadline: they charge nothing that was not admitted, and
//! nobody waits for them. One that is lost leaves what its key's time, or its lease, ends.

use std::time::Duration;

use tidegate_core::{Micros, Verdict};

use super::RedisStore;
use super::script::{Arguments, Task};
use super::split::Caller;
use crate::charge::unsettled_key;
use crate::{Charge, StoreError};

/// How long such a call may take; nobody waits for it.
const LONGEST: Duration = Duration::from_secs(1);

/// A call that knows all it needs.
#[derive(Debug)]
pub(super) struct Afterwards {
    tag: [u8; 16],
    script: usize,
    keys: Vec<String>,
    arguments: Vec<String>,
}

impl RedisStore {
    /// Gives a place back, or settles a reservation.
    pub(crate) async fn give_up(
        &self,
        charge: &Charge<'_>,
        receipt: Micros,
        lapse: Micros,
        used: u64,
    ) {
        let call = match charge.limit.reserves() {
            Some(_) => self.caller.settled(charge, receipt, lapse, used),
            None => self.caller.by_receipt(charge, lapse),
        };
        // What is lost lapses.
        let _ = tokio::time::timeout(LONGEST, self.caller.send(&call)).await;
    }

    /// Takes back what was charged, as far as it still counts.
    pub(crate) async fn give_back(&self, charge: &Charge<'_>, receipt: Micros) {
        let call = self.caller.by_receipt(charge, receipt);
        // What is lost goes unused.
        let _ = tokio::time::timeout(LONGEST, self.caller.send(&call)).await;
    }

    /// Holds a place or a reservation for another lease; when it lapses then, if it is there and Redis answers.
    pub(crate) async fn hold_on(&self, charge: &Charge<'_>, lapse: Micros) -> Option<Micros> {
        let call = self.caller.renewed(charge, lapse, charge.limit.lease()?);
        let answer = tokio::time::timeout(LONGEST, self.caller.send(&call)).await;
        match answer.ok()?.ok()?.as_slice() {
            [_, renewed] if *renewed > 0 => Micros::try_from(*renewed).ok(),
            _ => None,
        }
    }
}

impl Caller {
    /// Takes back what was charged at a time.
    pub(super) fn given_back(
        &self,
        charge: &Charge<'_>,
        at: Micros,
        verdict: &Verdict,
    ) -> Afterwards {
        match charge.limit.reserves() {
            Some(lease) => self.settled(charge, at + verdict.reset, at + lease, 0),
            None => self.by_receipt(charge, at + verdict.reset),
        }
    }

    fn by_receipt(&self, charge: &Charge<'_>, receipt: Micros) -> Afterwards {
        let arguments = Arguments::with_receipts(charge, &[receipt], crate::now());
        let keys = vec![charge.key(&self.key_prefix)];
        self.afterwards(Task::GiveBack, charge, keys, arguments)
    }

    /// Settles a reservation that lapses at `lapse`: `used` is what it has come to.
    pub(super) fn settled(
        &self,
        charge: &Charge<'_>,
        receipt: Micros,
        lapse: Micros,
        used: u64,
    ) -> Afterwards {
        let arguments = Arguments::with_receipts(charge, &[receipt, lapse, used], crate::now());
        let key = charge.key(&self.key_prefix);
        let keys = vec![key.clone(), unsettled_key(&key)];
        self.afterwards(Task::Settle, charge, keys, arguments)
    }

    /// Holds places, or a reservation, that lapse at `lapse` for another lease.
    pub(super) fn renewed(&self, charge: &Charge<'_>, lapse: Micros, lease: Micros) -> Afterwards {
        let key = charge.key(&self.key_prefix);
        let key = match charge.limit.reserves() {
            Some(_) => unsettled_key(&key),
            None => key,
        };
        let arguments = [charge.cost, lapse, lease].map(|number| number.to_string());
        self.afterwards(Task::Renew, charge, vec![key], arguments.to_vec())
    }

    fn afterwards(
        &self,
        task: Task,
        charge: &Charge<'_>,
        keys: Vec<String>,
        arguments: Vec<String>,
    ) -> Afterwards {
        Afterwards {
            tag: charge.subject.tag,
            script: self.scripts.of(task, std::slice::from_ref(charge)).index(),
            keys,
            arguments,
        }
    }

    /// Sends it; the reply begins with the time.
    pub(super) async fn send(&self, call: &Afterwards) -> Result<Vec<i64>, StoreError> {
        let script = self.scripts.at(call.script);
        let arguments = &call.arguments;
        self.shards
            .call(&call.tag, script, &call.keys, arguments)
            .await
    }
}

#[cfg(test)]
mod tests;

//! The calls for decisions. Each runs a script with keys and words on a server, before a deadline.
//!
//! - [`cross_slot`]: requests that no script can decide at once
//! - [`compensation`]: calls after a decision: a hold is renewed or ended

pub(in crate::redis) mod compensation;
pub(in crate::redis) mod cross_slot;
pub(super) mod reading;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{HoldId, Micros, Verdict};
use tidegate_redis::{
    Answer, Batched, Batcher, Complaints, Question, Shard, Shards, Wait, Word, with_deadline,
};

use super::Task;
use super::arguments::{Arguments, Holding};
use crate::charge::{hold_of, notes_key};
use crate::redis::{decision_cache, script};
use crate::{Charge, Decision, Mode, Outcome, StoreError, Verdicts, Via};

/// Script that resets limits.
pub(super) const FORGET: &str = include_str!("../../../../../lua/forget.lua");

/// The parts that every call needs.
#[derive(Clone, Debug)]
pub(in crate::redis) struct Caller {
    pub(in crate::redis) shards: Arc<Shards>,
    batcher: Arc<Batcher>,
    complaints: Arc<Complaints>,
    pub(in crate::redis) key_prefix: Arc<str>,
}

/// A script call with all its data, so that it can run in a task of its own.
#[derive(Debug)]
struct Call {
    task: Task,
    tag: [u8; 16],
    script: usize,
    keys: Arc<[Word]>,
    arguments: Arguments,
    charges: usize,
    /// The ID of the holds that the call takes; 0 without holds.
    hold: HoldId,
}

impl Caller {
    /// Creates a caller of these servers, for keys that begin with `key_prefix`.
    pub(in crate::redis) fn new(shards: Shards, key_prefix: &str) -> Self {
        Self {
            shards: Arc::new(shards),
            batcher: Arc::default(),
            complaints: Arc::default(),
            key_prefix: key_prefix.into(),
        }
    }

    /// Returns the server of a client's keys. Logs the error if no server has the keys, but not for every decision.
    pub(in crate::redis) fn server(&self, tag: &[u8; 16]) -> Result<Arc<Shard>, StoreError> {
        self.shards.of(tag).inspect_err(|error| {
            if matches!(error, StoreError::Refused(_)) && self.complaints.is_due(error) {
                tracing::warn!(%error, "Redis does not decide; each limit follows its on_failure");
            }
        })
    }

    /// Whether a single script can decide all these charges.
    pub(in crate::redis) fn is_one(&self, charges: &[Charge<'_>]) -> bool {
        let mut pairs = charges.windows(2);
        !self.shards.are_many() || pairs.all(|pair| pair[0].key.tag == pair[1].key.tag)
    }

    /// Decides a request in one script call, and returns the times of the call. `None` if no single script can decide all charges.
    pub(in crate::redis) async fn decide_at_once(
        &self,
        charges: &[Charge<'_>],
        wait: Wait,
    ) -> Option<Result<Answer<Decision>, StoreError>> {
        if !self.is_one(charges) {
            return None;
        }
        match self.charge(charges, self.holding(), wait).await {
            Err(error) if error.is_moving() => None,
            answer => Some(answer),
        }
    }

    /// Returns the decision on charges without charging them. The keys share a slot.
    pub(in crate::redis) async fn look(
        &self,
        charges: &[Charge<'_>],
        wait: Wait,
    ) -> Result<Decision, StoreError> {
        let call = self.call(Task::Look, charges, self.holding(), HoldId(0));
        Ok(self.run(call, wait).await?.content)
    }

    /// Resets the keys of charges, which share a slot. For a synced limit, the units that a gateway counts before its next exchange are
    /// dropped, too.
    ///
    /// # Errors
    ///
    /// It is unknown whether the keys were reset. A call without an answer does not reset them later.
    pub(in crate::redis) async fn forget(
        &self,
        charges: &[Charge<'_>],
        patience: Duration,
    ) -> Result<(), StoreError> {
        let (counted, others): (Vec<&Charge<'_>>, Vec<&Charge<'_>>) = charges
            .iter()
            .partition(|charge| charge.limit.mode() == Mode::Synced);
        let (mut keys, mut matters) = (Vec::new(), Vec::new());
        for charge in counted {
            let key = charge.redis_key(&self.key_prefix);
            let notes = notes_key(&key);
            keys.extend([key, notes].map(Word::from));
            // The counts of the last two windows may still affect decisions.
            matters.push(Word::from(2 * charge.limit.quota().period() / 1_000 + 2));
        }
        keys.extend(
            others
                .iter()
                .flat_map(|charge| charge.keys(&self.key_prefix, self.shards.are_many())),
        );
        let shards = &self.shards;
        let forgetting = shards.eval_in_time::<i64>(&keys, FORGET, &matters, patience);
        forgetting.await.map(drop)
    }

    /// Calls a script that decides these charges. If no answer comes, ends the holds that the script may have taken.
    async fn charge(
        &self,
        charges: &[Charge<'_>],
        holding: Holding,
        wait: Wait,
    ) -> Result<Answer<Decision>, StoreError> {
        let hold = hold_of(charges);
        let call = self.call(Task::Decide, charges, holding, hold);
        let answer = self.run(call, wait).await;
        if let Err(error) = &answer {
            self.abandon(charges, hold, error);
        }
        answer
    }

    /// Returns the treatment of holds for a request whose keys share a slot.
    fn holding(&self) -> Holding {
        match self.shards.are_many() {
            true => Holding::Beside,
            false => Holding::None,
        }
    }

    fn call(&self, task: Task, charges: &[Charge<'_>], holding: Holding, hold: HoldId) -> Call {
        Call {
            task,
            tag: charges.first().map_or([0; 16], |charge| charge.key.tag),
            script: script::number(task, charges, holding),
            keys: self.keys(charges, holding),
            arguments: Arguments::of(charges, holding),
            charges: charges.len(),
            hold,
        }
    }

    fn keys(&self, charges: &[Charge<'_>], holding: Holding) -> Arc<[Word]> {
        let is_held = holding != Holding::None;
        charges
            .iter()
            .flat_map(|charge| charge.keys(&self.key_prefix, is_held))
            .collect()
    }

    /// Calls the script with the deadline `until`, if its server may be called.
    async fn run(&self, call: Call, wait: Wait) -> Result<Answer<Decision>, StoreError> {
        let shard = self.server(&call.tag)?;
        let ask = |deadline| {
            let now = shard.in_flight.now().unwrap_or_else(crate::now);
            let words = call.arguments.at(now);
            self.decided(&call, words, deadline)
        };
        match shard.in_flight.call(wait, ask).await {
            // The late call charged no unit. Its answer contains Redis's time, from which the next call computes its deadline.
            Err(StoreError::Late) => shard.in_flight.call(wait, ask).await,
            answer => answer,
        }
    }

    /// Makes the call. Returns the time, and the decision unless the script ran too late.
    async fn decided(
        &self,
        call: &Call,
        words: Arc<[Word]>,
        deadline: Option<Micros>,
    ) -> Result<(Micros, Option<Decision>), StoreError> {
        let reply = match (self.shards.one(), call.task) {
            (Some(shard), Task::Decide) => {
                let question = Question {
                    keys: call.keys.clone(),
                    words,
                    deadline,
                    hold: call.hold.0,
                };
                let scripts = Batched {
                    one: call.script,
                    many: script::number_of_many(call.script),
                };
                self.batcher.decide(shard, scripts, question).await
            }
            // No batch: a script cannot serve keys of several slots.
            _ => {
                let arguments = with_deadline(deadline, call.hold.0, &words);
                let future = self
                    .shards
                    .call(&call.tag, call.script, &call.keys, &arguments);
                Box::pin(future).await
            }
        };
        read(&reply?, call.charges, call.hold).ok_or_else(StoreError::unknown_reply)
    }
}

/// Returns the times when a call was sent and answered, and the time of its decision.
pub(in crate::redis) const fn call_of(answer: &Answer<Decision>) -> decision_cache::Call {
    decision_cache::Call {
        sent: answer.sent,
        received: answer.received,
        at: answer.content.now,
    }
}

/// Reads a script's reply: the time, whether all were admitted, and five numbers per limit (lua/README.md). If the call was too late, the
/// reply has only the time. `hold` is the ID of the charges' holds.
fn read(reply: &[i64], charges: usize, hold: HoldId) -> Option<(Micros, Option<Decision>)> {
    let (head, rows) = reply.split_at_checked(2)?;
    let number = |value: i64| u64::try_from(value).ok();
    let now: Micros = number(head[0])?;
    let outcome = match head[1] {
        1 => Outcome::Admitted,
        0 => Outcome::Refused,
        -1 if rows.is_empty() => return Some((now, None)),
        _ => return None,
    };
    if rows.len() != charges * 5 {
        return None;
    }
    let mut verdicts = Verdicts::new();
    for row in rows.chunks_exact(5) {
        verdicts.push(Some(Verdict {
            allowed: row[0] == 1,
            settling: row[0] == 2,
            remaining: number(row[1])?,
            reset: number(row[2])?,
            retry_after: number(row[3])?,
            delay: number(row[4])?,
        }));
    }
    let decision = Decision {
        outcome,
        via: Via::Store,
        now,
        sources: Decision::sources(verdicts.len(), now, false, hold),
        verdicts,
        call: None,
    };
    Some((now, Some(decision)))
}

//! One request whose keys are in several slots of a Redis Cluster, which no script can reach at once.
//!
//! First all slots are checked at once, which refuses nearly all that is to be refused and charges nothing. Then slot by
//! slot is decided, which charges; what was charged is given back, by receipt, if a later slot refuses after all, fails,
//! or is not waited for any more. So there is never more than any limit; a give-back that is lost lapses with its key.
//!
//! What a check said of a key is as good as what a script says that decides at once, and is remembered as well. Two answers
//! are not: one that admitted a charge that was then given back, and the refusal before it, which no longer holds.
//!
//! - [`group`]: the charges by slot

mod group;

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::{HoldId, Micros};
use tokio::task::JoinSet;

use super::afterwards::Afterwards;
use super::read;
use super::recent::{self, Recent};
use super::script::{Arguments, Scripts, Task, with_deadline};
use super::together::{Question, Together};
use super::wire::guard::Answer;
use super::wire::shards::Shards;
use crate::charge::hold_of;
use crate::{Charge, Decision, Outcome, PerCharge, StoreError, Via};
use group::{Group, grouped};

/// What may stand in one script call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    /// Keys of one slot.
    BySlot,
    /// One key. While a slot moves, its node may have only some of several keys, and answers TRYAGAIN until the last
    /// one has moved; each alone is found where it is.
    ByKey,
}

/// What every call needs.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) shards: Arc<Shards>,
    pub(super) scripts: Arc<Scripts>,
    pub(super) together: Arc<Together>,
    pub(super) key_prefix: Arc<str>,
}

/// A script call that knows all it needs, so that it can go on by itself.
#[derive(Debug)]
struct Call {
    task: Task,
    tag: [u8; 16],
    script: usize,
    keys: Arc<[String]>,
    arguments: Arguments,
    charges: usize,
    /// The ID of what it holds; 0: nothing.
    hold: u64,
}

/// The decision on a request, and for each charge which call its verdict is of: none if that verdict no longer holds.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) decision: Decision,
    pub(super) calls: PerCharge<Option<recent::Call>>,
}

impl Caller {
    /// Whether one script can decide all of these.
    pub(super) fn is_one(&self, charges: &[Charge<'_>]) -> bool {
        let same = |pair: &[Charge<'_>]| pair[0].subject.tag == pair[1].subject.tag;
        !self.shards.are_many() || charges.windows(2).all(same)
    }

    /// Decides a request in one script call, whose times are told as well; `None` if no script can.
    pub(super) async fn decide_at_once(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Option<Result<Answer<Decision>, StoreError>> {
        if !self.is_one(charges) {
            return None;
        }
        match self.charge(charges, until).await {
            Err(error) if error.is_moving() => None,
            answer => Some(answer),
        }
    }

    /// What would be decided, charging nothing; the keys share a slot.
    pub(super) async fn look(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<Decision, StoreError> {
        let call = self.call(Task::Check, charges);
        Ok(self.run(call, until).await?.content)
    }

    /// Removes the keys of charges, which share a slot.
    pub(super) async fn unlink(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let Some(first) = charges.first() else {
            return Ok(());
        };
        let shard = self.shards.of(&first.subject.tag)?;
        shard.client.unlink(self.keys(charges).to_vec()).await
    }

    /// Decides a request that no script can decide at once. What is given back makes no refusal of that key hold that is
    /// in `recent`.
    pub(super) async fn decide(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
        recent: &Arc<Recent>,
    ) -> Result<Decided, StoreError> {
        // A slot that is moving is seen by all of its keys.
        let split = if self.is_one(charges) {
            Split::ByKey
        } else {
            Split::BySlot
        };
        match self.decide_split(charges, split, until, recent).await {
            // What was charged until then is given back.
            Err(error) if error.is_moving() && split == Split::BySlot => {
                let split = Split::ByKey;
                self.decide_split(charges, split, until, recent).await
            }
            answer => answer,
        }
    }

    async fn decide_split(
        &self,
        charges: &[Charge<'_>],
        split: Split,
        until: Instant,
        recent: &Arc<Recent>,
    ) -> Result<Decided, StoreError> {
        let groups = grouped(charges, split);
        let mut decided = self.check(&groups, charges.len(), until).await?;
        let mut charged = Charged {
            caller: self,
            recent,
            calls: Vec::new(),
        };
        if decided.decision.outcome == Outcome::Refused {
            // A check leaves no trace: what blocks is decided as well, to be blocked.
            let checked = decided.decision.verdicts.clone();
            for group in groups.iter().filter(|group| group.blocks(&checked)) {
                let answer = self.charge(&group.charges, until).await?;
                if answer.content.outcome == Outcome::Admitted {
                    // It fits by now, and is given back as this is dropped.
                    charged.calls.extend(self.undo(group, &answer.content));
                    group.forget(&mut decided);
                } else {
                    group.tell(&answer, &mut decided);
                }
            }
            return Ok(decided);
        }
        let mut answers = Vec::with_capacity(groups.len());
        for group in &groups {
            let answer = self.charge(&group.charges, until).await?;
            let outcome = answer.content.outcome;
            if outcome == Outcome::Admitted {
                charged.calls.extend(self.undo(group, &answer.content));
            }
            decided.decision.now = answer.content.now;
            decided.decision.outcome = outcome;
            if outcome == Outcome::Refused {
                // Nothing stays charged: what the check said of the others holds.
                group.tell(&answer, &mut decided);
                return Ok(decided);
            }
            answers.push(answer);
        }
        for (group, answer) in groups.iter().zip(&answers) {
            group.tell(answer, &mut decided);
        }
        charged.calls.clear();
        Ok(decided)
    }

    /// Has a script decide these charges. Places that it may have taken without an answer are given back.
    async fn charge(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<Answer<Decision>, StoreError> {
        let call = self.call(Task::Decide, charges);
        let hold = HoldId(call.hold);
        let answer = self.run(call, until).await;
        if let Err(error) = &answer {
            self.abandon(charges, hold, error);
        }
        answer
    }

    /// Asks all slots at once, and charges none.
    async fn check(
        &self,
        groups: &[Group<'_>],
        count: usize,
        until: Instant,
    ) -> Result<Decided, StoreError> {
        let mut asking = JoinSet::new();
        for (index, group) in groups.iter().enumerate() {
            let (caller, call) = (self.clone(), self.call(Task::Check, &group.charges));
            asking.spawn(async move { (index, caller.run(call, until).await) });
        }
        let mut all = Decided {
            decision: Decision {
                outcome: Outcome::Admitted,
                via: Via::Store,
                now: 0,
                verdicts: (0..count).map(|_| None).collect(),
                sources: Decision::sources(count, 0, false, 0),
                call: None,
            },
            calls: (0..count).map(|_| None).collect(),
        };
        while let Some(answered) = asking.join_next().await {
            // A task of ours that is gone was not answered.
            let (index, answer) = answered.map_err(|_| StoreError::Disconnected)?;
            let answer = answer?;
            groups[index].tell(&answer, &mut all);
            let decision = &mut all.decision;
            decision.now = decision.now.max(answer.content.now);
            if answer.content.outcome == Outcome::Refused {
                decision.outcome = Outcome::Refused;
            }
        }
        Ok(all)
    }

    fn call(&self, task: Task, charges: &[Charge<'_>]) -> Call {
        let hold = match task {
            Task::Decide => hold_of(charges),
            _ => 0,
        };
        Call {
            task,
            tag: charges.first().map_or([0; 16], |charge| charge.subject.tag),
            script: self.scripts.of(task, charges).index(),
            keys: self.keys(charges),
            arguments: Arguments::of(charges),
            charges: charges.len(),
            hold,
        }
    }

    /// What undoes this answer, by charge.
    fn undo<'a>(
        &self,
        group: &Group<'a>,
        answer: &Decision,
    ) -> impl Iterator<Item = (Charge<'a>, Afterwards)> {
        let verdicts = answer.verdicts.iter().flatten();
        let said = verdicts.zip(&answer.sources);
        let charged = group.charges.iter().zip(said);
        // One that is only observed may have been left out.
        let charged = charged.filter(|(_, (verdict, _))| verdict.allowed);
        charged
            .map(|(charge, (verdict, source))| (*charge, self.given_back(charge, source, verdict)))
    }

    fn keys(&self, charges: &[Charge<'_>]) -> Arc<[String]> {
        charges
            .iter()
            .flat_map(|charge| charge.keys(&self.key_prefix))
            .collect()
    }

    /// Has the script decide by `until`, if its server may be asked.
    async fn run(&self, call: Call, until: Instant) -> Result<Answer<Decision>, StoreError> {
        let shard = self.shards.of(&call.tag)?;
        let ask = |deadline| {
            let now = shard.guard.now().unwrap_or_else(crate::now);
            let words = call.arguments.at(now);
            self.decided(&call, words, deadline)
        };
        match shard.guard.call(until, ask).await {
            // It has charged nothing, and told the time, by which another one may be in time.
            Err(StoreError::Late) => shard.guard.call(until, ask).await,
            answer => answer,
        }
    }

    /// The time, and the decision of a script that did not find itself too late.
    async fn decided(
        &self,
        call: &Call,
        words: Arc<[String]>,
        deadline: Option<Micros>,
    ) -> Result<(Micros, Option<Decision>), StoreError> {
        let reply = match (&*self.shards, call.task) {
            (Shards::One(shard), Task::Decide) => {
                let question = Question {
                    keys: call.keys.clone(),
                    words,
                    deadline,
                    hold: call.hold,
                };
                let (together, scripts) = (&self.together, &self.scripts);
                together.decide(shard, scripts, call.script, question).await
            }
            // Of several slots no script can be asked at once.
            _ => {
                let script = self.scripts.at(call.script);
                let arguments = with_deadline(deadline, call.hold, &words);
                let asked = self.shards.call(&call.tag, script, &call.keys, &arguments);
                Box::pin(asked).await
            }
        };
        read(&reply?, call.charges, call.hold).ok_or_else(StoreError::unknown_reply)
    }
}

/// What was charged so far, and is given back if this is dropped with something in it.
struct Charged<'a> {
    caller: &'a Caller,
    recent: &'a Arc<Recent>,
    calls: Vec<(Charge<'a>, Afterwards)>,
}

impl Drop for Charged<'_> {
    fn drop(&mut self) {
        // Without a runtime, which is ending, there is nothing left to do it: what was charged lapses.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        for (charge, call) in self.calls.drain(..) {
            let caller = self.caller.clone();
            let (recent, key) = (self.recent.clone(), self.recent.key(&charge));
            // Nobody waits for it: whoever was refused has an answer.
            runtime.spawn(async move {
                let _ = caller.send(&call).await;
                recent.given_back(&key, Instant::now());
            });
        }
    }
}

/// When a decision was asked for and came, and its time.
pub(super) const fn call_of(answer: &Answer<Decision>) -> recent::Call {
    recent::Call {
        sent: answer.sent,
        received: answer.received,
        at: answer.content.now,
    }
}

#[cfg(test)]
pub(super) mod tests;

//! One request whose keys are in several slots of a Redis Cluster, which no script can reach at once.
//!
//! First all slots are checked at once, which refuses nearly all that is to be refused and charges nothing. Then slot by
//! slot is decided, which charges; what was charged is given back, by receipt, if a later slot refuses after all, fails,
//! or is not waited for any more. So there is never more than any limit; a give-back that is lost lapses with its key.

use std::sync::Arc;
use std::time::Instant;

use arrayvec::ArrayVec;
use tidegate_core::{Micros, Quota};
use tokio::task::JoinSet;

use super::guard::Answer;
use super::read;
use super::script::{Scripts, Task, arguments, arguments_with, deadline};
use super::shards::Shards;
use crate::{Charge, Decision, MAX_CHARGES, Outcome, StoreError, Verdicts};

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
    pub(super) key_prefix: Arc<str>,
}

/// A script call that knows all it needs, so that it can go on by itself.
#[derive(Debug)]
struct Call {
    tag: [u8; 16],
    script: usize,
    keys: Vec<String>,
    // Without the deadline of a decision, which every attempt has of its own.
    arguments: Vec<String>,
}

/// The charges of a request whose keys share a slot, and their places among all.
#[derive(Debug)]
struct Group<'a> {
    charges: ArrayVec<Charge<'a>, MAX_CHARGES>,
    places: ArrayVec<usize, MAX_CHARGES>,
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
        let call = self.call(Task::Decide, charges);
        match self.run(call, until).await {
            Err(error) if is_moving(&error) => None,
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
        shard.client.unlink(self.keys(charges)).await
    }

    /// Decides a request that no script can decide at once.
    pub(super) async fn decide(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<Decision, StoreError> {
        // A slot that is moving is seen by all of its keys.
        let split = if self.is_one(charges) {
            Split::ByKey
        } else {
            Split::BySlot
        };
        match self.decide_split(charges, split, until).await {
            // What was charged until then is given back.
            Err(error) if is_moving(&error) && split == Split::BySlot => {
                self.decide_split(charges, Split::ByKey, until).await
            }
            answer => answer,
        }
    }

    async fn decide_split(
        &self,
        charges: &[Charge<'_>],
        split: Split,
        until: Instant,
    ) -> Result<Decision, StoreError> {
        let groups = grouped(charges, split);
        let mut decision = self.check(&groups, charges.len(), until).await?;
        if decision.outcome == Outcome::Refused {
            return Ok(decision);
        }
        let mut charged = Charged {
            caller: self,
            calls: Vec::new(),
        };
        let mut answers: ArrayVec<Decision, MAX_CHARGES> = ArrayVec::new();
        for group in &groups {
            let call = self.call(Task::Decide, &group.charges);
            let answer = self.run(call, until).await?.content;
            if answer.outcome == Outcome::Admitted {
                charged.calls.push(self.give_back(group, &answer));
            }
            decision.now = answer.now;
            decision.outcome = answer.outcome;
            if answer.outcome == Outcome::Refused {
                // Nothing stays charged: what the check said of the others holds.
                group.tell(&answer, &mut decision.verdicts);
                return Ok(decision);
            }
            answers.push(answer);
        }
        for (group, answer) in groups.iter().zip(answers) {
            group.tell(&answer, &mut decision.verdicts);
        }
        charged.calls.clear();
        Ok(decision)
    }

    /// Asks all slots at once, and charges none.
    async fn check(
        &self,
        groups: &[Group<'_>],
        count: usize,
        until: Instant,
    ) -> Result<Decision, StoreError> {
        let mut asking = JoinSet::new();
        for (index, group) in groups.iter().enumerate() {
            let (caller, call) = (self.clone(), self.call(Task::Check, &group.charges));
            asking.spawn(async move { (index, caller.run(call, until).await) });
        }
        let mut all: Option<Decision> = None;
        let mut verdicts: Verdicts = (0..count).map(|_| None).collect();
        while let Some(answered) = asking.join_next().await {
            // A task of ours that is gone was not answered.
            let (index, answer) = answered.map_err(|_| StoreError::Disconnected)?;
            let answer = answer?.content;
            groups[index].tell(&answer, &mut verdicts);
            match &mut all {
                Some(all) if answer.outcome == Outcome::Refused => all.outcome = Outcome::Refused,
                Some(_) => {}
                None => all = Some(answer),
            }
        }
        let mut all = all.ok_or(StoreError::Disconnected)?;
        all.verdicts = verdicts;
        Ok(all)
    }

    fn call(&self, task: Task, charges: &[Charge<'_>]) -> Call {
        let quotas = charges.iter().map(|charge| charge.limit.quota());
        Call {
            tag: charges.first().map_or([0; 16], |charge| charge.subject.tag),
            script: self.scripts.of(task, quotas).index(),
            keys: self.keys(charges),
            arguments: arguments(charges),
        }
    }

    /// What undoes this answer: when a charge would have stopped to count is its receipt.
    fn give_back(&self, group: &Group<'_>, answer: &Decision) -> Call {
        let ends = |reset: Micros| answer.now + reset;
        let receipts: Vec<Micros> = answer
            .verdicts
            .iter()
            .flatten()
            .map(|verdict| ends(verdict.reset))
            .collect();
        let quotas = group.charges.iter().map(|charge| charge.limit.quota());
        Call {
            tag: group.tag(),
            script: self.scripts.of(Task::GiveBack, quotas).index(),
            keys: self.keys(&group.charges),
            arguments: arguments_with(&group.charges, &receipts),
        }
    }

    fn keys(&self, charges: &[Charge<'_>]) -> Vec<String> {
        charges
            .iter()
            .map(|charge| charge.key(&self.key_prefix))
            .collect()
    }

    /// Has the script decide by `until`, if its server may be asked.
    async fn run(&self, call: Call, until: Instant) -> Result<Answer<Decision>, StoreError> {
        let shard = self.shards.of(&call.tag)?;
        let ask = |on_clock| self.decided(&call, on_clock);
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
        on_clock: Option<Micros>,
    ) -> Result<(Micros, Option<Decision>), StoreError> {
        let mut arguments = Vec::with_capacity(1 + call.arguments.len());
        arguments.push(deadline(on_clock));
        arguments.extend_from_slice(&call.arguments);
        let reply = self.send(call, &arguments).await?;
        read(&reply, call.keys.len()).ok_or_else(|| StoreError::Refused("an unknown reply".into()))
    }

    /// Sends a give-back: without a guard, whose places are for decisions, and without a deadline, since it charges
    /// nothing.
    async fn give(&self, call: &Call) -> Result<Vec<i64>, StoreError> {
        self.send(call, &call.arguments).await
    }

    async fn send(&self, call: &Call, arguments: &[String]) -> Result<Vec<i64>, StoreError> {
        let script = self.scripts.at(call.script);
        self.shards
            .call(&call.tag, script, &call.keys, arguments)
            .await
    }
}

/// What was charged so far, and is given back if this is dropped with something in it.
struct Charged<'a> {
    caller: &'a Caller,
    calls: Vec<Call>,
}

impl Drop for Charged<'_> {
    fn drop(&mut self) {
        // Without a runtime, which is ending, there is nothing left to do it: what was charged lapses.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        for call in self.calls.drain(..) {
            let caller = self.caller.clone();
            // Nobody waits for it: whoever was refused has an answer.
            runtime.spawn(async move { caller.give(&call).await });
        }
    }
}

impl Group<'_> {
    fn tag(&self) -> [u8; 16] {
        self.charges
            .first()
            .map_or([0; 16], |charge| charge.subject.tag)
    }

    /// Puts this group's verdicts into their places.
    fn tell(&self, answer: &Decision, verdicts: &mut Verdicts) {
        for (place, verdict) in self.places.iter().zip(&answer.verdicts) {
            verdicts[*place] = *verdict;
        }
    }

    /// Whose turn it is: what many share is the likeliest to refuse, and a queue's turns follow each other.
    fn turn(&self) -> (bool, bool) {
        let queues = |charge: &Charge<'_>| matches!(charge.limit.quota(), Quota::LeakyBucket(_));
        let shared = self.charges.iter().any(|charge| charge.limit.is_shared());
        (self.charges.iter().any(queues), !shared)
    }
}

/// Whether the slot of several keys is moving; then nothing has run.
pub(super) fn is_moving(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused(code) if code == "TRYAGAIN")
}

/// The charges as they can be decided together, in the order in which they are charged.
fn grouped<'a>(charges: &[Charge<'a>], split: Split) -> ArrayVec<Group<'a>, MAX_CHARGES> {
    let mut groups: ArrayVec<Group<'a>, MAX_CHARGES> = ArrayVec::new();
    for (place, charge) in charges.iter().enumerate() {
        let joins = |group: &Group<'_>| split == Split::BySlot && group.tag() == charge.subject.tag;
        let known = groups.iter().position(joins);
        let index = known.unwrap_or_else(|| {
            groups.push(Group {
                charges: ArrayVec::new(),
                places: ArrayVec::new(),
            });
            groups.len() - 1
        });
        groups[index].charges.push(*charge);
        groups[index].places.push(place);
    }
    groups.sort_by_key(Group::turn);
    groups
}

#[cfg(test)]
mod tests;

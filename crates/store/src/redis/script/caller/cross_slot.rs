//! One request whose keys are in several slots of a Redis Cluster, which no script can reach at once.
//!
//! One round takes holds in all slots. If all admit the request, it goes on, and the charges follow behind it: each hold ends with the
//! cost. If one refuses or fails, or the caller has left, each hold ends with cost 0. So there is never more than any limit. An
//! end that is lost lapses, and is charged.
//!
//! - [`group`]: the charges by slot

mod group;

use std::time::Instant;

use tidegate_core::HoldId;
use tokio::task::JoinSet;

use super::{Caller, Holding, Task};
use crate::charge::next_hold;
use crate::redis::decision_cache;
use crate::{Charge, Decision, Outcome, PerCharge, StoreError, Via};
use group::{Group, grouped};

/// What may stand in one script call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Grouping {
    /// Keys of one slot.
    BySlot,
    /// One key. While a slot moves, its node may have only some of several keys, and answers TRYAGAIN until the last one has moved.
    /// Each key alone is found where it is.
    ByKey,
}

/// The decision on a request, and for each charge which call its verdict is of.
#[derive(Debug)]
pub(in crate::redis) struct Decided {
    pub(in crate::redis) decision: Decision,
    pub(in crate::redis) calls: PerCharge<Option<decision_cache::Call>>,
}

impl Caller {
    /// Decides a request that no script can decide at once.
    pub(in crate::redis) async fn decide(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<Decided, StoreError> {
        if !self.is_one(charges) {
            match self.take(charges, until).await {
                Err(error) if error.is_moving() => {}
                answer => return answer,
            }
        }
        self.decide_by_key(charges, until).await
    }

    /// Decides key by key, while a slot moves. Holds of requests over several slots are not counted. If a later key refuses
    /// a request that the check admitted, the earlier ones stay charged.
    async fn decide_by_key(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<Decided, StoreError> {
        let groups = grouped(charges, Grouping::ByKey);
        let none = (Holding::None, HoldId(0));
        let mut decided = self.ask(Task::Check, &groups, none, until).await?;
        for group in &groups {
            if decided.decision.outcome == Outcome::Refused {
                break;
            }
            let answer = self.charge(&group.charges, Holding::None, until).await?;
            decided.decision.outcome = answer.content.outcome;
            group.tell(&answer, &mut decided);
        }
        Ok(decided)
    }

    /// Checks charges of a request that another limit refuses: none is charged, and what refuses begins to block.
    pub(in crate::redis) async fn check(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<Decided, StoreError> {
        let groups = grouped(charges, Grouping::BySlot);
        let beside = (self.holding(), HoldId(0));
        match self.ask(Task::Check, &groups, beside, until).await {
            Err(error) if error.is_moving() => {
                let groups = grouped(charges, Grouping::ByKey);
                let none = (Holding::None, HoldId(0));
                self.ask(Task::Check, &groups, none, until).await
            }
            answer => answer,
        }
    }

    /// Takes holds in one round, and lets their ends follow.
    async fn take(&self, charges: &[Charge<'_>], until: Instant) -> Result<Decided, StoreError> {
        let groups = grouped(charges, Grouping::BySlot);
        let mut taken = Taken {
            caller: self,
            hold: next_hold(),
            held: vec![true; charges.len()],
            groups: &groups,
        };
        let own = (Holding::Taken, taken.hold);
        let mut decided = self.ask(Task::Decide, &groups, own, until).await?;
        let is_admitted = decided.decision.outcome == Outcome::Admitted;
        let verdicts = decided.decision.verdicts.iter_mut().flatten();
        for ((verdict, held), charge) in verdicts.zip(&mut taken.held).zip(charges) {
            *held = verdict.allowed;
            if verdict.allowed && !is_admitted {
                verdict.remaining += charge.cost;
            }
        }
        if is_admitted {
            let is_charged = |index: usize| charges[index].limit.lease().is_none();
            taken.end(is_charged, |index| charges[index].cost);
            taken.held.clear();
        }
        Ok(decided)
    }

    /// Asks all groups at once.
    async fn ask(
        &self,
        task: Task,
        groups: &[Group<'_>],
        (holding, hold): (Holding, HoldId),
        until: Instant,
    ) -> Result<Decided, StoreError> {
        let mut asking = JoinSet::new();
        for (index, group) in groups.iter().enumerate() {
            let call = self.call(task, &group.charges, holding, hold);
            let caller = self.clone();
            asking.spawn(async move { (index, caller.run(call, until).await) });
        }
        let count = groups.iter().map(|group| group.charges.len()).sum();
        let mut all = Decided {
            decision: Decision {
                outcome: Outcome::Admitted,
                via: Via::Store,
                now: 0,
                verdicts: (0..count).map(|_| None).collect(),
                sources: Decision::sources(count, 0, false, HoldId(0)),
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
}

/// The holds of a request in several slots. When this is dropped, the remaining holds end with cost 0.
struct Taken<'a> {
    caller: &'a Caller,
    hold: HoldId,
    /// Whether each charge may be held.
    held: Vec<bool>,
    groups: &'a [Group<'a>],
}

impl Taken<'_> {
    /// Ends holds of these charges, each with this cost. No request waits for that.
    fn end(&self, ends: impl Fn(usize) -> bool, used: impl Fn(usize) -> u64) {
        // Without a runtime, which is ending, no task can send it: the holds lapse.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        for group in self.groups {
            let indices = group.indices.iter().zip(&group.charges);
            let ending = indices.filter(|(index, _)| self.held[**index] && ends(**index));
            let (indices, charges): (Vec<usize>, Vec<Charge<'_>>) = ending.unzip();
            if charges.is_empty() {
                continue;
            }
            let used: Vec<u64> = indices.into_iter().map(&used).collect();
            let call = self.caller.ended_all(&charges, self.hold, &used);
            let caller = self.caller.clone();
            runtime.spawn(async move { caller.send(&call).await });
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.held.is_empty() {
            self.end(|_| true, |_| 0);
        }
    }
}

#[cfg(test)]
pub(in crate::redis) mod tests;

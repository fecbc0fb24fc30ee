//! One request whose keys are in several slots of a Redis Cluster, which no script can reach at once.
//!
//! One round of calls takes holds in all slots. If all slots admit the request, it is admitted. Holds of limits without a lease then end
//! with the cost, in the background. If one slot refuses or fails, or if the decision is cancelled because the client has gone, each hold
//! ends with cost 0. So no limit is exceeded. If an end is lost, its hold lapses, and its units are charged.
//!
//! - [`group`]: the charges by slot

mod group;

use tidegate_core::HoldId;
use tidegate_redis::Wait;
use tokio::task::JoinSet;

use super::{Caller, Holding, Task};
use crate::charge::next_hold;
use crate::redis::decision_cache;
use crate::{Charge, Decision, Outcome, PerCharge, StoreError, Via};
use group::{Group, grouped};

/// The keys of one script call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Grouping {
    /// All keys.
    Whole,
    /// Keys of one slot.
    BySlot,
    /// One key. While a slot moves, its node may have only some of several keys, and answers TRYAGAIN until all of them have moved. A
    /// single key is always on one node.
    ByKey,
}

/// The decision on a request, and the call that returned each charge's verdict.
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
        wait: Wait,
    ) -> Result<Decided, StoreError> {
        if !self.is_one(charges) {
            match self.take(charges, wait).await {
                Err(error) if error.is_moving() => {}
                answer => return answer,
            }
        }
        self.decide_by_key(charges, wait).await
    }

    /// Decides key by key, while a slot moves. Units held by requests with keys in several slots are not counted. If a later key refuses a
    /// request that the check admitted, the earlier keys stay charged, but their holds end.
    async fn decide_by_key(
        &self,
        charges: &[Charge<'_>],
        wait: Wait,
    ) -> Result<Decided, StoreError> {
        let groups = grouped(charges, Grouping::ByKey);
        let none = (Holding::None, HoldId(0));
        let mut decided = self.ask(Task::Check, &groups, none, wait).await?.0;
        let mut taken = Taken::new(self, &groups, HoldId(0), charges.len());
        for group in &groups {
            if decided.decision.outcome == Outcome::Refused {
                return Ok(decided);
            }
            let answer = self.charge(&group.charges, Holding::None, wait).await?;
            decided.decision.outcome = answer.content.outcome;
            group.tell(&answer, &mut decided);
            let is_admitted = answer.content.outcome == Outcome::Admitted;
            for &index in group.indices.iter().filter(|_| is_admitted) {
                let verdict = decided.decision.verdicts[index];
                if charges[index].limit.lease().is_some() && verdict.is_some_and(|it| it.allowed) {
                    taken.held[index] = decided.decision.sources[index].hold;
                }
            }
        }
        if decided.decision.outcome == Outcome::Admitted {
            taken.stay();
        }
        Ok(decided)
    }

    /// Checks charges of a request that another limit refuses. Charges no unit, and starts the blocks of limits that refuse.
    pub(in crate::redis) async fn check(
        &self,
        charges: &[Charge<'_>],
        wait: Wait,
    ) -> Result<Decided, StoreError> {
        let grouping = match self.is_one(charges) {
            true => Grouping::Whole,
            false => Grouping::BySlot,
        };
        let groups = grouped(charges, grouping);
        let beside = (self.holding(), HoldId(0));
        let checked = match self.ask(Task::Check, &groups, beside, wait).await {
            Err(error) if error.is_moving() => {
                let groups = grouped(charges, Grouping::ByKey);
                let none = (Holding::None, HoldId(0));
                self.ask(Task::Check, &groups, none, wait).await
            }
            answer => answer,
        };
        Ok(checked?.0)
    }

    /// Takes holds in one round, and sends their ends afterwards.
    async fn take(&self, charges: &[Charge<'_>], wait: Wait) -> Result<Decided, StoreError> {
        let groups = grouped(charges, Grouping::BySlot);
        let hold = next_hold();
        let mut taken = Taken::new(self, &groups, hold, charges.len());
        let own = (Holding::Taken, hold);
        let (mut decided, admitting) = self.ask(Task::Decide, &groups, own, wait).await?;
        let is_admitted = decided.decision.outcome == Outcome::Admitted;
        let verdicts = decided.decision.verdicts.iter_mut();
        for (index, verdict) in verdicts.enumerate() {
            let allowed = verdict.as_mut().filter(|verdict| verdict.allowed);
            match allowed.filter(|_| admitting[index]) {
                // The hold of this charge ends at once, so its units are free again.
                Some(verdict) if !is_admitted => verdict.remaining += charges[index].cost,
                Some(_) => {}
                None => taken.held[index] = HoldId(0),
            }
        }
        if is_admitted {
            let is_charged = |index: usize| charges[index].limit.lease().is_none();
            taken.end(is_charged, |index| charges[index].cost);
            taken.stay();
        }
        Ok(decided)
    }

    /// Makes the calls of all groups at once. Also returns, for each charge, whether its own group admits the request.
    async fn ask(
        &self,
        task: Task,
        groups: &[Group<'_>],
        (holding, hold): (Holding, HoldId),
        wait: Wait,
    ) -> Result<(Decided, Vec<bool>), StoreError> {
        let mut asking = JoinSet::new();
        for (index, group) in groups.iter().enumerate() {
            let call = self.call(task, &group.charges, holding, hold);
            let caller = self.clone();
            asking.spawn(async move { (index, caller.run(call, wait).await) });
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
        let mut admitting = vec![true; count];
        while let Some(answered) = asking.join_next().await {
            // A task that has panicked has no answer.
            let (index, answer) = answered.map_err(|_| StoreError::Disconnected)?;
            let answer = answer?;
            groups[index].tell(&answer, &mut all);
            let decision = &mut all.decision;
            decision.now = decision.now.max(answer.content.now);
            if answer.content.outcome == Outcome::Refused {
                decision.outcome = Outcome::Refused;
                for at in &groups[index].indices {
                    admitting[*at] = false;
                }
            }
        }
        Ok((all, admitting))
    }
}

/// The holds of a request in several slots. When this guard is dropped, the remaining holds end with cost 0.
struct Taken<'a> {
    caller: &'a Caller,
    groups: &'a [Group<'a>],
    /// The ID of the hold that each charge may have; 0 without a hold.
    held: Vec<HoldId>,
}

impl<'a> Taken<'a> {
    fn new(caller: &'a Caller, groups: &'a [Group<'a>], hold: HoldId, count: usize) -> Self {
        Self {
            caller,
            groups,
            held: vec![hold; count],
        }
    }

    /// Keeps the holds when this guard is dropped, because the request ends the holds from now on.
    fn stay(&mut self) {
        self.held.fill(HoldId(0));
    }

    /// Ends in the background the holds of charges for which `ends` returns true. `used` returns the cost of each charge.
    fn end(&self, ends: impl Fn(usize) -> bool, used: impl Fn(usize) -> u64) {
        // If the runtime has ended, no task can send the ends, and the holds lapse.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        for group in self.groups {
            let charged = group.indices.iter().zip(&group.charges);
            let ending =
                charged.filter(|(index, _)| self.held[**index] != HoldId(0) && ends(**index));
            let (indices, charges): (Vec<usize>, Vec<Charge<'_>>) = ending.unzip();
            // All holds of a group have the same ID.
            let Some(hold) = indices.first().map(|index| self.held[*index]) else {
                continue;
            };
            let used: Vec<u64> = indices.into_iter().map(&used).collect();
            let call = self.caller.ended_all(&charges, hold, &used);
            let caller = self.caller.clone();
            runtime.spawn(async move { caller.send(&call).await });
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.end(|_| true, |_| 0);
    }
}

#[cfg(test)]
pub(in crate::redis) mod tests;

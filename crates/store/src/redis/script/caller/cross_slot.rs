//! One request whose keys are in several slots of a Redis Cluster, which no script can reach at once.
//!
//! First all slots are checked at once, which refuses nearly all that is to be refused and charges nothing. A limit that refuses and
//! blocks begins to block then. Then slot by slot is
//! decided, which charges. If a later slot refuses after all, fails, or is not waited for any more, what was charged is given back,
//! by receipt. So there is never more than any limit; a give-back that is lost lapses with its key.
//!
//! What a check said of a key is as good as what a script says that decides at once, and is remembered as well. One answer
//! is not: one that admitted a charge that was then given back.
//!
//! - [`group`]: the charges by slot

mod group;

use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;

use super::compensation::Compensation;
use super::{Caller, Task};
use crate::redis::decision_cache::{self, DecisionCache};
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
    /// Decides a request that no script can decide at once. What is given back makes no refusal of that key hold that is
    /// in `recent`.
    pub(in crate::redis) async fn decide(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
        cache: &Arc<DecisionCache>,
    ) -> Result<Decided, StoreError> {
        // A slot that is moving is seen by all of its keys.
        let grouping = if self.is_one(charges) {
            Grouping::ByKey
        } else {
            Grouping::BySlot
        };
        match self
            .decide_cross_slot(charges, grouping, until, cache)
            .await
        {
            // What was charged until then is given back.
            Err(error) if error.is_moving() && grouping == Grouping::BySlot => {
                let grouping = Grouping::ByKey;
                self.decide_cross_slot(charges, grouping, until, cache)
                    .await
            }
            answer => answer,
        }
    }

    /// Checks charges of a request that another limit refuses: none is charged, and what refuses begins to block.
    pub(in crate::redis) async fn check(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<Decided, StoreError> {
        let groups = match self.is_one(charges) {
            true => vec![Group::of_all(charges)],
            false => grouped(charges, Grouping::BySlot),
        };
        match self.check_groups(&groups, charges.len(), until).await {
            Err(error) if error.is_moving() => {
                let groups = grouped(charges, Grouping::ByKey);
                self.check_groups(&groups, charges.len(), until).await
            }
            answer => answer,
        }
    }

    async fn decide_cross_slot(
        &self,
        charges: &[Charge<'_>],
        grouping: Grouping,
        until: Instant,
        cache: &Arc<DecisionCache>,
    ) -> Result<Decided, StoreError> {
        let groups = grouped(charges, grouping);
        let mut decided = self.check_groups(&groups, charges.len(), until).await?;
        if decided.decision.outcome == Outcome::Refused {
            return Ok(decided);
        }
        let mut undo = Undo {
            caller: self,
            cache,
            calls: Vec::new(),
        };
        let mut answers = Vec::with_capacity(groups.len());
        for group in &groups {
            let answer = self.charge(&group.charges, until).await?;
            let outcome = answer.content.outcome;
            if outcome == Outcome::Admitted {
                undo.calls.extend(self.undo(group, &answer.content));
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
        undo.calls.clear();
        Ok(decided)
    }

    /// Asks all slots at once, and charges none.
    async fn check_groups(
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

    /// What undoes this answer, by charge.
    fn undo<'a>(
        &self,
        group: &Group<'a>,
        answer: &Decision,
    ) -> impl Iterator<Item = (Charge<'a>, Compensation)> {
        let verdicts = answer.verdicts.iter().flatten();
        let said = verdicts.zip(&answer.sources);
        let charged = group.charges.iter().zip(said);
        // One that is only observed may have been left out.
        let charged = charged.filter(|(_, (verdict, _))| verdict.allowed);
        charged
            .map(|(charge, (verdict, source))| (*charge, self.given_back(charge, source, verdict)))
    }
}

/// What was charged so far, and is given back if this is dropped with something in it.
struct Undo<'a> {
    caller: &'a Caller,
    cache: &'a Arc<DecisionCache>,
    calls: Vec<(Charge<'a>, Compensation)>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        // Without a runtime, which is ending, there is nothing left to do it: what was charged lapses.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        for (charge, call) in self.calls.drain(..) {
            let caller = self.caller.clone();
            let (cache, key) = (self.cache.clone(), charge.limit_key());
            // Nobody waits for it: whoever was refused has an answer.
            runtime.spawn(async move {
                let _ = caller.send(&call).await;
                cache.given_back(&key, Instant::now());
            });
        }
    }
}

#[cfg(test)]
pub(in crate::redis) mod tests;

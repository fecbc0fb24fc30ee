//! Calls the store for a request.

use tidegate_store::MemoryStore;

use super::{Enforced, Given};
use crate::assessment::Assessment;
use crate::charges::RuleCharges;
use crate::wait_queues::Sender;
use crate::waiting::Reply;
use crate::{Decided, Policy};
use tidegate_identity::{Caller, ClientPlan};

impl Enforced {
    /// Calls the store, and waits for the request's turn.
    pub(super) async fn decide(
        &self,
        mut caller: Caller,
        assessment: Assessment,
        sender: Sender,
    ) -> Given {
        // The charges borrow limits from `plan`, so `plan` must be moved out of the caller before `decided` takes the caller.
        let plan = caller.plan.take();
        let mut decided = Decided::of(caller, &self.policy);
        let reply = match rule_charges(&self.policy, &mut decided, assessment, plan.as_ref()) {
            Some(charges) => {
                let reply = self.ask(&charges, sender, &mut decided).await;
                let client = &decided.client;
                self.events
                    .look(&charges, &reply.decision, client, plan.as_ref());
                Some(reply)
            }
            None => None,
        };
        given(decided, plan, reply)
    }

    async fn ask(
        &self,
        rule_charges: &RuleCharges<'_>,
        sender: Sender,
        decided: &mut Decided,
    ) -> Reply {
        let admission = self.admission(sender);
        let permit = match self.queues {
            true => match Box::pin(admission.room(rule_charges)).await {
                Ok(permit) => permit,
                Err(refusal) => return Reply::from(*refusal),
            },
            false => None,
        };
        // The future of a wait is boxed. So requests that cannot wait reserve no memory for this future.
        let reply = if self.may_wait {
            let (reply, waited) = Box::pin(admission.decide(rule_charges)).await;
            decided.waited += waited;
            decided.delayed = waited;
            reply
        } else {
            admission.ask(rule_charges).await
        };
        if self.queues {
            let turn = admission.turn(rule_charges, permit, &reply.decision);
            decided.waited += Box::pin(turn).await;
        }
        reply
    }

    /// Calls the memory store, without any wait.
    pub(super) fn decide_at_once(
        &self,
        memory: &MemoryStore,
        mut caller: Caller,
        assessment: Assessment,
    ) -> Given {
        let admission = self.admission(caller.address().into());
        let plan = caller.plan.take();
        let mut decided = Decided::of(caller, &self.policy);
        let charges = rule_charges(&self.policy, &mut decided, assessment, plan.as_ref());
        let reply = charges.map(|charges| {
            let reply = admission.ask_at_once(memory, &charges);
            let client = &decided.client;
            self.events
                .look(&charges, &reply.decision, client, plan.as_ref());
            reply
        });
        given(decided, plan, reply)
    }
}

/// Returns the decision and the holds of a request. Without a `reply`, the store was not called.
fn given(mut decided: Box<Decided>, plan: Option<ClientPlan>, reply: Option<Reply>) -> Given {
    decided.plan = plan;
    let Some(reply) = reply else {
        return (decided, None);
    };
    decided.decide(reply.decision);
    (decided, reply.reservation)
}

/// Returns the charges of a request whose client has this `plan`. `None` if the request is denied, if it costs more than a limit can ever
/// admit, or if no limit charges it.
fn rule_charges<'a>(
    policy: &'a Policy,
    decided: &mut Decided,
    assessment: Assessment,
    plan: Option<&'a ClientPlan>,
) -> Option<RuleCharges<'a>> {
    decided.access.clone_from(&assessment.access);
    if decided.denied_by().is_some() {
        return None;
    }
    let is_refused = decided.refused.is_some();
    let rule_charges = match assessment.charges(policy, is_refused, plan) {
        Ok(rule_charges) => rule_charges,
        Err(oversized) => {
            decided.oversized = Some(oversized);
            return None;
        }
    };
    for charge in &rule_charges {
        decided.charged.push(charge.index);
        decided.costs.push(charge.cost);
        decided.cost = decided.cost.max(charge.cost);
    }
    (!rule_charges.is_empty()).then_some(rule_charges)
}

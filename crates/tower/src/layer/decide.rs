//! Asks the store about a request.

use tidegate_store::MemoryStore;

use super::rule_charges::rule_charges;
use super::{Enforced, Given};
use crate::Decided;
use crate::assessment::Assessment;
use crate::wait_queues::Sender;
use tidegate_identity::Caller;

impl Enforced {
    /// Asks the store, and waits for the request's turn.
    pub(super) async fn decide(
        &self,
        mut caller: Caller,
        assessment: Assessment,
        sender: Sender,
    ) -> Given {
        let admission = self.admission(sender);
        // The charges refer to the plan, which may have limits of its own.
        let plan = caller.plan.take();
        let mut decided = Decided::of(caller, &self.policy);
        let Some(rule_charges) =
            rule_charges(&self.policy, &mut decided, assessment, plan.as_ref())
        else {
            decided.plan = plan;
            return (decided, None);
        };
        let room = match self.queues {
            true => match Box::pin(admission.room(&rule_charges)).await {
                Ok(room) => Some(room),
                Err(refusal) => {
                    drop(rule_charges);
                    decided.plan = plan;
                    decided.decide(*refusal);
                    return (decided, None);
                }
            },
            false => None,
        };
        // Boxed: a request that need not wait need not make room for it.
        let reply = if self.may_wait {
            let (reply, waited) = Box::pin(admission.decide(&rule_charges)).await;
            decided.waited += waited;
            decided.delayed = waited;
            reply
        } else {
            admission.ask(&rule_charges).await
        };
        if let Some(room) = room {
            decided.waited += Box::pin(admission.turn(&rule_charges, room, &reply.decision)).await;
        }
        drop(rule_charges);
        decided.plan = plan;
        decided.decide(reply.decision);
        (decided, reply.reservation)
    }

    /// Asks the store in memory, without any wait.
    pub(super) fn decide_at_once(
        &self,
        memory: &MemoryStore,
        mut caller: Caller,
        assessment: Assessment,
    ) -> Given {
        let admission = self.admission(caller.address().into());
        let plan = caller.plan.take();
        let mut decided = Decided::of(caller, &self.policy);
        let Some(rule_charges) =
            rule_charges(&self.policy, &mut decided, assessment, plan.as_ref())
        else {
            decided.plan = plan;
            return (decided, None);
        };
        let reply = admission.ask_at_once(memory, &rule_charges);
        drop(rule_charges);
        decided.plan = plan;
        decided.decide(reply.decision);
        (decided, reply.reservation)
    }
}

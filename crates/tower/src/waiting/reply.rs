//! Calls the store, and collects the holds that a decision makes.

use std::net::IpAddr;
use std::sync::Arc;

use tidegate_store::{
    Charge, Decision, Key, Limit, MemoryStore, Outcome, PerCharge, Sources, Store, Verdicts, Via,
};

use super::Admission;
use crate::Rule;
use crate::charges::{RuleCharge, RuleCharges};
use crate::in_flight::Reservation;

/// The result of a call to the store.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) decision: Decision,
    pub(crate) reservation: Option<Reservation>,
}

impl Admission<'_> {
    /// Calls the store, and collects the holds of the decision. If the client leaves, the call continues, because the holds that the call
    /// makes must be ended.
    pub(crate) async fn ask(&self, rule_charges: &RuleCharges<'_>) -> Reply {
        if let Store::Memory(memory) = self.store {
            // This call has no `await`, so a client that leaves cannot interrupt it.
            return self.ask_at_once(memory, rule_charges);
        }
        if !self.holds {
            let charges = charges(rule_charges);
            let decision = self.store.decide_within(&charges, self.within).await;
            return self.reply(rule_charges, decision);
        }
        let owned: Vec<_> = rule_charges
            .iter()
            .map(|it| (it.limit.clone(), it.key, it.cost, it.origin))
            .collect();
        let (store, rules) = (self.store.clone(), self.rules.clone());
        let (address, within) = (self.sender.address, self.within);
        let asking = tokio::spawn(async move {
            let charged = || {
                owned
                    .iter()
                    .map(|(limit, key, cost, _)| (limit, *key, *cost))
            };
            let charges = owned.iter().map(|(limit, key, cost, origin)| Charge {
                limit,
                key: *key,
                cost: *cost,
                origin: *origin,
            });
            let charges: PerCharge<Charge<'_>> = charges.collect();
            let decision = store.decide_within(&charges, within).await;
            Reply::new(&store, &rules, address, charged, decision)
        });
        // If the task panics, the request is treated as if the store had not answered.
        asking.await.unwrap_or_else(|_| Reply::nothing())
    }

    /// Calls the memory store, which decides at once.
    pub(crate) fn ask_at_once(
        &self,
        memory: &MemoryStore,
        rule_charges: &RuleCharges<'_>,
    ) -> Reply {
        let decision = memory.decide(&charges(rule_charges));
        self.reply(rule_charges, decision)
    }

    /// Collects the holds of a decision on these charges.
    fn reply(&self, rule_charges: &RuleCharges<'_>, decision: Decision) -> Reply {
        let charged = || rule_charges.iter().map(RuleCharge::charged);
        Reply::new(
            self.store,
            self.rules,
            self.sender.address,
            charged,
            decision,
        )
    }
}

/// Returns the charges in the store's type.
fn charges<'a>(rule_charges: &RuleCharges<'a>) -> PerCharge<Charge<'a>> {
    rule_charges.iter().map(RuleCharge::charge).collect()
}

impl Reply {
    /// Collects the holds of this decision.
    fn new<'a, C>(
        store: &Store,
        rules: &Arc<[Rule]>,
        address: IpAddr,
        charged: impl Fn() -> C,
        decision: Decision,
    ) -> Self
    where
        C: Iterator<Item = (&'a Arc<Limit>, Key, u64)>,
    {
        let held = store.holds(charged(), &decision);
        Self {
            reservation: held.map(|held| Reservation::new(held, rules.clone(), address)),
            decision,
        }
    }

    fn nothing() -> Self {
        Self::from(Decision {
            outcome: Outcome::Unavailable,
            via: Via::Fallback,
            now: 0,
            verdicts: Verdicts::new(),
            sources: Sources::new(),
            call: None,
        })
    }
}

impl From<Decision> for Reply {
    /// Makes a reply without holds.
    fn from(decision: Decision) -> Self {
        Self {
            decision,
            reservation: None,
        }
    }
}

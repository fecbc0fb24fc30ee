//! The charges of a request: its caller, and for each rule the limit, the key and the cost.

use std::sync::Arc;

use http::Request;
use tidegate_store::{Key, Limit, PerCharge};

use crate::{Caller, ClientPlan, Clients, Hasher, Peer, Policy, Rule};

/// Names the caller of a request, and computes its key and its cost for each rule of `policy`. Charges nothing.
pub fn assess<B>(
    policy: &Policy,
    clients: &Clients,
    hasher: &Hasher,
    peer: Peer,
    request: &Request<B>,
) -> (Caller, Assessment) {
    let caller = clients.identify(peer, request.headers());
    let keys = hasher.keys(policy, &caller, request);
    let trusted = clients.trusts(peer);
    let costs = policy.rules.iter();
    let costs = costs.map(|rule| rule.cost.of(request.headers(), trusted));
    let assessed = keys.into_iter().zip(costs).collect();
    (caller, Assessment(assessed))
}

/// The key and the cost of a request for each rule of a policy, in order.
#[derive(Debug)]
pub struct Assessment(PerCharge<(Key, u64)>);

/// A rule that a request is to be charged to.
#[derive(Clone, Copy, Debug)]
pub struct AssessedRule<'a> {
    /// The rule's index in the policy.
    pub index: usize,
    /// The rule.
    pub rule: &'a Rule,
    /// The rule's limit with the quota of the client's plan; none if the plan is unlimited there.
    pub limit: Option<&'a Arc<Limit>>,
    /// The key that is charged.
    pub key: Key,
    /// What the request costs.
    pub cost: u64,
}

impl Assessment {
    /// The rules of `policy` that charge the request of a client with this `plan`. A request whose credentials are refused is
    /// charged to the `always` limits alone: guessing is limited, too.
    pub fn rules<'a>(
        self,
        policy: &'a Policy,
        is_refused: bool,
        plan: Option<&ClientPlan>,
    ) -> impl Iterator<Item = AssessedRule<'a>> {
        let rules = match is_refused {
            true => &policy.rules[..policy.always],
            false => &policy.rules,
        };
        let assessed = rules.iter().zip(self.0).enumerate();
        assessed.map(move |(index, (rule, (key, cost)))| AssessedRule {
            index,
            rule,
            limit: rule.limit_for(plan),
            key,
            cost,
        })
    }
}

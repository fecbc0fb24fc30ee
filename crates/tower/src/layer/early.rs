//! Refuses requests by their address before a token is verified.
//!
//! Verifying a signature takes the time of a whole request (36 us for an RSA key), and any client can send signatures. So a limit per
//! address refuses a request before the verification if the limit would refuse the request whatever its token is.
//!
//! Only limits whose refusals do not depend on the client's name are checked here. Such a limit is counted per address. It may also be
//! counted per other parts of the request, if credentials do not change them. Plans do not change the limit's numbers, and a request that
//! the limit refuses does not wait. The check makes no charge, so a request that passes it is charged once, later.

use std::sync::Arc;

use http::Request;
use tidegate_store::{Charge, Limit, Mode, Outcome, PerCharge, Store};

use super::Enforced;
use crate::assessment::denied_address;
use crate::overrides::Table;
use crate::{Action, Decided, Per, Policy, RequestContext, Rule};
use tidegate_identity::{AccessVerdict, Clients};

/// Returns the indices of the rules of a policy that may refuse a request before its token is verified.
pub(super) fn early_rules(policy: &Policy, clients: &Clients, store: &Store) -> Box<[usize]> {
    if !clients.has_tokens() {
        return Box::default();
    }
    let rules = policy.rules.iter().enumerate();
    let access = policy.access.as_ref();
    // A request may be from a client that is exempt by name, so it cannot be refused before its client is named.
    let needs_name = |index| access.is_some_and(|access| access.exempts_names(index));
    let early = rules.filter(|(index, rule)| is_early(rule, store) && !needs_name(*index));
    early.map(|(index, _)| index).collect()
}

fn is_early(rule: &Rule, store: &Store) -> bool {
    let of_address = |per: &Per| matches!(per, Per::Ip | Per::Network(_));
    let is_named = |per: &Per| per.is_callers() && !of_address(per);
    let is_by_address = rule.per.iter().any(of_address) && !rule.per.iter().any(is_named);
    let is_same = |of_plan: &Option<Arc<Limit>>| {
        let limit = of_plan.as_ref();
        limit.is_some_and(|limit| Arc::ptr_eq(limit, &rule.limit))
    };
    // With Redis, the store caches refusals only for limits in mode `exact`.
    let is_known = matches!(store, Store::Memory(_)) || rule.limit.mode() == Mode::Exact;
    is_by_address
        && is_known
        && rule.front.is_none()
        && rule.limit.is_refusal_final()
        && !matches!(rule.action, Action::Delay { .. })
        && rule.plans.iter().all(is_same)
}

impl Enforced {
    /// Returns a refusal if the request is refused whatever its credentials are. A denied address is always refused. Limits are checked
    /// here only if the request has a token, because only the verification of a token is expensive.
    pub(super) fn early<B>(&self, request: &Request<B>) -> Option<Box<Decided>> {
        let table = self.overrides.table.load();
        let table = table.as_deref().map(|table| &**table);
        let denial = self.denial(table, request);
        denial.or_else(|| self.limited(table, request))
    }

    fn denial<B>(&self, table: Option<&Table>, request: &Request<B>) -> Option<Box<Decided>> {
        if self.policy.access.is_none() && table.is_none() {
            return None;
        }
        let peer = RequestContext::of(request).peer;
        let caller = self.clients.locate(peer, request.headers());
        let entry = denied_address(&self.policy, table, &caller)?;
        let mut decided = Decided::of(caller, &self.policy);
        decided.access = Some(Box::new(AccessVerdict::Denied(entry)));
        Some(decided)
    }

    fn limited<B>(&self, table: Option<&Table>, request: &Request<B>) -> Option<Box<Decided>> {
        let headers = request.headers();
        if self.early.is_empty()
            // A request may be from a client that is exempt by name, so it cannot be refused before its client is named.
            || table.is_some_and(Table::exempts_names)
            || !self.clients.tokens().any(|it| it.token(headers).is_some())
        {
            return None;
        }
        let peer = RequestContext::of(request).peer;
        let caller = self.clients.locate(peer, headers);
        let origin = caller.origin?;
        if table.is_some_and(|table| table.exempts_address(origin)) {
            return None;
        }
        let trusted = self.clients.trusts(peer);
        let mut charged = PerCharge::new();
        let mut charges = PerCharge::<Charge<'_>>::new();
        for &index in &self.early {
            let rule = self.policy.rules.get(index)?;
            let access = self.policy.access.as_ref();
            if access.is_some_and(|access| access.exempts_address(origin, index)) {
                continue;
            }
            // An override may change this limit's numbers for the caller.
            if table.is_some_and(|table| table.sets(rule.limit.name())) {
                continue;
            }
            let cost = rule.cost.of(headers, trusted);
            if cost > rule.limit.quota().capacity() {
                return None;
            }
            charged.push(index);
            charges.push(Charge {
                limit: &rule.limit,
                key: self.hasher.key(rule, &self.policy, &caller, request),
                cost,
                origin: None,
            });
        }
        if charges.is_empty() {
            return None;
        }
        let decision = self.store.known_refusal(&charges)?;
        debug_assert_eq!(decision.outcome, Outcome::Refused);
        let mut decided = Decided::of(caller, &self.policy);
        decided.charged = charged;
        decided.decide(decision);
        Some(decided)
    }
}

//! Refusals by address that come before a token is verified.
//!
//! To verify a signature costs as much as to forward a request (an RSA key: 36 us), and anybody can send one. Where a limit
//! per address refuses the request whatever the token says, the refusal comes first.
//!
//! Only limits whose refusal depends on nothing that a client source says count here. They are counted per address, and perhaps per
//! something of the request itself. No plan changes them, and what they refuse is answered at once. A look charges nothing, so a
//! request that goes on is charged once.

use std::sync::Arc;

use arc_swap::Guard;
use http::Request;
use tidegate_store::{Charge, Key, Limit, Mode, Outcome, PerCharge, Store};

use crate::overrides::Table;
use crate::{Action, Decided, Hasher, Per, Policy, RequestContext, Rule};
use tidegate_identity::AccessVerdict;
use tidegate_identity::{ClientSource, Clients};

/// The rules of a policy that may refuse a request before its token is verified, as indices.
pub(crate) fn early_rules(policy: &Policy, clients: &Clients, store: &Store) -> Box<[usize]> {
    let mut sources = clients.sources.iter();
    if !sources.any(|source| matches!(source, ClientSource::Token(_))) {
        return Box::default();
    }
    let rules = policy.rules.iter().enumerate();
    let access = policy.access.as_ref();
    // Who is exempt by name may be refused only when the name is known.
    let needs_name = |index| access.is_some_and(|access| access.exempts_names(index));
    let early = rules.filter(|(index, rule)| is_early(rule, store) && !needs_name(*index));
    early.map(|(index, _)| index).collect()
}

fn is_early(rule: &Rule, store: &Store) -> bool {
    let of_address = |per: &Per| matches!(per, Per::Ip | Per::Network(_));
    let of_caller = |per: &Per| {
        matches!(
            per,
            Per::Client | Per::ApiKey | Per::UserId | Per::ClientCert | Per::Claim(_)
        )
    };
    let is_by_address = rule.per.iter().any(of_address) && !rule.per.iter().any(of_caller);
    let is_same = |of_plan: &Option<Arc<Limit>>| {
        let limit = of_plan.as_ref();
        limit.is_some_and(|limit| Arc::ptr_eq(limit, &rule.limit))
    };
    // What Redis does not decide is not remembered of it.
    let is_known = matches!(store, Store::Memory(_)) || rule.limit.mode() == Mode::Exact;
    is_by_address
        && is_known
        && rule.limit.is_refusal_final()
        && !matches!(rule.action, Action::Delay { .. })
        && rule.plans.iter().all(is_same)
}

/// What is asked of a request before its caller is named.
pub(crate) struct Early<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) rules: &'a [usize],
    pub(crate) clients: &'a Clients,
    pub(crate) hasher: &'a Hasher,
    pub(crate) store: &'a Store,
    pub(crate) overrides: Option<Guard<Arc<Table>>>,
}

impl Early<'_> {
    /// The refusal of a request whose credentials need not be verified: its address is denied, or it has a token and a limit refuses
    /// its address. None if nothing refuses it as yet.
    pub(crate) fn refusal<B>(&self, request: &Request<B>) -> Option<Decided> {
        self.denial(request).or_else(|| self.limited(request))
    }

    fn denial<B>(&self, request: &Request<B>) -> Option<Decided> {
        let access = self.policy.access.as_ref();
        if access.is_none() && self.overrides.is_none() {
            return None;
        }
        let peer = RequestContext::of(request).peer;
        let caller = self.clients.locate(peer, request.headers());
        let denied = access.and_then(|access| access.denies_address(caller.origin?));
        let blocked = || self.overrides.as_ref()?.blocks_address(caller.origin?);
        let entry = denied.or_else(blocked)?;
        let mut decided = Decided::of(caller, self.policy);
        decided.access = Some(Box::new(AccessVerdict::Denied(entry)));
        Some(decided)
    }

    fn limited<B>(&self, request: &Request<B>) -> Option<Decided> {
        if self.rules.is_empty() {
            return None;
        }
        // Who is exempt by name may be refused only when the name is known.
        let overrides = self.overrides.as_ref();
        if overrides.is_some_and(|overrides| overrides.exempts_names()) {
            return None;
        }
        let headers = request.headers();
        let mut sources = self.clients.sources.iter();
        let has_token = sources.any(|source| match source {
            ClientSource::Token(tokens) => tokens.token(headers).is_some(),
            _ => false,
        });
        if !has_token {
            return None;
        }
        let peer = RequestContext::of(request).peer;
        let caller = self.clients.locate(peer, headers);
        let origin = caller.origin?;
        if overrides.is_some_and(|overrides| overrides.exempts_address(origin)) {
            return None;
        }
        let trusted = self.clients.trusts(peer);
        let mut asked = PerCharge::<(usize, &Rule, Key, u64)>::new();
        for &index in self.rules {
            let rule = self.policy.rules.get(index)?;
            let access = self.policy.access.as_ref();
            if access.is_some_and(|access| access.exempts_address(origin, index)) {
                continue;
            }
            // The caller may have other numbers there.
            if overrides.is_some_and(|overrides| overrides.sets(rule.limit.name())) {
                continue;
            }
            let cost = rule.cost.of(headers, trusted);
            if cost > rule.limit.quota().capacity() {
                return None;
            }
            let hasher = self.hasher;
            let key = hasher.key(rule, self.policy, &caller, request);
            asked.push((index, rule, key, cost));
        }
        if asked.is_empty() {
            return None;
        }
        let charges = asked.iter().map(|(_, rule, key, cost)| Charge {
            limit: &rule.limit,
            key: *key,
            cost: *cost,
            origin: None,
        });
        let charges: PerCharge<Charge<'_>> = charges.collect();
        let decision = self.store.known_refusal(&charges)?;
        debug_assert_eq!(decision.outcome, Outcome::Refused);
        let mut decided = Decided::of(caller, self.policy);
        decided.charged = asked.iter().map(|(index, ..)| *index).collect();
        decided.decide(decision);
        Some(decided)
    }
}

//! Computes the charges of a request: its caller, and for each rule the limit, the key and the cost.

use std::sync::Arc;

use http::Request;
use tidegate_store::{Key, Limit, Origin, PerCharge};

use crate::charges::{RuleCharge, RuleCharges};
use crate::overrides::Table;
use crate::{Hasher, OverrideAction, Overrides, Oversized, Policy, RequestContext, Rule};
use tidegate_identity::{AccessVerdict, Caller, ClientPlan, Clients, ListEntry};

/// Names the caller of a request, and checks whether the caller is denied or exempt. Computes the key and the cost for each rule of
/// `policy`. Applies the overrides in force. Makes no charge.
pub fn assess<B>(
    policy: &Policy,
    clients: &Clients,
    hasher: &Hasher,
    overrides: &Overrides,
    request: &Request<B>,
) -> (Caller, Assessment) {
    let table = overrides.table.load();
    let table = table.as_deref().map(|table| &**table);
    let in_force = table.map(|table| (overrides, table));
    let (caller, mut assessment) = assess_admitted(policy, clients, hasher, in_force, request);
    assessment.deny_address(policy, table, &caller);
    (caller, assessment)
}

/// Works like [`assess`] for a request whose address is neither denied nor blocked. `overrides` are the overrides in force.
pub(crate) fn assess_admitted<B>(
    policy: &Policy,
    clients: &Clients,
    hasher: &Hasher,
    overrides: Option<(&Overrides, &Table)>,
    request: &Request<B>,
) -> (Caller, Assessment) {
    let context = RequestContext::of(request);
    let certificate = context.certificate.as_deref();
    let caller = clients.identify_shown(context.peer, request.headers(), certificate);
    let trusted = clients.trusts(context.peer);
    assess_caller(policy, hasher, overrides, (caller, trusted), request)
}

/// Works like [`assess`], without overrides, for a caller whose name comes from another source, such as a log. `trusted` is true if a
/// trusted proxy sent the request.
pub fn assess_known<B>(
    policy: &Policy,
    hasher: &Hasher,
    (caller, trusted): (Caller, bool),
    request: &Request<B>,
) -> (Caller, Assessment) {
    let (caller, mut assessment) = assess_caller(policy, hasher, None, (caller, trusted), request);
    assessment.deny_address(policy, None, &caller);
    (caller, assessment)
}

/// Returns the entry that denies or blocks all clients at the caller's address.
pub(crate) fn denied_address(
    policy: &Policy,
    table: Option<&Table>,
    caller: &Caller,
) -> Option<ListEntry> {
    let address = caller.origin?;
    let access = policy.access.as_ref();
    let denied = access.and_then(|access| access.denies_address(address));
    denied.or_else(|| table?.blocks_address(address))
}

/// Decides whether this caller's request is denied or exempt, and computes its key and cost for each rule.
fn assess_caller<B>(
    policy: &Policy,
    hasher: &Hasher,
    overrides: Option<(&Overrides, &Table)>,
    (mut caller, trusted): (Caller, bool),
    request: &Request<B>,
) -> (Caller, Assessment) {
    let is_preflight = || RequestContext::of(request).is_preflight;
    let access = admit(policy, overrides, &mut caller, is_preflight);
    // `push` is cheaper than `collect`.
    let reserves = RequestContext::of(request).reserves.as_ref();
    let mut charges = PerCharge::<Assessed>::new();
    for (index, rule) in policy.rules.iter().enumerate() {
        let front = charges.last().map(|front| &front.key);
        charges.push(Assessed {
            key: hasher.key_behind(front, rule, policy, &caller, request),
            cost: match reserves.and_then(|reserves| reserves.units(index)) {
                Some(units) => units,
                None => rule.cost.of(request.headers(), trusted),
            },
            origin: Hasher::origin(rule, &caller),
        });
    }
    (caller, Assessment { charges, access })
}

/// Decides whether this caller is denied or exempt, by the lists of the policy and by the overrides in force. Gives the caller the plan of
/// an override.
#[inline]
pub(crate) fn admit(
    policy: &Policy,
    overrides: Option<(&Overrides, &Table)>,
    caller: &mut Caller,
    is_preflight: impl Fn() -> bool,
) -> Option<Box<AccessVerdict>> {
    // A block applies to every name that the caller has shown, even to names that do not satisfy `require`.
    let blocked = overrides.and_then(|(_, table)| table.blocks_name(caller));
    let access = policy.access.as_ref();
    let mut access = access.and_then(|access| access.judge(caller, is_preflight));
    let is_denied = access.as_ref().is_some_and(|it| it.denied_by().is_some());
    if let Some((overrides, table)) = overrides
        && !is_denied
    {
        match blocked {
            Some(entry) => access = Some(Box::new(AccessVerdict::Denied(entry))),
            None => grant(overrides, table, caller, &mut access),
        }
    }
    access
}

/// Applies the exemption, the plan or the numbers that an override gives the caller.
fn grant(
    overrides: &Overrides,
    table: &Table,
    caller: &mut Caller,
    access: &mut Option<Box<AccessVerdict>>,
) {
    match table.grant(caller) {
        Some((OverrideAction::Exempt, entry)) => {
            let rules = u64::MAX;
            *access = Some(Box::new(AccessVerdict::Exempt { rules, entry }));
        }
        Some((action, _)) if caller.refused.is_none() => {
            // If the configuration no longer has the plan or the limits that the override names, the caller keeps its plan.
            if let Some(plan) = overrides.plan(action, caller.plan.as_ref()) {
                caller.plan = Some(plan);
            }
        }
        Some(_) | None => {}
    }
}

/// The key and the cost of a request for each rule of a policy, in order.
#[derive(Debug)]
pub struct Assessment {
    charges: PerCharge<Assessed>,
    pub(crate) access: Option<Box<AccessVerdict>>,
}

/// The key and the cost of a request for one rule.
#[derive(Clone, Copy, Debug)]
struct Assessed {
    key: Key,
    cost: u64,
    origin: Option<Origin>,
}

/// A rule of a policy, with the key and the cost of a request.
#[derive(Clone, Copy, Debug)]
pub struct AssessedRule<'a> {
    /// The rule's index in the policy.
    pub index: usize,
    /// The rule.
    pub rule: &'a Rule,
    /// The rule's limit with the quota of the client's plan. `None` if the client is exempt from the limit, or unlimited by its plan.
    pub limit: Option<&'a Arc<Limit>>,
    /// Whether the client is exempt from the limit.
    pub is_exempt: bool,
    /// The key that is charged.
    pub key: Key,
    /// The cost of the request.
    pub cost: u64,
    /// The caller's address, if the key has an unverified part that the sender of the request chose.
    pub origin: Option<Origin>,
}

impl Assessment {
    /// Denies the request if its address is denied or blocked.
    fn deny_address(&mut self, policy: &Policy, table: Option<&Table>, caller: &Caller) {
        if let Some(entry) = denied_address(policy, table, caller) {
            self.access = Some(Box::new(AccessVerdict::Denied(entry)));
        }
    }

    /// Returns the entry that denies the request, if there is one. A denied request is not charged.
    pub fn denied_by(&self) -> Option<&ListEntry> {
        self.access.as_ref()?.denied_by()
    }

    /// Returns the rules of `policy` that apply to the request of a client with this `plan`. Only the first [`Policy::always`] rules apply
    /// to a request with refused credentials. These rules limit how often a client can guess credentials.
    pub fn rules<'a>(
        self,
        policy: &'a Policy,
        is_refused: bool,
        plan: Option<&'a ClientPlan>,
    ) -> impl Iterator<Item = AssessedRule<'a>> {
        let rules = match is_refused {
            true => &policy.rules[..policy.always],
            false => &policy.rules,
        };
        let assessed = rules.iter().zip(self.charges).enumerate();
        let access = self.access;
        assessed.map(move |(index, (rule, assessed))| {
            let is_exempt = access.as_ref().is_some_and(|access| access.exempts(index));
            AssessedRule {
                index,
                rule,
                limit: rule.limit_for(plan).filter(|_| !is_exempt),
                is_exempt,
                key: assessed.key,
                cost: assessed.cost,
                origin: assessed.origin,
            }
        })
    }

    /// Returns the charges of a request of a client with this `plan`, for its [`rules`](Self::rules). Leaves out limits from which the
    /// client is exempt, and limits at which its plan is unlimited.
    ///
    /// # Errors
    ///
    /// The request costs more than a limit can ever admit. Such a request is not charged. Limits that only observe cause no error.
    pub fn charges<'a>(
        self,
        policy: &'a Policy,
        is_refused: bool,
        plan: Option<&'a ClientPlan>,
    ) -> Result<RuleCharges<'a>, Oversized> {
        let mut charges = RuleCharges::new();
        for assessed in self.rules(policy, is_refused, plan) {
            let (index, cost) = (assessed.index, assessed.cost);
            let Some(limit) = assessed.limit else {
                continue;
            };
            if assessed.rule.front.is_some() && !is_share_of(index, charges.last()) {
                continue;
            }
            if cost > limit.quota().capacity() {
                if limit.is_observed() {
                    continue;
                }
                return Err(Oversized { index, cost });
            }
            charges.push(RuleCharge {
                index,
                rule: assessed.rule,
                limit,
                key: assessed.key,
                cost,
                origin: assessed.origin,
            });
        }
        Ok(charges)
    }
}

/// Whether the share with this index is a share of the budget that was charged last. It is not if the client is exempt from the shared limit,
/// or has a budget of its own there.
fn is_share_of(index: usize, front: Option<&RuleCharge<'_>>) -> bool {
    front.is_some_and(|front| front.index + 1 == index && front.limit.id() == front.rule.limit.id())
}

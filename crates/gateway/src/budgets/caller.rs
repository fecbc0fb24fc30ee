//! Shows a client its own budgets. The client asks for them by a request to a route with `serve: budgets`.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Request;
use serde::Serialize;
use tidegate_identity::{Caller, ClientPlan};
use tidegate_store::{Charge, Outlook, StoreError};
use tidegate_tower::{OverrideAction, Per, Policy, RequestContext, Rule};
use tokio::time::timeout;

use super::{Budgets, seconds};

/// The most budgets of one answer. Limits per client and route can have more.
const MOST: usize = 64;
/// The longest time for which the store is read.
const LONGEST: Duration = Duration::from_secs(2);

/// The budgets of a client.
#[derive(Debug, Serialize)]
pub(crate) struct CallerBudgets {
    client: String,
    plan: Option<String>,
    budgets: Vec<CallerBudget>,
    /// The limits that do not charge the client.
    unlimited: Vec<String>,
}

/// One budget of a client. Numbers are units, times are seconds.
#[derive(Debug, Serialize)]
struct CallerBudget {
    name: String,
    /// The route that the budget is for, if each route has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<String>,
    limit: u64,
    used: u64,
    /// The units that running requests hold.
    held: u64,
    remaining: u64,
    /// The time at which the used units are free again, in seconds since 1970. `None` for `concurrency`.
    reset: Option<u64>,
    /// The time until a request that costs 1 is admitted; 0 if it is admitted now.
    retry_after: u64,
    /// Whether other gateways do not count into this budget.
    this_gateway_only: bool,
}

/// A rule whose budget belongs to the caller, with the policy of its route.
struct Own<'a> {
    policy: &'a Policy,
    index: usize,
    rule: &'a Rule,
}

/// The budgets that charge a caller, and the names of the limits that do not.
struct Charged<'a> {
    own: Vec<(Own<'a>, Charge<'a>)>,
    unlimited: BTreeSet<&'a str>,
}

/// The state of a budget.
struct State {
    capacity: u64,
    outlook: Outlook,
    held: u64,
}

impl Budgets {
    /// Returns the budgets of the client that sends this request. Charges no unit. If the store does not answer, returns the numbers in this
    /// gateway's memory.
    pub(crate) async fn of_caller<B>(&self, request: &Request<B>) -> CallerBudgets {
        let context = RequestContext::of(request);
        let certificate = context.certificate.as_deref();
        let clients = &self.clients;
        let mut caller = clients.identify_shown(context.peer, request.headers(), certificate);
        let overridden = self.overrides.apply(&mut caller);
        let is_exempt = matches!(overridden, Some((_, OverrideAction::Exempt)));
        let charged = self.charged(&caller, is_exempt, request);
        let charges: Vec<_> = charged.own.iter().map(|(_, charge)| *charge).collect();
        let states = self.states(&charges).await;
        let budgets = charged
            .own
            .iter()
            .zip(states)
            .map(|((own, charge), state)| {
                let State {
                    capacity,
                    outlook: Outlook { now, verdict, here },
                    held,
                } = state;
                let limit = charge.limit;
                CallerBudget {
                    name: limit.name().to_owned(),
                    route: own.splits().then(|| own.policy.route.to_string()),
                    limit: capacity,
                    used: capacity.saturating_sub(verdict.remaining.saturating_add(held)),
                    held,
                    remaining: verdict.remaining,
                    reset: limit
                        .quota()
                        .has_reset()
                        .then(|| seconds(now + verdict.reset)),
                    retry_after: seconds(verdict.retry_after),
                    this_gateway_only: here,
                }
            });
        let budgets = budgets.collect();
        let plan = caller.plan.as_ref().map(ClientPlan::name);
        CallerBudgets {
            client: caller.client.to_string(),
            plan: plan.filter(|name| !name.is_empty()).map(str::to_owned),
            budgets,
            unlimited: charged.unlimited.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Returns the budgets of this caller, each once. A limit is `unlimited` only if no route charges the caller.
    fn charged<'a, B>(
        &'a self,
        caller: &'a Caller,
        is_exempt: bool,
        request: &Request<B>,
    ) -> Charged<'a> {
        let (mut own, mut unlimited) = (Vec::<(Own<'_>, Charge<'_>)>::new(), BTreeSet::new());
        for rule in self.policies.iter().flat_map(own_rules) {
            if own.iter().any(|(other, _)| other.is_same(&rule)) {
                continue;
            }
            let access = rule.policy.access.as_ref();
            let entry = access.and_then(|access| access.exempts(caller, rule.index));
            let is_charged = !is_exempt && entry.is_none();
            let limit = rule.rule.limit_for(caller.plan.as_ref());
            let Some(limit) = limit.filter(|_| is_charged) else {
                unlimited.insert(rule.rule.limit.name());
                continue;
            };
            let charge = Charge {
                limit,
                key: self.hasher.key(rule.rule, rule.policy, caller, request),
                cost: 1,
                origin: None,
            };
            own.push((rule, charge));
            if own.len() == MOST {
                break;
            }
        }
        unlimited.retain(|name| own.iter().all(|(it, _)| it.rule.limit.name() != *name));
        // One call to Redis reads budgets next to each other whose keys are in one slot.
        let tags: Vec<_> = own.iter().map(|(_, charge)| charge.key.tag).collect();
        own.sort_by_key(|(_, charge)| tags.iter().position(|tag| *tag == charge.key.tag));
        Charged { own, unlimited }
    }

    /// Returns the states of these budgets from the store. If the store does not answer in time, returns the states in this process.
    async fn states(&self, charges: &[Charge<'_>]) -> Vec<State> {
        let reading = async {
            let outlooks = self.store.peek(charges).await?;
            let mut states = Vec::new();
            for (charge, mut outlook) in charges.iter().zip(outlooks) {
                let counted = self.store.peek_counted(charge);
                outlook.verdict = counted.unwrap_or(outlook.verdict);
                let held = match charge.limit.lease() {
                    Some(_) => self.store.counts(charge).await?.held,
                    None => 0,
                };
                states.push(State {
                    capacity: charge.limit.quota().capacity(),
                    outlook,
                    held,
                });
            }
            Ok::<_, StoreError>(states)
        };
        if let Ok(Ok(states)) = timeout(LONGEST, reading).await {
            return states;
        }
        let views = self.store.peek_here(charges).into_iter();
        let states = views.map(|view| State {
            capacity: view.capacity,
            outlook: view.outlook,
            held: 0,
        });
        states.collect()
    }
}

/// Returns the rules of a policy whose budgets are the caller's own. The other limits are shared by clients, or depend on the content of a
/// request. Limits that only observe refuse no request, so they are left out.
fn own_rules(policy: &Policy) -> impl Iterator<Item = Own<'_>> {
    let rules = policy.rules.iter().enumerate().filter(|(_, rule)| {
        let is_known = |per: &Per| {
            *per == Per::Route || per.is_callers() && !matches!(per, Per::Descriptor(_))
        };
        let is_own = rule.is_callers() && rule.per.iter().all(is_known);
        is_own && rule.front.is_none() && !rule.limit.is_observed()
    });
    rules.map(move |(index, rule)| Own {
        policy,
        index,
        rule,
    })
}

impl Own<'_> {
    /// Whether each route has a budget of its own.
    fn splits(&self) -> bool {
        self.rule.per.contains(&Per::Route)
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_same_route = !self.splits() || self.policy.route == other.policy.route;
        self.rule.limit.name() == other.rule.limit.name() && is_same_route
    }
}

//! The budgets of the client that sends a request, for the client itself.

use http::Request;
use serde::Serialize;
use tidegate_identity::ClientPlan;
use tidegate_store::Charge;
use tidegate_tower::{OverrideAction, Per, Policy, RequestContext, Rule};

use super::{Budgets, seconds};

/// The most budgets of one answer. Limits per client and route can have more.
const MOST: usize = 64;

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
    /// The time at which the whole limit is left, in seconds since 1970.
    reset: u64,
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
        let plan = caller.plan.as_ref();
        let (mut owned, mut charges, mut unlimited) = (Vec::new(), Vec::new(), Vec::new());
        for own in self.own_rules() {
            let access = own.policy.access.as_ref();
            let entry = access.and_then(|access| access.exempts(&caller, own.index));
            let is_charged = !is_exempt && entry.is_none();
            let limit = own.rule.limit_for(plan).filter(|_| is_charged);
            let Some(limit) = limit else {
                unlimited.push(own.rule.limit.name().to_owned());
                continue;
            };
            charges.push(Charge {
                limit,
                key: self.hasher.key(own.rule, own.policy, &caller, request),
                cost: 1,
                origin: None,
            });
            owned.push(own);
        }
        unlimited.dedup();
        let outlooks = match self.store.peek(&charges).await {
            Ok(outlooks) => outlooks,
            Err(_) => {
                let views = self.store.peek_here(&charges);
                views.into_iter().map(|view| view.outlook).collect()
            }
        };
        let mut budgets = Vec::new();
        for ((own, charge), outlook) in owned.iter().zip(&charges).zip(outlooks) {
            let counted = self.store.peek_counted(charge);
            let verdict = counted.unwrap_or(outlook.verdict);
            let held = match charge.limit.lease() {
                Some(_) => self
                    .store
                    .counts(charge)
                    .await
                    .map_or(0, |counts| counts.held),
                None => 0,
            };
            let limit = charge.limit.quota().capacity();
            budgets.push(CallerBudget {
                name: charge.limit.name().to_owned(),
                route: own.splits().then(|| own.policy.route.to_string()),
                limit,
                used: limit.saturating_sub(verdict.remaining).saturating_sub(held),
                held,
                remaining: verdict.remaining,
                reset: seconds(outlook.now + verdict.reset),
                retry_after: seconds(verdict.retry_after),
                this_gateway_only: outlook.here,
            });
        }
        let plan = plan.map(ClientPlan::name);
        CallerBudgets {
            client: caller.client.to_string(),
            plan: plan.filter(|name| !name.is_empty()).map(str::to_owned),
            budgets,
            unlimited,
        }
    }

    /// Returns the rules whose budgets are the caller's own, each budget once. The other limits are shared by clients, or depend on the
    /// content of a request. Limits that only observe refuse no request, so they are left out.
    fn own_rules(&self) -> Vec<Own<'_>> {
        let mut all: Vec<Own<'_>> = Vec::new();
        for policy in &self.policies {
            let rules = policy.rules.iter().enumerate().filter(|(_, rule)| {
                let is_known = |per: &Per| {
                    *per == Per::Route || per.is_callers() && !matches!(per, Per::Descriptor(_))
                };
                let is_own = rule.is_callers() && rule.per.iter().all(is_known);
                is_own && rule.front.is_none() && !rule.limit.is_observed()
            });
            for (index, rule) in rules {
                let own = Own {
                    policy,
                    index,
                    rule,
                };
                let is_new = !all.iter().any(|other| other.is_same(&own));
                if is_new && all.len() < MOST {
                    all.push(own);
                }
            }
        }
        all
    }
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

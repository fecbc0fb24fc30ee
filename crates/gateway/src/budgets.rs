//! The budgets of one client, for operators. Shows the remaining units of each limit, and resets the budgets.
//!
//! A report is made without a request. So a limit whose budget depends on the content of a request is listed without a budget.

mod caller;
pub(crate) mod limit;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::Request;
use tidegate_identity::{Caller, Client, ClientPlan, ClientSource, Clients, UnknownClient};
use tidegate_overrides::LimitNumbers;
use tidegate_status::client::{
    Decides, KeyUse, KnownHere, LastSaid, Overridden, Report, Standing, Unlisted,
};
use tidegate_store::{Charge, Key, Limit, LocalView, Mode, OnFailure, Outlook, Store, StoreError};
use tidegate_tower::{BudgetOwner, Hasher, OverrideAction, Overrides, Per, Policy, Rule};

/// The limits that a gateway charges, and their store.
#[derive(Debug)]
pub(crate) struct Budgets {
    /// The policy of each route, and the policy of requests without a route.
    pub(crate) policies: Vec<Policy>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) hasher: Hasher,
    pub(crate) store: Store,
    pub(crate) overrides: Overrides,
    /// The numbers that limits have by overrides.
    pub(crate) numbers: LimitNumbers,
}

/// The reason why the budgets of a client cannot be shown or reset.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoReport {
    #[error(transparent)]
    Client(#[from] UnknownClient),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The budgets of a client, and their keys.
struct Found<'a> {
    /// The report, without the numbers from the store.
    report: Report,
    own: Vec<Own<'a>>,
    /// The budgets that a reset clears: all budgets of the same keys, under every plan and override.
    all: Vec<(Arc<Limit>, Key)>,
}

struct Own<'a> {
    rule: &'a Rule,
    limit: Arc<Limit>,
    route: Option<&'a str>,
    key: Key,
}

impl Budgets {
    /// Returns all variants of the limits that charge requests: with a limit's own numbers, with the numbers of each plan, and for
    /// overrides.
    pub(crate) fn limits(&self) -> Vec<Arc<Limit>> {
        let rules = self.policies.iter().flat_map(|policy| policy.rules.iter());
        rules.flat_map(Rule::budgets).collect()
    }

    /// Returns the current budgets of the client called `name`. Charges no unit.
    pub(crate) async fn show(&self, name: &str) -> Result<Report, NoReport> {
        let budgets = self.find(name)?;
        Ok(self.report(budgets).await)
    }

    /// Resets the budgets of the client called `name` under all plans. Returns the budgets of the client's current plan.
    pub(crate) async fn reset(&self, name: &str) -> Result<Report, NoReport> {
        let budgets = self.find(name)?;
        let all = budgets.all.iter().map(|(limit, key)| Charge {
            limit,
            key: *key,
            cost: 1,
            origin: None,
        });
        self.store.reset(&all.collect::<Vec<_>>()).await?;
        Ok(self.report(budgets).await)
    }

    /// Returns the used share, from 0 to 1, of each limit whose budget all clients share. If a limit has several shared budgets, for routes
    /// or plans, returns the largest share.
    pub(crate) async fn shared_use(&self) -> Result<HashMap<String, f64>, StoreError> {
        let Ok(nobody) = Caller::named(&self.clients, "ip:0.0.0.0") else {
            return Ok(HashMap::new());
        };
        let (mut seen, mut charges) = (HashSet::new(), Vec::new());
        for policy in &self.policies {
            let rules = policy.rules.iter();
            let rules = rules.filter(|it| it.front.is_none());
            for rule in rules.filter(|it| it.budget_of(&nobody.client) == BudgetOwner::Shared) {
                let route = rule.per.contains(&Per::Route).then_some(&*policy.route);
                if !seen.insert((rule.limit.name(), route)) {
                    continue;
                }
                let key = self.key(rule, policy, &nobody);
                // Budgets under an override are left out, because a read needs the override's own numbers. A read with other numbers would
                // change the time to live of such a budget.
                charges.extend(rule.configured().map(|limit| Charge {
                    limit,
                    key,
                    cost: 1,
                    origin: None,
                }));
            }
        }
        let outlooks = self.store.peek(&charges).await?;
        let mut used = HashMap::new();
        for (charge, outlook) in charges.iter().zip(outlooks) {
            let all = charge.limit.quota().capacity();
            let share = all.saturating_sub(outlook.verdict.remaining) as f64 / all as f64;
            let most = used.entry(charge.limit.name().to_owned()).or_insert(share);
            *most = share.max(*most);
        }
        Ok(used)
    }

    /// Returns the client's budgets from the store. If the store does not answer, returns the numbers in this gateway's memory.
    async fn report(&self, budgets: Found<'_>) -> Report {
        let charges = budgets.charges();
        let own = budgets.own.iter();
        let (limits, without_store) = match self.store.peek(&charges).await {
            Ok(outlooks) => {
                let standings = own.zip(&outlooks).map(|(own, it)| own.standing(it));
                (standings.collect(), None)
            }
            Err(error) => {
                let views = self.store.peek_here(&charges);
                let standings = own.zip(&views).map(|(own, view)| own.standing_here(view));
                (standings.collect(), Some(error.to_string()))
            }
        };
        Report {
            limits,
            without_store,
            ..budgets.report
        }
    }

    /// Returns the client's API keys, each with the time of its last use.
    fn keys(&self, client: &Client) -> Vec<KeyUse> {
        let uses = self.clients.key_uses(client).into_iter();
        uses.map(|key| {
            let [a, b, c, d, ..] = key.sha256;
            KeyUse {
                hash: format!("sha256:{a:02x}{b:02x}{c:02x}{d:02x}"),
                expires: key.expires.map(|end| end.as_secs()),
                last_used: key.last_used,
            }
        })
        .collect()
    }

    /// Finds every budget that a request of this client could charge. Each budget is listed once, in the order of the routes.
    fn find(&self, name: &str) -> Result<Found<'_>, UnknownClient> {
        let mut caller = Caller::named(&self.clients, name)?;
        let overridden = self.overrides.apply(&mut caller);
        // An override with the action `set` replaces only some numbers of the client's plan. So a plan that a token names stays in force.
        let keeps_plan = matches!(overridden, None | Some((_, OverrideAction::Set(_))));
        let plan = caller.plan.as_ref().map(ClientPlan::name);
        let mut report = Report {
            client: caller.client.to_string(),
            plan_by_token: keeps_plan && self.plan_by_token(&caller.client),
            plan: plan.filter(|name| !name.is_empty()).map(str::to_owned),
            overridden: overridden.map(|(name, action)| Overridden {
                by: name.to_string(),
                does: action.to_string(),
            }),
            without_store: None,
            limits: Vec::new(),
            unlimited: Vec::new(),
            unlisted: Vec::new(),
            shared: Vec::new(),
            per_plan: Vec::new(),
            keys: self.keys(&caller.client),
        };
        let (mut own, mut all) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        for policy in &self.policies {
            for rule in policy.rules.iter() {
                let budget = rule.budget_of(&caller.client);
                let splits = budget == BudgetOwner::Own && rule.per.contains(&Per::Route);
                let route = splits.then_some(&*policy.route);
                if !seen.insert((rule.limit.name(), route)) {
                    continue;
                }
                // Only the client's own budgets get a key. A reset must not clear budgets of all clients, and the keys of other budgets
                // depend on a request.
                let key = (budget == BudgetOwner::Own).then(|| self.key(rule, policy, &caller));
                if let Some(key) = key {
                    all.extend(rule.budgets().map(|limit| (limit, key)));
                }
                // A share has no meaning without the state of its shared limit. So it can be reset, and is not shown.
                if rule.front.is_some() {
                    continue;
                }
                let name = rule.limit.name().to_owned();
                if rule.is_per_plan() && !report.per_plan.contains(&name) {
                    report.per_plan.push(name.clone());
                }
                let Some(limit) = rule.limit_for(caller.plan.as_ref()) else {
                    if !report.unlimited.contains(&name) {
                        report.unlimited.push(name);
                    }
                    continue;
                };
                match (budget, key) {
                    (BudgetOwner::Own, Some(key)) => own.push(Own {
                        rule,
                        limit: limit.clone(),
                        route,
                        key,
                    }),
                    (BudgetOwner::Shared, _) => report.shared.push(name),
                    (BudgetOwner::OfRequest, _) | (BudgetOwner::Own, None) => {
                        report.unlisted.push(Unlisted {
                            name,
                            per: words(&rule.per),
                        })
                    }
                }
            }
        }
        Ok(Found { report, own, all })
    }

    /// Whether the client's plan may depend on its token, which this report does not have.
    fn plan_by_token(&self, client: &Client) -> bool {
        let tells =
            |source: &ClientSource| matches!(source, ClientSource::Token(it) if it.tell_plans());
        matches!(client, Client::UserId(_)) && self.clients.sources.iter().any(tells)
    }

    /// Returns the key of a budget that does not depend on a request's content.
    fn key(&self, rule: &Rule, policy: &Policy, caller: &Caller) -> Key {
        self.key_of(rule, policy, caller, &Request::new(()))
    }

    /// Returns the key of the budget that a request of this caller charges.
    fn key_of(&self, rule: &Rule, policy: &Policy, caller: &Caller, request: &Request<()>) -> Key {
        let alone = Policy {
            route: policy.route.clone(),
            rules: [rule.clone()].into(),
            always: 0,
            access: None,
            answers: policy.answers.clone(),
        };
        self.hasher.keys(&alone, caller, request)[0]
    }
}

impl Found<'_> {
    fn charges(&self) -> Vec<Charge<'_>> {
        let own = self.own.iter();
        own.map(|own| Charge {
            limit: &own.limit,
            key: own.key,
            // A budget is `allowed` in the report if it has the units for one request: the fixed or reserved cost, or 1 if a header names
            // the cost.
            cost: own
                .rule
                .cost
                .at_first()
                .map_or(1, |cost| cost.min(own.limit.quota().capacity())),
            origin: None,
        })
        .collect()
    }
}

impl Own<'_> {
    fn standing(&self, outlook: &Outlook) -> Standing {
        let (limit, verdict) = (&self.limit, &outlook.verdict);
        Standing {
            name: limit.name().to_owned(),
            route: self.route.map(str::to_owned),
            algorithm: limit.quota().algorithm().to_owned(),
            per: words(&self.rule.per),
            limit: limit.quota().capacity(),
            remaining: verdict.remaining,
            reset: seconds(outlook.now + verdict.reset),
            allowed: verdict.allowed,
            observed: limit.is_observed(),
            this_gateway_only: outlook.here,
            retry_after: seconds(verdict.retry_after),
            known_here: None,
        }
    }

    /// Describes the budget with the numbers in this gateway's memory, for a report while the store does not answer.
    fn standing_here(&self, view: &LocalView) -> Standing {
        let decides = match (self.limit.mode(), self.limit.on_failure()) {
            (Mode::Local, _) => Decides::Gateway,
            (_, OnFailure::Local) => Decides::Share,
            (_, OnFailure::Open) => Decides::Open,
            (_, OnFailure::Closed) => Decides::Closed,
        };
        let has_slice = view.leased.is_some_and(|left| left > 0);
        let last = view.last.map(|last| LastSaid {
            seconds_ago: last.age.as_secs(),
            remaining: last.remaining,
            refused_for: seconds(last.retry_after),
        });
        let standing = self.standing(&view.outlook);
        let allowed = match decides {
            Decides::Gateway | Decides::Share => standing.allowed || has_slice,
            Decides::Open => true,
            Decides::Closed => has_slice,
        };
        Standing {
            limit: view.capacity,
            allowed,
            retry_after: match allowed {
                true => 0,
                false => standing.retry_after.max(1),
            },
            this_gateway_only: decides == Decides::Gateway,
            known_here: Some(KnownHere {
                decides,
                leased: view.leased,
                last,
            }),
            ..standing
        }
    }
}

/// Returns whole seconds, rounded up.
const fn seconds(micros: u64) -> u64 {
    micros.div_ceil(1_000_000)
}

fn words(per: &[Per]) -> Vec<String> {
    per.iter().map(Per::to_string).collect()
}

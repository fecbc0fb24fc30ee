//! One client's budgets, as operators ask for them: what is left of each limit, and begin anew.
//!
//! It goes through what requests are charged to, but knows no request: budgets that only a request could tell apart are named, not
//! listed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::Request;
use serde::{Deserialize, Serialize};
use tidegate_store::{Charge, Key, Limit, Outlook, Store, StoreError};
use tidegate_tower::{
    Budget, Caller, Client, ClientPlan, ClientSource, Clients, Hasher, Per, Policy, Rule,
    UnknownClient,
};

/// What a gateway charges requests to, and where.
#[derive(Debug)]
pub(crate) struct Budgets {
    /// Of every route, and of requests that no route takes.
    pub(crate) policies: Vec<Policy>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) hasher: Hasher,
    pub(crate) store: Store,
}

/// What is known of a client: the answer of the admin port, and what `tidegate client` reads.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Report {
    /// Who it is, as limits know them.
    pub(crate) client: String,
    /// The client's plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<String>,
    /// Whether only a token tells the client's plan, so that the limits' own numbers stand here.
    #[serde(default)]
    pub(crate) plan_by_token: bool,
    /// The client's own budgets.
    pub(crate) limits: Vec<Standing>,
    /// Limits that the client's plan takes away.
    #[serde(default)]
    pub(crate) unlimited: Vec<String>,
    /// Limits of which the client may have many budgets, one for each value that requests bring along.
    pub(crate) unlisted: Vec<Unlisted>,
    /// Limits that the client shares with others.
    pub(crate) shared: Vec<String>,
}

/// How a client stands with one limit.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Standing {
    pub(crate) name: String,
    /// The route, for a limit that is counted per route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) route: Option<String>,
    pub(crate) algorithm: String,
    pub(crate) per: Vec<String>,
    /// The capacity, queue or limit.
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    /// When all of it will be back, in epoch seconds, rounded up. For places that requests hold, it is when the last one lapses
    /// that is not renewed.
    pub(crate) reset: u64,
    /// Whether a request that costs 1 would be allowed.
    pub(crate) allowed: bool,
    /// Whether the limit only observes, and refuses nobody.
    #[serde(default)]
    pub(crate) observed: bool,
    /// Whether only this gateway's own requests are counted here (`mode: local`, `store: memory`).
    #[serde(default)]
    pub(crate) this_gateway_only: bool,
    /// In how many seconds it will be, rounded up; 0: at once.
    pub(crate) retry_after: u64,
}

/// A limit that cannot be listed.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Unlisted {
    pub(crate) name: String,
    pub(crate) per: Vec<String>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoReport {
    #[error(transparent)]
    Client(#[from] UnknownClient),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whose budgets there are, and where they are kept.
struct Found<'a> {
    client: Client,
    plan: Option<ClientPlan>,
    own: Vec<Own<'a>>,
    unlimited: Vec<String>,
    unlisted: Vec<Unlisted>,
    shared: Vec<String>,
}

struct Own<'a> {
    rule: &'a Rule,
    limit: &'a Limit,
    route: Option<&'a str>,
    key: Key,
}

impl Budgets {
    /// How the client called `name` stands now; charges nothing.
    pub(crate) async fn show(&self, name: &str) -> Result<Report, NoReport> {
        let found = self.find(name)?;
        self.report(found).await
    }

    /// Lets all listed budgets of the client called `name` begin anew, and shows them.
    pub(crate) async fn reset(&self, name: &str) -> Result<Report, NoReport> {
        let found = self.find(name)?;
        self.store.reset(&found.charges()).await?;
        self.report(found).await
    }

    /// How much of each limit is used that all clients share, from 0 to 1. For a limit per route, it is the use on the route where
    /// it is most.
    pub(crate) async fn shared_use(&self) -> Result<HashMap<String, f64>, StoreError> {
        let Ok(nobody) = Caller::named(&self.clients, "ip:0.0.0.0") else {
            return Ok(HashMap::new());
        };
        let mut shared: HashMap<_, (&Rule, Key)> = HashMap::new();
        for policy in &self.policies {
            let rules = policy.rules.iter();
            for rule in rules.filter(|it| it.budget_of(&nobody.client) == Budget::Shared) {
                let route = rule.per.contains(&Per::Route).then_some(&*policy.route);
                let budget = shared.entry((rule.limit.name(), route));
                budget.or_insert_with(|| (rule, self.key(rule, policy, &nobody)));
            }
        }
        let charges: Vec<_> = shared
            .values()
            .map(|(rule, key)| Charge {
                limit: &rule.limit,
                key: *key,
                cost: 1,
            })
            .collect();
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

    async fn report(&self, found: Found<'_>) -> Result<Report, NoReport> {
        let outlooks = self.store.peek(&found.charges()).await?;
        let standings = found.own.iter().zip(&outlooks);
        Ok(Report {
            client: found.client.to_string(),
            plan: found.plan.map(|plan| plan.name().to_owned()),
            plan_by_token: self.plan_by_token(&found.client),
            limits: standings
                .map(|(own, outlook)| own.standing(outlook))
                .collect(),
            unlimited: found.unlimited,
            unlisted: found.unlisted,
            shared: found.shared,
        })
    }

    /// Every budget that requests of this client could be charged to, each once, in the order of the routes.
    fn find(&self, name: &str) -> Result<Found<'_>, UnknownClient> {
        let caller = Caller::named(&self.clients, name)?;
        let mut found = Found {
            client: caller.client.clone(),
            plan: caller.plan.clone(),
            own: Vec::new(),
            unlimited: Vec::new(),
            unlisted: Vec::new(),
            shared: Vec::new(),
        };
        let mut seen = HashSet::new();
        for policy in &self.policies {
            for rule in policy.rules.iter() {
                let budget = rule.budget_of(&caller.client);
                let splits = budget == Budget::Own && rule.per.contains(&Per::Route);
                let route = splits.then_some(&*policy.route);
                if !seen.insert((rule.limit.name(), route)) {
                    continue;
                }
                let name = rule.limit.name().to_owned();
                let Some(limit) = rule.limit_for(caller.plan.as_ref()) else {
                    if !found.unlimited.contains(&name) {
                        found.unlimited.push(name);
                    }
                    continue;
                };
                match budget {
                    Budget::Own => found.own.push(Own {
                        rule,
                        limit,
                        route,
                        key: self.key(rule, policy, &caller),
                    }),
                    Budget::OfRequest => found.unlisted.push(Unlisted {
                        name,
                        per: words(&rule.per),
                    }),
                    Budget::Shared => found.shared.push(name),
                }
            }
        }
        Ok(found)
    }

    /// Whether it takes a token to say which plan this client has.
    fn plan_by_token(&self, client: &Client) -> bool {
        let tells =
            |source: &ClientSource| matches!(source, ClientSource::Token(it) if it.tell_plans());
        matches!(client, Client::UserId(_)) && self.clients.sources.iter().any(tells)
    }

    fn key(&self, rule: &Rule, policy: &Policy, caller: &Caller) -> Key {
        let alone = Policy {
            route: policy.route.clone(),
            rules: [rule.clone()].into(),
            always: 0,
            answers: policy.answers.clone(),
        };
        // Nothing in it counts: what does only in a request is not the client's own.
        let request = Request::new(());
        self.hasher.keys(&alone, caller, &request)[0]
    }
}

impl Found<'_> {
    fn charges(&self) -> Vec<Charge<'_>> {
        let own = self.own.iter();
        own.map(|own| Charge {
            limit: own.limit,
            key: own.key,
            cost: 1,
        })
        .collect()
    }
}

impl Own<'_> {
    fn standing(&self, outlook: &Outlook) -> Standing {
        let (limit, verdict) = (self.limit, &outlook.verdict);
        Standing {
            name: limit.name().to_owned(),
            route: self.route.map(str::to_owned),
            algorithm: limit.quota().algorithm().to_owned(),
            per: words(&self.rule.per),
            limit: limit.quota().capacity(),
            remaining: verdict.remaining,
            reset: (outlook.now + verdict.reset).div_ceil(1_000_000),
            allowed: verdict.allowed,
            observed: limit.is_observed(),
            this_gateway_only: outlook.here,
            retry_after: verdict.retry_after.div_ceil(1_000_000),
        }
    }
}

fn words(per: &[Per]) -> Vec<String> {
    per.iter().map(Per::to_string).collect()
}

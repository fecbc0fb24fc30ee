//! The rules that a route enforces. Each rule is a limit with the parts of a request that it is counted per.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use tidegate_core::QuotaError;
use tidegate_store::Limit;

use crate::{Answers, Cost, NamedBudgets, Notify};
use tidegate_identity::{Access, Client, ClientPlan, LimitLists};

/// A part of a request that a limit is counted per. A request without the part counts under the caller's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Per {
    /// The client, named by the first client source that matches the request.
    Client,
    /// The caller's address.
    Ip,
    /// The network of the caller's address. An IPv6 address is cut to this number of bits, fewer than
    /// [`tidegate_identity::Clients::ipv6_prefix`]; an IPv4 address is used in full.
    Network(u8),
    /// The API key's name.
    ApiKey,
    /// The user ID.
    UserId,
    /// The name in a verified client certificate.
    ClientCert,
    /// A claim of a verified token.
    Claim(Arc<str>),
    /// The route's name.
    Route,
    /// The request's method; `HEAD` counts as `GET`.
    Method,
    /// The requested host.
    Host,
    /// A header's value, which is not verified.
    Header(HeaderName),
    /// A cookie's value, which is not verified.
    Cookie(Arc<str>),
    /// The path segment that matches a `{name}` in the route's pattern.
    Path(Arc<str>),
    /// The value of a parameter of the query, which is not verified.
    Query(Arc<str>),
    /// The values under a key of a descriptor, which are not verified. Only questions of other programs have descriptors
    /// ([`Descriptor`](crate::Descriptor)).
    Descriptor(Arc<str>),
    /// A text in the request's JSON body, such as the name of a model, against a list.
    Json(Arc<NamedBudgets>),
}

impl Per {
    /// The parts that are written without a parameter, with their spelling in YAML.
    pub const PLAIN: [(&'static str, Self); 8] = [
        ("client", Self::Client),
        ("ip", Self::Ip),
        ("api_key", Self::ApiKey),
        ("user_id", Self::UserId),
        ("client_cert", Self::ClientCert),
        ("route", Self::Route),
        ("method", Self::Method),
        ("host", Self::Host),
    ];

    /// Whether the part identifies the caller, so that the caller may see the limit's numbers.
    pub const fn is_callers(&self) -> bool {
        matches!(
            self,
            Self::Client
                | Self::Ip
                | Self::Network(_)
                | Self::ApiKey
                | Self::UserId
                | Self::ClientCert
                | Self::Claim(_)
                | Self::Descriptor(_)
        )
    }

    /// Whether the sender of a request can choose the part's value, because the value is not verified.
    pub(crate) const fn is_chosen(&self) -> bool {
        matches!(
            self,
            Self::Host
                | Self::Header(_)
                | Self::Cookie(_)
                | Self::Path(_)
                | Self::Query(_)
                | Self::Descriptor(_)
        )
    }

    /// Whether the client's name determines the part's value. The route's name does not depend on the client, so it counts as determined.
    const fn is_told_by(&self, client: &Client) -> bool {
        match self {
            Self::Client | Self::Route => true,
            // Only tokens have claims. A client that is named by its address has no token.
            Self::Ip | Self::Network(_) | Self::Claim(_) => matches!(client, Client::Ip(_)),
            // A client that is named by its address has no API key, so it counts under its address.
            Self::ApiKey => !matches!(client, Client::UserId(_) | Client::Certificate(_)),
            Self::ClientCert => matches!(client, Client::Certificate(_) | Client::Ip(_)),
            Self::UserId => matches!(client, Client::UserId(_) | Client::Ip(_)),
            Self::Method
            | Self::Host
            | Self::Header(_)
            | Self::Cookie(_)
            | Self::Path(_)
            | Self::Query(_)
            | Self::Descriptor(_)
            | Self::Json(_) => false,
        }
    }
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(bits) => write!(f, "ip/{bits}"),
            Self::Claim(name) => write!(f, "claim:{name}"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
            Self::Path(name) => write!(f, "path:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Descriptor(name) => write!(f, "descriptor:{name}"),
            Self::Json(budgets) => write!(f, "json:{}", budgets.path),
            plain => {
                let name = Self::PLAIN.iter().find(|(_, part)| part == plain);
                f.write_str(name.map_or("", |(name, _)| name))
            }
        }
    }
}

/// The treatment of a request that a limit refuses, from the weakest to the strongest. If several limits refuse, the strongest of their
/// actions applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The request waits for its turn. If its turn does not come in time, the request is answered as under [`Action::Reject`].
    Delay {
        /// The longest time that the request waits.
        max: Duration,
    },
    /// The request is answered with [`Answers::reject`].
    #[default]
    Reject,
    /// The request is not answered: the server closes the connection, or resets the stream.
    Drop,
}

/// The owner of a limit's budget, if the client's name is enough to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetOwner {
    /// The client has a budget of its own. If the limit is counted per route, the client has one budget per route.
    Own,
    /// The client may have several budgets. The content of a request determines the budget that is charged.
    OfRequest,
    /// The client shares the budget with other clients.
    Shared,
}

/// A limit of a route, with the key, the costs and the action that the route applies.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The limit, with the quota of clients without a plan.
    pub limit: Arc<Limit>,
    /// The parts that the limit is counted per. If the list is empty, all requests share one budget.
    pub per: Arc<[Per]>,
    /// The same limit with the quota of each plan, by [`ClientPlan::index`]; `None` for an unlimited plan. A plan whose numbers differ from
    /// the limit's own has [budgets of its own](Limit::of_plan). A plan without an entry uses the limit's own numbers.
    pub plans: Arc<[Option<Arc<Limit>>]>,
    /// The cost of a request.
    pub cost: Cost,
    /// The treatment of a request that is refused.
    pub action: Action,
    /// The ranges of answer statuses for which a request is charged. A range includes both ends. `None` if every request is charged. With
    /// ranges, a request [holds units](Limit::reserving) until its answer's status has come.
    pub count: Option<Arc<[(u16, u16)]>>,
    /// Whether a request that a leaky bucket admits is forwarded at once, without a wait for its turn.
    pub nodelay: bool,
    /// The rule of the members' [share](Self::share_of_members) in this limit, if it is divided. The policy lists it just behind this rule.
    pub share: Option<Arc<Self>>,
    /// The rule of the shared limit, if this rule is the [share](Self::share_of_members) of its members. The policy lists the shared limit just in
    /// front of this rule.
    pub front: Option<Arc<Self>>,
    /// The clients that are exempt from the limit, and the clients that are denied on each route with the limit. [`Access::new`] reads
    /// these lists.
    pub lists: LimitLists,
    /// The thresholds at which a budget causes [events](crate::BudgetEvent). `None` without events.
    pub notify: Option<Arc<Notify>>,
}

impl Rule {
    /// Makes a rule with the action [`Action::Reject`]. Each request costs 1, and every plan has the limit's own numbers.
    pub fn new(limit: impl Into<Arc<Limit>>, per: impl Into<Arc<[Per]>>) -> Self {
        Self {
            limit: limit.into(),
            per: per.into(),
            plans: Arc::default(),
            cost: Cost::default(),
            action: Action::default(),
            count: None,
            nodelay: false,
            share: None,
            front: None,
            lists: LimitLists::default(),
            notify: None,
        }
    }

    /// Returns the rule for the share of each member in this limit: the clients that differ in the parts `by`. `weights` has the weight of
    /// each plan, in the order of the plans. A client without a plan has the weight 1.
    ///
    /// # Errors
    ///
    /// [`Limit::share`] refuses the limit's quota or a weight.
    pub fn share_of_members(
        &self,
        by: impl Into<Arc<[Per]>>,
        weights: &[u64],
    ) -> Result<Self, QuotaError> {
        let limit = Arc::new(self.limit.share(1)?);
        let plans = weights.iter().enumerate().map(|(index, weight)| {
            Ok(match self.plans.get(index) {
                // The plan is unlimited.
                Some(None) => None,
                _ if *weight == 1 => Some(limit.clone()),
                _ => Some(Arc::new(self.limit.share(*weight)?)),
            })
        });
        Ok(Self {
            limit: limit.clone(),
            per: by.into(),
            plans: plans.collect::<Result<_, _>>()?,
            share: None,
            notify: None,
            front: Some(Arc::new(Self {
                share: None,
                ..self.clone()
            })),
            ..self.clone()
        })
    }

    /// Returns this rule's share after its shared limit has got other numbers.
    ///
    /// # Errors
    ///
    /// [`Limit::share`] refuses the numbers.
    pub fn share_in(&self, shared: &Self) -> Result<Self, QuotaError> {
        let weight = |limit: &Option<Arc<Limit>>| limit.as_ref()?.quota().weight();
        let weights = self.plans.iter().map(weight);
        let weights: Vec<u64> = weights.map(|weight| weight.unwrap_or(1)).collect();
        shared.share_of_members(self.per.clone(), &weights)
    }

    /// Returns the rule with `limit`, the same limit with other numbers, in place of its own. Plans with numbers of their own keep them.
    #[must_use]
    pub fn with_limit(&self, limit: &Arc<Limit>) -> Self {
        let plans = self.plans.iter().map(|of_plan| match of_plan {
            Some(own) if Arc::ptr_eq(own, &self.limit) => Some(limit.clone()),
            other => other.clone(),
        });
        Self {
            plans: plans.collect(),
            limit: limit.clone(),
            ..self.clone()
        }
    }

    /// Returns the owner of this limit's budget for a client that has a [name](tidegate_identity::Caller::named).
    pub fn budget_of(&self, client: &Client) -> BudgetOwner {
        if !self.per.iter().all(|per| per.is_told_by(client)) {
            BudgetOwner::OfRequest
        } else if self.is_callers() {
            BudgetOwner::Own
        } else {
            BudgetOwner::Shared
        }
    }

    /// Returns whether a request stays charged if its answer has this status.
    pub fn counts(&self, status: u16) -> bool {
        self.count.as_ref().is_none_or(|ranges| {
            let mut ranges = ranges.iter();
            ranges.any(|(first, last)| (*first..=*last).contains(&status))
        })
    }

    /// Whether the limit is counted per a part that identifies the caller.
    pub fn is_callers(&self) -> bool {
        self.per.iter().any(Per::is_callers)
    }

    /// Returns the limit for each budget that a key may have: the limit itself, the limit with each plan's numbers, and the limit with the
    /// ID of overrides. The limit for overrides has the limit's own numbers here, because each override has different numbers.
    pub fn budgets(&self) -> impl Iterator<Item = Arc<Limit>> {
        let by_override = Limit::clone(&self.limit).of_override();
        self.configured().cloned().chain([by_override.into()])
    }

    /// Returns the limit itself, and the limit with each plan's numbers.
    pub fn configured(&self) -> impl Iterator<Item = &Arc<Limit>> {
        std::iter::once(&self.limit).chain(self.of_plans())
    }

    /// Returns whether one key may have several budgets, one per plan, because clients of different plans can share the key.
    pub fn is_per_plan(&self) -> bool {
        !self.per.contains(&Per::Client) && self.of_plans().next().is_some()
    }

    /// Returns whether a plan changes the limit's numbers. Such a plan has a budget of its own.
    pub fn has_budget_for(&self, plan: &ClientPlan) -> bool {
        let limit = self.limit_for(Some(plan));
        limit.is_some_and(|limit| limit.id() != self.limit.id())
    }

    fn of_plans(&self) -> impl Iterator<Item = &Arc<Limit>> {
        let limits = self.plans.iter().flatten();
        limits.filter(|limit| !Arc::ptr_eq(limit, &self.limit))
    }

    /// Whether the limit is counted per caller, and refuses callers that exceed it.
    pub fn bounds_callers(&self) -> bool {
        self.is_callers() && !self.limit.is_observed()
    }

    /// Whether an admitted caller may see the limit's numbers. The limit must count this caller alone, and requests must use up the limit's
    /// units, not hold them.
    pub fn is_shown(&self) -> bool {
        self.bounds_callers() && self.limit.quota().has_reset()
    }

    /// Whether the key of a request, or the units that it reserves, depend on its body.
    pub fn reads_request_body(&self) -> bool {
        let reserve = self.cost.reserve();
        reserve.is_some_and(|reserve| reserve.in_body().is_some())
            || self.per.iter().any(|per| matches!(per, Per::Json(_)))
    }

    /// Whether an admitted request waits for its turn.
    pub fn queues(&self) -> bool {
        self.limit.quota().is_queue() && !self.nodelay && !self.limit.is_observed()
    }

    /// Whether a request that the limit refuses may wait and be admitted later.
    pub fn may_wait(&self) -> bool {
        let waits = matches!(self.action, Action::Delay { .. }) || self.limit.reserves().is_some();
        waits && !self.limit.is_observed()
    }

    /// Whether a request that the limit admits holds units until the request ends.
    pub fn can_hold(&self) -> bool {
        self.limit.lease().is_some()
    }

    /// Returns the limit for clients of this plan; `None` if the plan is unlimited.
    // Inlined for clients without a plan, because most clients have no plan.
    #[inline]
    pub fn limit_for<'a>(&'a self, plan: Option<&'a ClientPlan>) -> Option<&'a Arc<Limit>> {
        match plan {
            Some(plan) => self.limit_under(plan),
            None => Some(&self.limit),
        }
    }

    #[cold]
    fn limit_under<'a>(&'a self, plan: &'a ClientPlan) -> Option<&'a Arc<Limit>> {
        if let Some(of_plan) = self.plans.get(plan.index()) {
            return of_plan.as_ref();
        }
        let Some(over) = plan.laid_over() else {
            return Some(&self.limit);
        };
        match over.limits.get(self.limit.name()) {
            Some(of_override) => of_override,
            None => self.limit_for(over.base.as_ref()),
        }
    }
}

/// The limits, the access lists and the settings for answers of one route.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The route's name, part of the keys of limits that are counted per route.
    pub route: Arc<str>,
    /// The limits, in the order in which they are charged; at most [`tidegate_store::MAX_CHARGES`].
    pub rules: Arc<[Rule]>,
    /// The number of rules at the beginning of the list that charge requests with refused credentials as well.
    pub always: usize,
    /// The lists of denied callers, and of callers that are exempt from some rules. `None` without such lists.
    pub access: Option<Arc<Access>>,
    /// The settings of the route's answers.
    pub answers: Answers,
}

#[cfg(test)]
mod tests;

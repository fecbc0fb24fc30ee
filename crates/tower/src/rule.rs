//! The rules that a route enforces: each is a limit, with the parts of a request that it is counted per.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use tidegate_store::Limit;

use crate::{Answers, Cost};
use tidegate_identity::{Access, Client, ClientPlan, LimitLists};

/// A part of a request that a limit is counted per. A request without the part counts under the caller's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Per {
    /// The client, by the first client source that names one.
    Client,
    /// The caller's address.
    Ip,
    /// The network of the caller's address: this number of bits of IPv6, fewer than [`tidegate_identity::Clients::ipv6_prefix`]; IPv4 in full.
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
    /// The value in the path for a `{name}` of the route.
    Path(Arc<str>),
    /// The value of a parameter of the query, which is not verified.
    Query(Arc<str>),
}

impl Per {
    /// The parts without a name of their own, as they are written in YAML.
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

    /// Whether the part belongs to the caller, so that the limit's numbers may be shown to the caller.
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
        )
    }

    /// Whether the sender of a request chooses its value, and it is not verified.
    pub(crate) const fn is_chosen(&self) -> bool {
        matches!(
            self,
            Self::Host | Self::Header(_) | Self::Cookie(_) | Self::Path(_) | Self::Query(_)
        )
    }

    /// Whether the name of the client, or of the route, determines the value that is counted.
    const fn is_told_by(&self, client: &Client) -> bool {
        match self {
            Self::Client | Self::Route => true,
            // Claims come from tokens. An address alone has none.
            Self::Ip | Self::Network(_) | Self::Claim(_) => matches!(client, Client::Ip(_)),
            // Clients without an API key count under their address.
            Self::ApiKey => !matches!(client, Client::UserId(_) | Client::Certificate(_)),
            Self::ClientCert => matches!(client, Client::Certificate(_) | Client::Ip(_)),
            Self::UserId => matches!(client, Client::UserId(_) | Client::Ip(_)),
            Self::Method
            | Self::Host
            | Self::Header(_)
            | Self::Cookie(_)
            | Self::Path(_)
            | Self::Query(_) => false,
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
            plain => {
                let name = Self::PLAIN.iter().find(|(_, known)| known == plain);
                f.write_str(name.map_or("", |(name, _)| name))
            }
        }
    }
}

/// The treatment of a request that a limit refuses. The weakest is first: the strongest action of all refusing limits applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It waits for its turn; if its turn does not come in time, it is answered as by [`Action::Reject`].
    Delay {
        /// The longest time that it waits.
        max: Duration,
    },
    /// It is answered with [`Answers::reject`].
    #[default]
    Reject,
    /// It is not answered at all: the server closes its connection, or resets its stream.
    Drop,
}

/// The owner of a limit's budget, as far as a client's name determines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// The client's own, one per route if it is counted per route.
    Own,
    /// The client's own, but only a request determines which of several.
    OfRequest,
    /// Not this client's alone.
    Shared,
}

/// A limit of a route, with the key, the costs and the action that the route applies.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The limit, with the quota of clients without a plan.
    pub limit: Arc<Limit>,
    /// The parts that it is counted per; empty: one budget for all.
    pub per: Arc<[Per]>,
    /// The same limit with the quota of each plan, by [`ClientPlan::index`]; `None`: unlimited. A plan with other numbers has
    /// [budgets of its own](Limit::of_plan). A plan without an entry has the limit's own numbers.
    pub plans: Arc<[Option<Arc<Limit>>]>,
    /// The cost of a request.
    pub cost: Cost,
    /// The treatment of a request that is refused.
    pub action: Action,
    /// The statuses of answers that are charged, as ranges with both ends included; none: every request is. Requests of such a limit
    /// [hold units](Limit::reserving), as they do where answers have the [cost](Cost).
    pub count: Option<Arc<[(u16, u16)]>>,
    /// Whether a request that a leaky bucket admits goes on at once, and not when its turn comes.
    pub nodelay: bool,
    /// The clients that are exempt from the limit, and the clients that are refused where it is charged; for [`Access::new`].
    pub lists: LimitLists,
}

impl Rule {
    /// Makes a rule that rejects, with a cost of 1 for each request, and the same for every plan.
    pub fn new(limit: impl Into<Arc<Limit>>, per: impl Into<Arc<[Per]>>) -> Self {
        Self {
            limit: limit.into(),
            per: per.into(),
            plans: Arc::default(),
            cost: Cost::default(),
            action: Action::default(),
            count: None,
            nodelay: false,
            lists: LimitLists::default(),
        }
    }

    /// Returns the owner of this limit's budget, for a [named](tidegate_identity::Caller::named) client.
    pub fn budget_of(&self, client: &Client) -> Budget {
        if !self.per.iter().all(|per| per.is_told_by(client)) {
            Budget::OfRequest
        } else if self.is_callers() {
            Budget::Own
        } else {
            Budget::Shared
        }
    }

    /// Returns whether a request with an answer of this status stays charged.
    pub fn counts(&self, status: u16) -> bool {
        let counts = |ranges: &Arc<[(u16, u16)]>| {
            let mut ranges = ranges.iter();
            ranges.any(|(first, last)| (*first..=*last).contains(&status))
        };
        self.count.as_ref().is_none_or(counts)
    }

    /// Whether a part that it is counted per belongs to the caller.
    pub fn is_callers(&self) -> bool {
        self.per.iter().any(Per::is_callers)
    }

    /// Returns the limit of each budget that a key may have: the limit itself, with the numbers of plans, and under the ID of overrides.
    /// The last one has the limit's own numbers, because each override has others.
    pub fn budgets(&self) -> impl Iterator<Item = Arc<Limit>> {
        let by_override = Limit::clone(&self.limit).of_override();
        self.configured().cloned().chain([by_override.into()])
    }

    /// Returns the limit itself, and the limit with the numbers of plans.
    pub fn configured(&self) -> impl Iterator<Item = &Arc<Limit>> {
        std::iter::once(&self.limit).chain(self.of_plans())
    }

    /// Returns whether clients of several plans may meet under one key, where each plan has a budget of its own.
    pub fn is_per_plan(&self) -> bool {
        !self.per.contains(&Per::Client) && self.of_plans().next().is_some()
    }

    /// Returns whether a plan gives the limit other numbers, so that the plan has a budget of its own.
    pub fn has_budget_for(&self, plan: &ClientPlan) -> bool {
        let limit = self.limit_for(Some(plan));
        limit.is_some_and(|limit| !Arc::ptr_eq(limit, &self.limit))
    }

    fn of_plans(&self) -> impl Iterator<Item = &Arc<Limit>> {
        let limits = self.plans.iter().flatten();
        limits.filter(|limit| !Arc::ptr_eq(limit, &self.limit))
    }

    /// Whether it refuses callers who are over the limit.
    pub fn bounds_callers(&self) -> bool {
        self.is_callers() && !self.limit.is_observed()
    }

    /// Whether the limit's numbers may be shown to an admitted caller. The limit must count for this caller alone, and its units must be
    /// used up, not held.
    pub fn is_shown(&self) -> bool {
        self.bounds_callers() && self.limit.quota().has_reset()
    }

    /// Whether an admitted request waits for its turn.
    pub fn queues(&self) -> bool {
        self.limit.quota().is_queue() && !self.nodelay && !self.limit.is_observed()
    }

    /// Whether a request that it refuses may be admitted after all, if it waits.
    pub fn may_wait(&self) -> bool {
        let waits = matches!(self.action, Action::Delay { .. }) || self.limit.reserves().is_some();
        waits && !self.limit.is_observed()
    }

    /// Returns the limit for clients of this plan; none if they are unlimited.
    // Most clients have no plan.
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

/// Everything that one route enforces.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The route's name, for limits counted per route.
    pub route: Arc<str>,
    /// The limits, in the order in which they are charged; at most [`tidegate_store::MAX_CHARGES`].
    pub rules: Arc<[Rule]>,
    /// The number of rules, from the first on, that charge every request, also with refused credentials.
    pub always: usize,
    /// The lists of callers that are refused, or exempt from some of the rules; none: no such lists.
    pub access: Option<Arc<Access>>,
    /// The settings of its answers.
    pub answers: Answers,
}

#[cfg(test)]
mod tests;

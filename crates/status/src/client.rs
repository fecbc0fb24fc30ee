//! The budgets of one client: the document of `/clients/{name}`, which a gateway writes and `tidegate client` reads.

use serde::{Deserialize, Serialize};

/// The budgets of a client: the answer of the admin port to a request for `/clients/{name}`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Report {
    /// The client's name, in the form that limits use.
    pub client: String,
    /// The client's plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The override in force for the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Overridden>,
    /// Whether the plan depends on the client's tokens. If so, the figures in `limits` are for a user without a plan.
    #[serde(default)]
    pub plan_by_token: bool,
    /// The reason why the store did not answer. If set, the figures in `limits` are from this gateway alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_store: Option<String>,
    /// The client's own budgets.
    pub limits: Vec<Standing>,
    /// Limits from which the client's plan exempts it.
    #[serde(default)]
    pub unlimited: Vec<String>,
    /// Limits that may have several budgets for the client, such as one budget for each value of a header.
    pub unlisted: Vec<Unlisted>,
    /// Limits whose budget the client shares with other clients.
    pub shared: Vec<String>,
    /// Limits that count clients of several plans under one key, with a budget for each plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_plan: Vec<String>,
    /// The client's API keys in the configuration. The key that was used last comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyUse>,
}

/// An API key of a client, and its last use on this gateway.
#[derive(Debug, Deserialize, Serialize)]
pub struct KeyUse {
    /// The beginning of the key's hash, as in the key's entry of the configuration: `sha256:` and 8 digits.
    pub hash: String,
    /// The time at which the key expires, in epoch seconds. `None` if it does not expire.
    pub expires: Option<u64>,
    /// The time of the key's last use, in epoch seconds. `None` if the key was not used since this gateway started.
    pub last_used: Option<u64>,
}

/// An override that applies to a client or a limit.
#[derive(Debug, Deserialize, Serialize)]
pub struct Overridden {
    /// The override's name: a client, a network or a limit.
    pub by: String,
    /// The override's action: `plan NAME`, `set LIMIT 'NUMBERS'`, `exempt` or `block`.
    pub does: String,
}

/// A client's budget of one limit.
#[derive(Debug, Deserialize, Serialize)]
pub struct Standing {
    /// The limit's name.
    pub name: String,
    /// The route, for a limit that is counted per route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The limit's algorithm.
    pub algorithm: String,
    /// The parts of the limit's key.
    pub per: Vec<String>,
    /// The capacity, queue or limit of the quota, depending on the algorithm.
    pub limit: u64,
    /// Units left.
    pub remaining: u64,
    /// The time at which all units are available again, in epoch seconds, rounded up. For a limit with holds, the time at which the last
    /// hold lapses if it is not renewed.
    pub reset: u64,
    /// Whether a request would be allowed now. If costs differ between requests, a cost of 1 is assumed.
    pub allowed: bool,
    /// Whether the limit only observes, and refuses no request.
    #[serde(default)]
    pub observed: bool,
    /// Whether the limit counts only this gateway's requests (`mode: local`, `store: memory`).
    #[serde(default)]
    pub this_gateway_only: bool,
    /// Seconds until a request would be allowed, rounded up. 0 if a request is allowed now.
    pub retry_after: u64,
    /// This gateway's own data, if the store did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_here: Option<KnownHere>,
}

/// This gateway's own data on a budget, if the store did not answer.
#[derive(Debug, Deserialize, Serialize)]
pub struct KnownHere {
    /// The decider of the limit's requests while the store does not answer.
    pub decides: Decides,
    /// The units left of a slice that this gateway has borrowed (`mode: leased`). These units are spent before `on_failure` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leased: Option<u64>,
    /// The store's last answer, if the gateway has kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastSaid>,
}

/// The decider of a limit's requests while the store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decides {
    /// This gateway, which always counts this limit without the store (`mode: local`).
    Gateway,
    /// This gateway, with its share of the quota (`on_failure: local`).
    Share,
    /// No decider: requests are admitted (`on_failure: open`).
    Open,
    /// No decider: requests get 503 (`on_failure: closed`).
    Closed,
}

/// The store's last answer about one budget.
#[derive(Debug, Deserialize, Serialize)]
pub struct LastSaid {
    /// Age of the answer, in seconds.
    pub seconds_ago: u64,
    /// Units left at that time.
    pub remaining: u64,
    /// Seconds until the refusal in this answer ends, rounded up. 0 if it has ended, or if the answer was no refusal.
    pub refused_for: u64,
}

/// A limit whose budgets for the client cannot be listed, because its key has values that only a request contains.
#[derive(Debug, Deserialize, Serialize)]
pub struct Unlisted {
    /// The limit's name.
    pub name: String,
    /// The parts of the limit's key.
    pub per: Vec<String>,
}

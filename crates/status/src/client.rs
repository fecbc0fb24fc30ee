//! How one client stands: what `/clients/{name}` is, for the gateway that writes it and for `tidegate client`, which reads it.

use serde::{Deserialize, Serialize};

/// What is known of a client: the answer of the admin port, and what `tidegate client` reads.
#[derive(Debug, Deserialize, Serialize)]
pub struct Report {
    /// Who it is, as limits know them.
    pub client: String,
    /// The client's plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// What an operator set for the client at run time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Overridden>,
    /// Whether only a token tells the client's plan, so that the limits' own numbers stand here.
    #[serde(default)]
    pub plan_by_token: bool,
    /// Why the store did not say how the client stands: then the numbers are what this gateway knows by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_store: Option<String>,
    /// The client's own budgets.
    pub limits: Vec<Standing>,
    /// Limits that the client's plan takes away.
    #[serde(default)]
    pub unlimited: Vec<String>,
    /// Limits of which the client may have many budgets, one for each value that requests bring along.
    pub unlisted: Vec<Unlisted>,
    /// Limits that the client shares with others.
    pub shared: Vec<String>,
    /// Limits that count clients of several plans under one key, where each plan has a budget of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_plan: Vec<String>,
    /// The client's listed API keys, the one used last first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyUse>,
}

/// An API key of a client, and when this gateway saw it last.
#[derive(Debug, Deserialize, Serialize)]
pub struct KeyUse {
    /// The start of its hash, as the entry has it: `sha256:` and 8 digits.
    pub hash: String,
    /// When it expires, in epoch seconds; none: never.
    pub expires: Option<u64>,
    /// When it was used last, in epoch seconds; none: not since this gateway started.
    pub last_used: Option<u64>,
}

/// An override that holds for a client.
#[derive(Debug, Deserialize, Serialize)]
pub struct Overridden {
    /// The override's name: the client's, or that of a network.
    pub by: String,
    /// What it does: `plan NAME`, `exempt` or `block`.
    pub does: String,
}

/// How a client stands with one limit.
#[derive(Debug, Deserialize, Serialize)]
pub struct Standing {
    /// The limit's name.
    pub name: String,
    /// The route, for a limit that is counted per route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The limit's algorithm.
    pub algorithm: String,
    /// What it is counted per.
    pub per: Vec<String>,
    /// The capacity, queue or limit.
    pub limit: u64,
    /// What is left of it.
    pub remaining: u64,
    /// When all of it will be back, in epoch seconds, rounded up. For places that requests hold, it is when the last one lapses
    /// that is not renewed.
    pub reset: u64,
    /// Whether a request would be allowed. It costs 1 if the cost differs from request to request.
    pub allowed: bool,
    /// Whether the limit only observes, and refuses nobody.
    #[serde(default)]
    pub observed: bool,
    /// Whether only this gateway's own requests are counted here (`mode: local`, `store: memory`).
    #[serde(default)]
    pub this_gateway_only: bool,
    /// In how many seconds it will be, rounded up; 0: at once.
    pub retry_after: u64,
    /// What this gateway goes by, if the store did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_here: Option<KnownHere>,
}

/// What a gateway goes by of a limit while the store does not answer.
#[derive(Debug, Deserialize, Serialize)]
pub struct KnownHere {
    /// What decides.
    pub decides: Decides,
    /// Units left of a slice that this gateway has borrowed (`mode: leased`); they are spent first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leased: Option<u64>,
    /// What the store said last, if that is remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastSaid>,
}

/// What decides of a limit while the store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decides {
    /// This gateway, which counts the limit alone in any case (`mode: local`).
    Gateway,
    /// This gateway by its share of the quota (`on_failure: local`).
    Share,
    /// Nothing: requests go on (`on_failure: open`).
    Open,
    /// Nothing: requests get 503 (`on_failure: closed`).
    Closed,
}

/// What the store said last of one budget.
#[derive(Debug, Deserialize, Serialize)]
pub struct LastSaid {
    /// How many seconds ago that was.
    pub seconds_ago: u64,
    /// What was left then.
    pub remaining: u64,
    /// For how many seconds more the refusal lasts that it was, rounded up; 0: it was none, or it is over.
    pub refused_for: u64,
}

/// A limit that cannot be listed.
#[derive(Debug, Deserialize, Serialize)]
pub struct Unlisted {
    /// Its name.
    pub name: String,
    /// What it is counted per.
    pub per: Vec<String>,
}

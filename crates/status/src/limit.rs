//! The budgets of one limit: the document of `/limits/{name}`, which a gateway writes and `tidegate limit` reads.

use serde::{Deserialize, Serialize};

use crate::client::Overridden;

/// Budgets of a limit.
#[derive(Debug, Deserialize, Serialize)]
pub struct LimitReport {
    /// The limit's name.
    pub limit: String,
    /// The limit's algorithm.
    pub algorithm: String,
    /// The parts of the limit's key.
    pub per: Vec<String>,
    /// The override in force for the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Overridden>,
    /// The budgets.
    pub budgets: Vec<LimitBudget>,
    /// The cursor of the next keys. `None` at the end, and if the report is about one key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One budget of a limit.
#[derive(Debug, Deserialize, Serialize)]
pub struct LimitBudget {
    /// The key as keyed hashes: of the client, or of the value in its place, and of the other values.
    pub key: String,
    /// The route, for a limit that is counted per route and a report about one client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The plan with these numbers. `None` for the limit's own numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The most units.
    pub limit: u64,
    /// The used units, without the held units.
    pub used: u64,
    /// The units that requests hold, for `concurrency` the running requests.
    pub held: u64,
    /// The units that are left.
    pub remaining: u64,
    /// The time at which all units are available again, in epoch seconds, rounded up.
    pub reset: u64,
    /// Seconds until one unit is available, rounded up. 0 if one is available now.
    pub retry_after: u64,
    /// Whether the limit counts only this gateway's requests (`mode: local`, `store: memory`).
    #[serde(default)]
    pub this_gateway_only: bool,
    /// The counts per window, for algorithms that have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Windows>,
}

/// The counts of an algorithm that counts units per window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Windows {
    /// The start of the current window, in epoch milliseconds.
    pub start_ms: u64,
    /// The units of the current window.
    pub current: u64,
    /// The units of the window before it, for `sliding_window_counter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<u64>,
    /// The units that count now: the current window, and the share of the window before it, rounded up.
    pub rate: u64,
}

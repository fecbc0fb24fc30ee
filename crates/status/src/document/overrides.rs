//! Changes that operators made for clients at run time.

use serde::{Deserialize, Serialize};

/// The overrides in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overrides {
    /// Number of overrides.
    pub count: usize,
    /// The overrides that were set last. The latest comes first.
    pub latest: Vec<Override>,
    /// The place where overrides are stored: `redis`, `file`, or `process`. With `process`, all overrides are lost when the process ends.
    pub kept: String,
    /// The plans that an override may name.
    pub plans: Vec<String>,
}

/// An override.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Override {
    /// The client or network to which it applies.
    pub name: String,
    /// Its action: `plan NAME`, `set LIMIT 'NUMBERS'`, `exempt` or `block`.
    pub does: String,
    /// The time at which the override ends, such as `2026-11-24T08:30:00Z`, or `never`.
    pub until: String,
    /// The name of the admin token with which an operator set the override. `no token` if no token is configured.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// Its version. A request that changes the override sends it in `If-Match`.
    pub version: u64,
}

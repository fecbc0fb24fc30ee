//! Why a request was refused.

use serde::{Deserialize, Serialize};

/// A refusal by its request ID: what `/why/{id}` is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// The request ID.
    pub id: String,
    /// When, in ms since the epoch.
    pub at: u64,
    /// The status of the answer; none if the request was dropped.
    pub status: Option<u16>,
    /// The outcome of the request, in the word of metrics and logs.
    pub outcome: String,
    /// The word of the error.
    pub error: Option<String>,
    /// On which route.
    pub route: String,
    /// The client; none if the sources of clients were not asked.
    pub client: Option<String>,
    /// Whether the name is cut off.
    pub is_cut: bool,
    /// The limit that refused; of several, that with the longest wait.
    pub limit: Option<String>,
    /// When the client may come again, in seconds.
    pub retry_after: Option<u64>,
    /// The entry of `deny` that refused.
    pub denied_by: Option<String>,
}

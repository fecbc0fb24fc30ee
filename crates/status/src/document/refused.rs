//! The reason for a refusal.

use serde::{Deserialize, Serialize};

/// A refusal by its request ID, the document of `/why/{id}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// The request ID.
    pub id: String,
    /// Time, in ms since the epoch.
    pub at: u64,
    /// The status of the answer; none if the request was dropped.
    pub status: Option<u16>,
    /// The outcome of the request, in the word of metrics and logs.
    pub outcome: String,
    /// The word of the error.
    pub error: Option<String>,
    /// The route of the request.
    pub route: String,
    /// The client; none if the gateway refused before it read the sources of clients.
    pub client: Option<String>,
    /// Whether the name is cut off.
    pub is_cut: bool,
    /// The limit that refused; if several did, the limit with the longest wait.
    pub limit: Option<String>,
    /// Seconds until the client may retry.
    pub retry_after: Option<u64>,
    /// The entry of `deny` that refused.
    pub denied_by: Option<String>,
}

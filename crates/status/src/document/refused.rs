//! The reason for a refusal.

use serde::{Deserialize, Serialize};

/// A refusal that the gateway has kept with its request ID: the document of `/why/{id}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// The request ID.
    pub id: String,
    /// Time, in ms since the epoch.
    pub at: u64,
    /// The status of the answer. `None` if the request was dropped without an answer.
    pub status: Option<u16>,
    /// The outcome of the request, in the word that metrics and logs use.
    pub outcome: String,
    /// The word for the error in the body of the gateway's answer.
    pub error: Option<String>,
    /// The route of the request.
    pub route: String,
    /// The client. `None` if the gateway refused the request before it determined the client.
    pub client: Option<String>,
    /// Whether the client's name is cut off.
    pub is_cut: bool,
    /// The limit that refused the request. If several limits refused it, the limit with the longest wait.
    pub limit: Option<String>,
    /// Seconds until the client may retry.
    pub retry_after: Option<u64>,
    /// The entry of `deny` that refused the request.
    pub denied_by: Option<String>,
}

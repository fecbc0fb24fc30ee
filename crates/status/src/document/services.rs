//! What the gateway uses: upstreams, and the store of its limits.

use serde::{Deserialize, Serialize};

/// An upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// Its servers, by address.
    pub servers: Vec<Server>,
    /// Servers that were ejected, ever.
    pub ejections: u64,
    /// Requests that were sent once more.
    pub retries: u64,
}

/// A server of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Its URL in the configuration.
    pub url: String,
    /// Its address.
    pub address: String,
    /// `healthy`, `failing`, `ejected` or `unhealthy`.
    pub state: String,
    /// Requests that it has now.
    pub in_flight: u64,
    /// Failures in a row.
    pub failures: u64,
}

/// Where limits are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Store {
    /// `memory` or `redis`.
    pub kind: String,
    /// Keys in this process.
    pub memory_keys: u64,
    /// Redis, if limits are kept there.
    pub redis: Option<Redis>,
}

/// Redis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Redis {
    /// Whether there is a connection.
    pub is_up: bool,
    /// Calls of decisions in the last minute.
    pub calls: u64,
    /// How long one took on average, in ms.
    pub mean_ms: f64,
    /// Decisions in the last minute that Redis did not give.
    pub errors: u64,
    /// Its servers.
    pub nodes: Vec<Node>,
}

/// A Redis server, as its `INFO` says; what it does not say is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its address in a Redis Cluster.
    pub address: Option<String>,
    /// Memory in use.
    pub memory_bytes: Option<u64>,
    /// Memory that it may use; 0: as much as there is.
    pub memory_max_bytes: Option<u64>,
    /// Commands a second, of all who use it.
    pub operations_per_second: Option<u64>,
    /// Scripts that it has run.
    pub script_calls: Option<u64>,
    /// How long it was busy with them.
    pub script_seconds: Option<f64>,
    /// Keys dropped because it was full.
    pub evicted_keys: Option<u64>,
    /// For how long it has been running.
    pub uptime_seconds: Option<u64>,
    /// Bytes that it has read.
    pub received_bytes: Option<u64>,
    /// Bytes that it has sent.
    pub sent_bytes: Option<u64>,
}

//! Upstreams, and the store of the limits.

use serde::{Deserialize, Serialize};

/// An upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// Its servers, by address.
    pub servers: Vec<Server>,
    /// Ejections of servers since the start.
    pub ejections: u64,
    /// Requests that the gateway sent to a server again after an attempt had failed.
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
    /// Requests in flight.
    pub in_flight: u64,
    /// Failures in a row.
    pub failures: u64,
}

/// The store of the limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Store {
    /// `memory` or `redis`.
    pub kind: String,
    /// The number of keys in the memory of this process.
    pub memory_keys: u64,
    /// Redis, if it is the store.
    pub redis: Option<Redis>,
}

/// Redis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Redis {
    /// Whether the gateway has a connection to Redis.
    pub is_up: bool,
    /// Calls for decisions in the last minute.
    pub calls: u64,
    /// Mean time of a call, in ms.
    pub mean_ms: f64,
    /// Requests of the last minute that Redis did not decide.
    pub errors: u64,
    /// The Redis servers.
    pub nodes: Vec<Node>,
}

/// A Redis server, from its `INFO`. Figures that `INFO` lacks are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its address in a Redis Cluster. `None` for a single Redis server.
    pub address: Option<String>,
    /// Memory in use.
    pub memory_bytes: Option<u64>,
    /// The server's `maxmemory`. 0 if its memory has no bound.
    pub memory_max_bytes: Option<u64>,
    /// Commands that the server runs per second, for all its clients.
    pub operations_per_second: Option<u64>,
    /// Calls of scripts since the server started, by all its clients.
    pub script_calls: Option<u64>,
    /// Seconds that the server has spent in scripts since it started.
    pub script_seconds: Option<f64>,
    /// Keys that the server dropped because its memory was full.
    pub evicted_keys: Option<u64>,
    /// Uptime in seconds.
    pub uptime_seconds: Option<u64>,
    /// Bytes received.
    pub received_bytes: Option<u64>,
    /// Bytes sent.
    pub sent_bytes: Option<u64>,
}

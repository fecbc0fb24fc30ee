//! How long the gateway waits, as it is written: for all routes, or for one.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::shape::SingleOr;
use crate::value::{ByteRate, NoLeastRate, Scalar};

/// How long to wait.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Timeouts {
    /// For a request's head. Default: 10s.
    pub(crate) header: Option<Scalar<Duration>>,
    /// For a connection to an upstream server. Default: 1s.
    pub(crate) connect: Option<Scalar<Duration>>,
    /// For the head of the upstream's answer. Default: 60s.
    pub(crate) upstream: Option<Scalar<Duration>>,
    /// For the next request on a connection. Default: 75s.
    pub(crate) idle: Option<Scalar<Duration>>,
    /// For the next byte in a tunnel, either way. Default: 5m.
    pub(crate) tunnel_idle: Option<Scalar<Duration>>,
    /// The least rate of clients: none, or `{ rate, after }`. Default: `{ rate: 240B/s, after: 20s }`.
    pub(crate) slow: Option<SingleOr<NoLeastRate, Slow>>,
}

/// How long to wait on one route.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteTimeouts {
    /// For a connection to an upstream server.
    pub(crate) connect: Option<Scalar<Duration>>,
    /// For the head of the upstream's answer, and between two parts of it.
    pub(crate) upstream: Option<Scalar<Duration>>,
    /// For the next part of a request's body.
    pub(crate) idle: Option<Scalar<Duration>>,
    /// For the next byte in a tunnel, either way.
    pub(crate) tunnel_idle: Option<Scalar<Duration>>,
    /// The least rate of clients: none, or `{ rate, after }`.
    pub(crate) slow: Option<SingleOr<NoLeastRate, Slow>>,
}

/// The least rate at which clients send request bodies and take answers, while they are the ones waited for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slow {
    /// In bytes per second. Default: 240B/s.
    pub(crate) rate: Option<Scalar<ByteRate>>,
    /// How far a client may fall behind that before it is cut off. Default: 20s.
    pub(crate) after: Option<Scalar<Duration>>,
}

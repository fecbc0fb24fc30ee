//! Groups of servers, and how a route uses them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::UpstreamTls;
use crate::plan::Balance;
use crate::shape::SingleOr;
use crate::value::{
    Attempts, CheckPath, Connections, NoEjection, Percent, Scalar, Server, Times, Waiting, Weight,
};
use tidegate_yaml::Spanned;

/// A group of servers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Upstream {
    /// Its servers: URLs, or `{ url, weight }`. A name stands for all its addresses.
    pub(crate) servers: Spanned<Vec<SingleOr<Server, WeightedServer>>>,
    /// Who takes the next request: round_robin or least_requests. Default: round_robin.
    pub(crate) balance: Option<Scalar<Balance>>,
    /// How often names are resolved; they are also when a connection fails. Default: 30s.
    pub(crate) resolve_every: Option<Scalar<Duration>>,
    /// When a server that fails is left out: none, or `{ after, for, at_most }`. Default: the defaults of these.
    pub(crate) eject: Option<SingleOr<NoEjection, Eject>>,
    /// How servers are asked whether they are well. Default: not.
    pub(crate) health: Option<Health>,
    /// How long a server that comes back takes to get its full share. Default: none, it gets that at once.
    pub(crate) slow_start: Option<Scalar<Duration>>,
    /// The most connections in use to one server; of HTTP/2, requests. Default: as many as it takes.
    pub(crate) max_connections: Option<Scalar<Connections>>,
    /// The most requests that wait for one of these. Default: 100.
    pub(crate) max_waiting: Option<Scalar<Waiting>>,
    /// Whom to trust and who we are, for servers at https://. Default: the authorities of the system, and nobody.
    pub(crate) tls: Option<Spanned<UpstreamTls>>,
}

/// A server that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WeightedServer {
    /// Where it is.
    pub(crate) url: Scalar<Server>,
    /// How many requests it takes beside the others' own numbers. Default: 1.
    pub(crate) weight: Option<Scalar<Weight>>,
}

/// When a server that fails is left out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Eject {
    /// After so many failures in a row: no connection, no answer, or one of 500 and above. Default: 5.
    pub(crate) after: Option<Scalar<Times>>,
    /// For how long the first time; it doubles up to 32 times that while the server goes on failing. Default: 10s.
    pub(crate) r#for: Option<Scalar<Duration>>,
    /// The most servers that may be out, of all; one always stays. Default: 50%.
    pub(crate) at_most: Option<Scalar<Percent>>,
}

/// How servers are asked whether they are well: by a GET that is to be answered with 200 to 399.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Health {
    /// What is asked for.
    pub(crate) path: Scalar<CheckPath>,
    /// How often. Default: 5s.
    pub(crate) every: Option<Scalar<Duration>>,
    /// How long the answer may take, with the connection. Default: 1s.
    pub(crate) timeout: Option<Scalar<Duration>>,
    /// So many good answers in a row bring a server back. Default: 2.
    pub(crate) healthy_after: Option<Scalar<Times>>,
    /// So many bad answers in a row take it out. Default: 3.
    pub(crate) unhealthy_after: Option<Scalar<Times>>,
}

/// When a request that a server may have begun with is sent to another one: only GET, HEAD and OPTIONS without a body,
/// if no answer came or it was 502, 503 or 504.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retries {
    /// How often, at most.
    pub(crate) attempts: Scalar<Attempts>,
    /// How long each attempt but the last may wait for an answer. Default: as long as the route does.
    pub(crate) timeout: Option<Scalar<Duration>>,
    /// The most retries, of the route's requests in the last ten seconds, beside one a second. Default: 20%.
    pub(crate) budget: Option<Scalar<Percent>>,
}

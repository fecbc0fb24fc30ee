//! `timeouts` of a route.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::bounds::timeouts::{NoLeastRate, Slow, Timeouts, least_rate};
use crate::check::Check;
use crate::shape::SingleOr;
use crate::value::Scalar;

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

/// How long a route waits; what it does not say is as `whole`.
pub(crate) fn route_timeouts(
    check: &mut Check<'_>,
    written: Option<&RouteTimeouts>,
    whole: Timeouts,
) -> Timeouts {
    let Some(written) = written else {
        return whole;
    };
    let slow = least_rate(check, written.slow.as_ref(), whole.slow);
    let mut read = |scalar: &Option<_>, usual| check.read_some(scalar.as_ref()).unwrap_or(usual);
    Timeouts {
        header: whole.header,
        connect: read(&written.connect, whole.connect),
        upstream: read(&written.upstream, whole.upstream),
        idle: read(&written.idle, whole.idle),
        tunnel_idle: read(&written.tunnel_idle, whole.tunnel_idle),
        slow,
    }
}

//! `timeouts` of a route.

use std::time::Duration;

use crate::yaml::Problem;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_net::pace::LeastRate;
use tidegate_upstream::Timeouts;

use crate::bounds;
use crate::bounds::timeouts::{NoLeastRate, Slow, least_rate};
use crate::check::Check;
use crate::routes::Route;
use crate::shape::SingleOr;
use crate::value::Scalar;

/// Timeouts of one route.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteTimeouts {
    /// The longest wait for a connection to an upstream server.
    pub(crate) connect: Option<Scalar<Duration>>,
    /// The longest wait for the head of the upstream's answer, and between two parts of the answer.
    pub(crate) upstream: Option<Scalar<Duration>>,
    /// The longest wait for the next part of a request's body.
    pub(crate) idle: Option<Scalar<Duration>>,
    /// The longest wait for the next byte in a tunnel, in either direction.
    pub(crate) tunnel_idle: Option<Scalar<Duration>>,
    /// The lowest rate at which clients may send and receive: none, or `{ rate, after }`.
    pub(crate) slow: Option<SingleOr<NoLeastRate, Slow>>,
}

/// The timeouts of a route, and the lowest rate at which its clients may send and receive.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ForwardTimeouts {
    /// The timeouts of the upstream.
    pub upstream: Timeouts,
    /// The longest wait for the next part of a request's body.
    pub client: Duration,
    /// The lowest rate at which clients may send request bodies and receive answers. `None` means no bound.
    pub slow: Option<LeastRate>,
    /// The longest wait for the next byte in a tunnel, in either direction.
    pub tunnel: Duration,
    /// The longest wait for a tunnel to end when the gateway stops. `None` means no bound.
    pub drain: Option<Duration>,
}

/// Reads the timeouts of a route. `whole` are the gateway's timeouts, which apply for missing keys.
pub(crate) fn forward_timeouts(
    check: &mut Check<'_>,
    route: &Route,
    whole: bounds::timeouts::Timeouts,
) -> ForwardTimeouts {
    let written = route.timeouts.as_ref();
    if route.upgrade.is_some()
        && whole.tunnel_idle == bounds::timeouts::Timeouts::default().tunnel_idle
    {
        tunnel_without_idle(check, written);
    }
    let slow = written.and_then(|written| written.slow.as_ref());
    let slow = least_rate(check, slow, whole.slow);
    let mut read = |of: fn(&RouteTimeouts) -> &Option<Scalar<Duration>>, usual| {
        let scalar = written.and_then(|written| of(written).as_ref());
        check.read_some(scalar).unwrap_or(usual)
    };
    ForwardTimeouts {
        upstream: Timeouts {
            connect: read(|written| &written.connect, whole.connect),
            answer: read(|written| &written.upstream, whole.upstream),
        },
        client: read(|written| &written.idle, whole.idle),
        slow,
        tunnel: read(|written| &written.tunnel_idle, whole.tunnel_idle),
        drain: whole.drain,
    }
}

/// Warns of `idle` on a route with tunnels if `tunnel_idle` is missing, because `idle` does not apply to tunnels.
fn tunnel_without_idle(check: &mut Check<'_>, written: Option<&RouteTimeouts>) {
    let written = written.filter(|written| written.tunnel_idle.is_none());
    if let Some(scalar) = written.and_then(|written| written.idle.as_ref()) {
        let problem = Problem::new(scalar.place, "`idle` does not end tunnels");
        check.warn(problem.note(
            "it bounds the wait for a part of a request body; a tunnel ends after `tunnel_idle`, 5m by default: write that, too",
        ));
    }
}

//! How the servers of an upstream are used, and how a route waits and tries again.

use std::time::Duration;

use crate::check::server::least_rate;
use crate::file::{self, SingleOr};
use crate::plan::{EjectPlan, HealthPlan, RetryPlan, ServerPlan, Timeouts, UpstreamPlan};
use crate::reading::Check;
use crate::value::{Attempts, CheckPath, Connections, LimitName, Percent, Scalar, Times, Waiting};
use tidegate_yaml::Problem;
use tidegate_yaml::Spanned;

/// The most requests that wait for a connection, if there is a bound on these and nothing else is said.
const MAX_WAITING: usize = 100;

/// How a health check is made if nothing else is said.
const EVERY: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(1);
const HEALTHY_AFTER: u32 = 2;
const UNHEALTHY_AFTER: u32 = 3;

/// The most retries, in percent, if nothing else is said.
const RETRY_BUDGET: u32 = 20;

/// A group with all that is said of it; everything is read, also if its servers were refused.
pub(crate) fn upstream_plan(
    check: &mut Check<'_>,
    name: &Scalar<LimitName>,
    written: &file::Upstream,
    servers: Option<Vec<ServerPlan>>,
) -> Option<UpstreamPlan> {
    let balance = check.read_some(written.balance.as_ref());
    let resolve_every = check.read_some(written.resolve_every.as_ref());
    let eject = eject(check, written.eject.as_ref());
    let health = written
        .health
        .as_ref()
        .map(|health| health_plan(check, health));
    let slow_start = check.read_some(written.slow_start.as_ref());
    let max_connections = check.read_some(written.max_connections.as_ref());
    let max_waiting = check.read_some(written.max_waiting.as_ref());
    if let (Some(scalar), None) = (&written.max_waiting, &written.max_connections) {
        let problem = Problem::new(scalar.place, "no request waits without `max_connections`");
        check.refuse(problem.note("say how many connections one server takes, or leave this out"));
    }
    Some(UpstreamPlan {
        name: name.raw.as_str().into(),
        servers: servers?,
        balance: balance.unwrap_or_default(),
        resolve_every: resolve_every.unwrap_or(UpstreamPlan::RESOLVE_EVERY),
        eject,
        health: match health {
            Some(health) => Some(health?),
            None => None,
        },
        slow_start,
        max_connections: max_connections.map(|Connections(number)| number),
        max_waiting: max_waiting.map_or(MAX_WAITING, |Waiting(number)| number),
    })
}

fn eject(
    check: &mut Check<'_>,
    written: Option<&SingleOr<crate::value::NoEjection, file::Eject>>,
) -> Option<EjectPlan> {
    let usual = EjectPlan::default();
    match written {
        None => Some(usual),
        Some(SingleOr::Single(scalar)) => {
            // What is refused makes no plan anyway.
            let _ = check.read(scalar);
            None
        }
        Some(SingleOr::Block(block)) => {
            let file::Eject {
                after,
                r#for,
                at_most,
            } = &block.value;
            let after = check.read_some(after.as_ref());
            let lasts = check.read_some(r#for.as_ref());
            let at_most = check.read_some(at_most.as_ref());
            Some(EjectPlan {
                after: after.map_or(usual.after, |Times(times)| times),
                lasts: lasts.unwrap_or(usual.lasts),
                at_most: at_most.map_or(usual.at_most, |Percent(percent)| percent),
            })
        }
    }
}

fn health_plan(check: &mut Check<'_>, written: &file::Health) -> Option<HealthPlan> {
    let path = check.read(&written.path);
    let every = check.read_some(written.every.as_ref());
    let timeout = check.read_some(written.timeout.as_ref());
    let times = |scalar: Option<Times>, usual| scalar.map_or(usual, |Times(times)| times);
    let healthy_after = check.read_some(written.healthy_after.as_ref());
    let unhealthy_after = check.read_some(written.unhealthy_after.as_ref());
    Some(HealthPlan {
        path: path.map(|CheckPath(path)| path)?,
        every: every.unwrap_or(EVERY),
        timeout: timeout.unwrap_or(TIMEOUT),
        healthy_after: times(healthy_after, HEALTHY_AFTER),
        unhealthy_after: times(unhealthy_after, UNHEALTHY_AFTER),
    })
}

/// How long a route waits; what it does not say is as `whole`.
pub(crate) fn route_timeouts(
    check: &mut Check<'_>,
    written: Option<&file::RouteTimeouts>,
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

/// When a route's requests are sent once more.
pub(crate) fn retry_plan(
    check: &mut Check<'_>,
    written: &Spanned<file::Retries>,
) -> Option<RetryPlan> {
    let file::Retries {
        attempts,
        timeout,
        budget,
    } = &written.value;
    let timeout = check.read_some(timeout.as_ref());
    let budget = check.read_some(budget.as_ref());
    let Attempts(attempts) = check.read(attempts)?;
    Some(RetryPlan {
        attempts,
        timeout,
        budget: budget.map_or(RETRY_BUDGET, |Percent(percent)| percent),
    })
}

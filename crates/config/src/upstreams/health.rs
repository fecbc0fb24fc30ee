//! `eject` and `health`: the rules by which failing servers get no requests.

use std::time::Duration;

use crate::yaml::{Problem, Spanned};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Map;
use tidegate_upstream::{EjectSettings, HealthRequest, HealthSettings, ServerSettings, Speaks};

use crate::check::Check;
use crate::shape::SingleOr;
use crate::value::answers::StatusRange;
use crate::value::net::host_value;
use crate::value::number::{Percent, bounded};
use crate::value::word::name;
use crate::value::{Fault, Scalar, Value};

/// The rule by which a failing server gets no requests for some time (an ejection).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Eject {
    /// The number of failures in a row that eject a server. A failure is no connection, no answer in time, an incomplete answer, or a
    /// status of `status`. Default: 5.
    pub(crate) after: Option<Scalar<Times>>,
    /// The time of the first ejection. It doubles while the server continues to fail, up to 32 times this value. Default: 10s.
    pub(crate) r#for: Option<Scalar<Duration>>,
    /// The most servers that may be ejected, in percent of all servers. The last server is never ejected. Default: 50%.
    pub(crate) at_most: Option<Scalar<Percent>>,
    /// The statuses that are failures, such as 503 or 5xx. Default: 502, 503, 504.
    pub(crate) status: Option<Vec<Scalar<FailureStatus>>>,
}

/// Health checks of servers: by HTTP or by gRPC. With HTTP, the statuses 200 to 399 are good.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Health {
    /// The path of a check by HTTP.
    pub(crate) path: Option<Scalar<CheckPath>>,
    /// The method of a check by HTTP: GET or HEAD. Default: GET.
    pub(crate) method: Option<Scalar<CheckMethod>>,
    /// Checks by gRPC (grpc.health.v1.Health/Check) in place of `path`. Default: checks by HTTP.
    pub(crate) grpc: Option<Spanned<GrpcHealth>>,
    /// The port of the check. The protocol is the server's. Default: the port of the server.
    pub(crate) port: Option<Scalar<CheckPort>>,
    /// The Host (HTTP/2: the authority) of the check. Default: the host of the server's URL.
    pub(crate) host: Option<Scalar<CheckHost>>,
    /// The time between two checks. Default: 5s.
    pub(crate) every: Option<Scalar<Duration>>,
    /// The longest wait for the connection and the answer together. Default: 1s.
    pub(crate) timeout: Option<Scalar<Duration>>,
    /// The number of good answers in a row after which a server gets requests again. Default: 2.
    pub(crate) healthy_after: Option<Scalar<Times>>,
    /// The number of bad answers in a row after which a server gets no requests. At the first check of a server, one bad answer is enough.
    /// Default: 3.
    pub(crate) unhealthy_after: Option<Scalar<Times>>,
}

/// A check by gRPC.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrpcHealth {
    /// The name of a service. Default: the server as a whole.
    pub(crate) service: Option<Scalar<ServiceName>>,
}

name!(
    /// The name of a gRPC service.
    pub(crate) ServiceName,
    "the name of a gRPC service",
    "letters, digits, `.`, `_`, `-` and `/`, such as shop.Cart; 128 at most",
    |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/')
);

bounded!(
    /// The port of a health check.
    CheckPort(u16),
    1..=65_535,
    "a port",
    "a whole number from 1 to 65535"
);

bounded!(
    /// A number of answers in a row.
    Times(u32),
    1..=1_000,
    "a number of times",
    "a whole number from 1 to 1000"
);

/// The value `none` of `eject`. With `none`, no server is ejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoEjection;

impl Value for NoEjection {
    const NAME: &'static str = "NoEjection";
    const WHAT: &'static str = "an ejection setting";
    const ALLOWED: &'static str = "none, or `{ after: …, for: …, at_most: …, status: … }`";

    fn read(text: &str) -> Result<Self, Fault> {
        (text == "none").then_some(Self).ok_or(Fault::Form)
    }
}

/// A status that counts as a failure of the server, or a class of such statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailureStatus(StatusRange);

impl Value for FailureStatus {
    const NAME: &'static str = "FailureStatus";
    const WHAT: &'static str = "a status that is a failure";
    const ALLOWED: &'static str = "a status from 400 to 599, such as 503, or a class, 4xx or 5xx";

    fn read(text: &str) -> Result<Self, Fault> {
        StatusRange::from(400, text).map(Self)
    }

    fn schema() -> Map<String, serde_json::Value> {
        StatusRange::schema_from(400, "[45]")
    }
}

/// The path of a health check, with its query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckPath(pub(crate) PathAndQuery);

impl Value for CheckPath {
    const NAME: &'static str = "CheckPath";
    const WHAT: &'static str = "a path to ask for";
    const ALLOWED: &'static str = "a path such as /healthz, with a query if need be";

    fn read(text: &str) -> Result<Self, Fault> {
        let path = text.parse().ok().filter(|_| text.starts_with('/'));
        path.map(Self).ok_or(Fault::Form)
    }
}

/// The method of a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckMethod(Method);

impl Value for CheckMethod {
    const NAME: &'static str = "CheckMethod";
    const WHAT: &'static str = "the method of a health check";
    const ALLOWED: &'static str = "GET or HEAD";

    fn read(text: &str) -> Result<Self, Fault> {
        match text {
            "GET" => Ok(Self(Method::GET)),
            "HEAD" => Ok(Self(Method::HEAD)),
            _ => Err(Fault::Form),
        }
    }

    fn words() -> impl Iterator<Item = &'static str> {
        ["GET", "HEAD"].into_iter()
    }
}

/// The host of a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckHost(HeaderValue);

impl Value for CheckHost {
    const NAME: &'static str = "CheckHost";
    const WHAT: &'static str = "the host of a health check";
    const ALLOWED: &'static str = "a host such as api.internal, with a port if need be";

    fn read(text: &str) -> Result<Self, Fault> {
        host_value(text).map(Self)
    }
}

/// The default of `every`, the time between two health checks.
const EVERY: Duration = Duration::from_secs(5);

/// The default of `timeout`, the longest wait for the answer to a health check.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The default of `healthy_after`, in good answers in a row.
const HEALTHY_AFTER: u32 = 2;

/// The default of `unhealthy_after`, in bad answers in a row.
const UNHEALTHY_AFTER: u32 = 3;

pub(crate) fn eject(
    check: &mut Check<'_>,
    written: Option<&SingleOr<NoEjection, Eject>>,
) -> Option<EjectSettings> {
    let usual = EjectSettings::default();
    match written {
        None => Some(usual),
        Some(SingleOr::Single(scalar)) => {
            // If the value is refused, no settings are made, so the result does not matter.
            let _ = check.read(scalar);
            None
        }
        Some(SingleOr::Block(block)) => {
            let Eject {
                after,
                r#for,
                at_most,
                status,
            } = &block.value;
            let after = check.read_some(after.as_ref());
            let lasts = check.read_some(r#for.as_ref());
            let at_most = check.read_some(at_most.as_ref());
            let statuses = status.as_ref().map(|statuses| {
                let read = statuses.iter().filter_map(|scalar| check.read(scalar));
                let ranges = read.map(|FailureStatus(StatusRange(from, to))| (from, to));
                ranges.collect()
            });
            Some(EjectSettings {
                statuses: statuses.unwrap_or(usual.statuses),
                after: after.map_or(usual.after, |Times(times)| times),
                lasts: lasts.unwrap_or(usual.lasts),
                at_most: at_most.map_or(usual.at_most, |Percent(percent)| percent),
            })
        }
    }
}

pub(crate) fn health_settings(
    check: &mut Check<'_>,
    written: &Spanned<Health>,
    servers: Option<&[ServerSettings]>,
) -> Option<HealthSettings> {
    let health = &written.value;
    let request = request(check, written, servers);
    let port = check.read_some(health.port.as_ref());
    let host = check.read_some(health.host.as_ref());
    let every = check.read_some(health.every.as_ref());
    let timeout = check.read_some(health.timeout.as_ref());
    let times = |scalar: Option<Times>, usual| scalar.map_or(usual, |Times(times)| times);
    let healthy_after = check.read_some(health.healthy_after.as_ref());
    let unhealthy_after = check.read_some(health.unhealthy_after.as_ref());
    Some(HealthSettings {
        request: request?,
        port: port.map(|CheckPort(port)| port),
        host: host.map(|CheckHost(host)| host),
        every: every.unwrap_or(EVERY),
        timeout: timeout.unwrap_or(TIMEOUT),
        healthy_after: times(healthy_after, HEALTHY_AFTER),
        unhealthy_after: times(unhealthy_after, UNHEALTHY_AFTER),
    })
}

/// Reads the request of a health check. The check uses HTTP or gRPC.
fn request(
    check: &mut Check<'_>,
    written: &Spanned<Health>,
    servers: Option<&[ServerSettings]>,
) -> Option<HealthRequest> {
    let health = &written.value;
    let path = check.read_some(health.path.as_ref());
    let method = check.read_some(health.method.as_ref());
    let Some(grpc) = &health.grpc else {
        if health.path.is_none() {
            let problem = Problem::new(written.place, "this health check has no path");
            check.refuse(problem.note("write `path: /healthz`, or `grpc: {}` for a check by gRPC"));
        }
        return Some(HealthRequest::Http {
            method: method.map_or(Method::GET, |CheckMethod(method)| method),
            path: path.map(|CheckPath(path)| path)?,
        });
    };
    let service = check.read_some(grpc.value.service.as_ref());
    let path = health.path.as_ref().map(|it| ("path", it.place));
    let method = health.method.as_ref().map(|it| ("method", it.place));
    for (key, place) in path.into_iter().chain(method) {
        let message = format!("a check by gRPC has no `{key}`");
        check.refuse(
            Problem::new(place, message)
                .note("gRPC always calls grpc.health.v1.Health/Check: leave this out, or `grpc`"),
        );
    }
    let is_http1 = |server: &&ServerSettings| matches!(server.speaks, Speaks::Http1);
    if let Some(server) = servers.and_then(|servers| servers.iter().find(is_http1)) {
        let message = format!("{server} speaks HTTP/1.1, which has no gRPC");
        let remedy =
            "gRPC needs HTTP/2: write h2c:// or https:// for each server, or check a `path`";
        check.refuse(Problem::new(grpc.place, message).note(remedy));
    }
    Some(HealthRequest::Grpc {
        service: service.map_or_else(Box::default, |ServiceName(name)| name.into()),
    })
}

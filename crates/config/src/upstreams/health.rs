//! `eject` and `health`: when a server is left out.

use std::time::Duration;

use http::uri::PathAndQuery;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use tidegate_upstream::{EjectPlan, HealthPlan};

use crate::check::Check;
use crate::shape::SingleOr;
use crate::value::answers::StatusRange;
use crate::value::number::{Percent, bounded, object};
use crate::value::{Fault, Scalar, Value};

/// When a server that fails is left out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Eject {
    /// The failures in a row: no connection, no answer in time, a cut answer, or a status of `status`. Default: 5.
    pub(crate) after: Option<Scalar<Times>>,
    /// For how long the first time; it doubles up to 32 times that while the server goes on failing. Default: 10s.
    pub(crate) r#for: Option<Scalar<Duration>>,
    /// The most servers that may be out, of all; one always stays. Default: 50%.
    pub(crate) at_most: Option<Scalar<Percent>>,
    /// The statuses that are failures, such as 503 or 5xx. Default: 502, 503, 504.
    pub(crate) status: Option<Vec<Scalar<FailureStatus>>>,
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

bounded!(
    /// So many in a row.
    Times(u32),
    (1..=1_000),
    "a number of times",
    "a whole number from 1 to 1000"
);

/// That no server is left out.
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

/// A status that is a failure of the server, or a class of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailureStatus(StatusRange);

impl Value for FailureStatus {
    const NAME: &'static str = "FailureStatus";
    const WHAT: &'static str = "a status that is a failure";
    const ALLOWED: &'static str = "a status from 400 to 599, such as 503, or a class, 4xx or 5xx";

    fn read(text: &str) -> Result<Self, Fault> {
        let range = StatusRange::read(text)?;
        (range.0 >= 400).then_some(Self(range)).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        let status = json!({ "type": "integer", "minimum": 400, "maximum": 599 });
        object(json!({ "anyOf": [status, { "type": "string", "pattern": "^[45](xx|[0-9]{2})$" }] }))
    }
}

/// What a health check asks for.
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

/// How a health check is made if nothing else is said.
const EVERY: Duration = Duration::from_secs(5);

const TIMEOUT: Duration = Duration::from_secs(1);

const HEALTHY_AFTER: u32 = 2;

const UNHEALTHY_AFTER: u32 = 3;

pub(crate) fn eject(
    check: &mut Check<'_>,
    written: Option<&SingleOr<NoEjection, Eject>>,
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
            Some(EjectPlan {
                statuses: statuses.unwrap_or(usual.statuses),
                after: after.map_or(usual.after, |Times(times)| times),
                lasts: lasts.unwrap_or(usual.lasts),
                at_most: at_most.map_or(usual.at_most, |Percent(percent)| percent),
            })
        }
    }
}

pub(crate) fn health_plan(check: &mut Check<'_>, written: &Health) -> Option<HealthPlan> {
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

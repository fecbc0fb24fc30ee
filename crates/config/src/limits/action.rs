//! `action` and `count`: the action on refused requests, and the statuses of answers after which a request stays charged.

use std::sync::Arc;
use std::time::Duration;

use crate::yaml::{Place, Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use tidegate_core::Quota;
use tidegate_store::Mode;
use tidegate_tower::Action;

use crate::check::Check;
use crate::limits::WrittenLimit;
use crate::limits::cost::WrittenCost;
use crate::limits::sharing::unfit_mode;
use crate::shape::SingleOr;
use crate::value::answers::StatusRange;
use crate::value::number::object;
use crate::value::word::LimitName;
use crate::value::{Fault, Scalar, Value};

/// An action that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Action")]
pub(crate) struct WrittenAction {
    /// A refused request waits for its turn.
    pub(crate) delay: Delay,
}

/// The wait of requests over the limit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Delay {
    /// The longest wait, at most 1h. Requests that would wait longer are rejected at once.
    pub(crate) max: Scalar<Duration>,
}

/// The answers after which a request stays charged. After any other answer, the request's units are free again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counted {
    /// The statuses of answers after which a request stays charged: 200 to 599, or classes such as 4xx.
    pub(crate) status: Spanned<Vec<Scalar<Status>>>,
}

/// A value of `action` that is one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionWord {
    Reject,
    Drop,
    /// No action: the limit only counts.
    Observe,
}

impl Value for ActionWord {
    const NAME: &'static str = "Action";
    const WHAT: &'static str = "an action";
    const ALLOWED: &'static str = "reject, drop, observe, or `delay: { max: … }`";

    fn read(text: &str) -> Result<Self, Fault> {
        match text {
            "reject" => Ok(Self::Reject),
            "drop" => Ok(Self::Drop),
            "observe" => Ok(Self::Observe),
            "delay" => Err(Fault::Because("`delay` needs a longest wait")),
            _ => Err(Fault::Form),
        }
    }

    fn schema() -> Map<String, serde_json::Value> {
        object(json!({ "enum": ["reject", "drop", "observe"] }))
    }
}

/// A status of answers, or a class of statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(StatusRange);

impl Value for Status {
    const NAME: &'static str = "Status";
    const WHAT: &'static str = "the status of an answer";
    const ALLOWED: &'static str = "a status from 200 to 599, such as 401, or a class, such as 4xx";

    fn read(text: &str) -> Result<Self, Fault> {
        StatusRange::from(200, text).map(Self)
    }

    fn schema() -> Map<String, serde_json::Value> {
        StatusRange::schema_from(200, "[2-5]")
    }
}

/// The longest allowed `max` of a delay. It is bounded, because a waiting request keeps its connection open.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// The action of a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitAction {
    /// The action on a request that the limit refuses.
    pub(crate) of_refused: Action,
    /// Whether the limit only counts, and refuses no request.
    pub(crate) observes: bool,
}

/// Returns the name and the place of a limit's `count`, or of its cost that is read from the answer. With either setting, a request holds
/// units until it is answered. `None` if the limit has neither.
pub(crate) fn reserving(limit: &WrittenLimit) -> Option<(&'static str, Option<Place>)> {
    if let Some(count) = &limit.count {
        return Some(("`count`", count.place));
    }
    match &limit.cost {
        Some(SingleOr::Block(block)) => {
            let (place, _) = answer_key(&block.value)?;
            let reserve = block.value.reserve.as_ref();
            Some((
                "a cost from the answer",
                reserve.map_or(place, SingleOr::place),
            ))
        }
        _ => None,
    }
}

/// Returns the place and the name of the key that reads the cost from the answer. `None` if there is no such key.
fn answer_key(cost: &WrittenCost) -> Option<(Option<Place>, &'static str)> {
    let header = cost.response_header.as_ref();
    let header = header.map(|scalar| (scalar.place, "response_header"));
    let json = cost.response_json.as_ref();
    header.or_else(|| json.map(|written| (written.place(), "response_json")))
}

pub(crate) fn action(
    check: &mut Check<'_>,
    limit: &WrittenLimit,
    quota: Option<&Quota>,
) -> LimitAction {
    let delay = match &limit.action {
        None => return LimitAction::default(),
        Some(SingleOr::Single(word)) => {
            let mut does = LimitAction::default();
            match check.read(word) {
                Some(ActionWord::Drop) => does.of_refused = Action::Drop,
                Some(ActionWord::Observe) => does.observes = true,
                Some(ActionWord::Reject) | None => {}
            }
            return does;
        }
        Some(SingleOr::Block(block)) => block,
    };
    let scalar = &delay.value.delay.max;
    let max = check.read(scalar).unwrap_or_default();
    if max > LONGEST_WAIT {
        check.refuse(Problem::new(scalar.place, "the longest wait is 1h"));
    }
    let why = match quota {
        Some(quota) if quota.is_queue() => {
            "what a leaky_bucket admits waits for its turn already, and what it refuses finds its queue full"
        }
        Some(quota) if quota.lease().is_some() => {
            "the time at which the next request ends is not known"
        }
        _ if limit.block.is_some() => "a limit with `block` refuses at once when it is exceeded",
        _ => {
            return LimitAction {
                of_refused: Action::Delay { max },
                observes: false,
            };
        }
    };
    let problem = Problem::new(delay.place, "this limit cannot delay").note(why);
    check.refuse(problem.note("allowed here: reject, drop, observe"));
    LimitAction::default()
}

/// Reads the statuses of answers whose requests stay charged, as ranges. `None` if all requests stay charged.
pub(crate) fn count(check: &mut Check<'_>, limit: &WrittenLimit) -> Option<Arc<[(u16, u16)]>> {
    let written = &limit.count.as_ref()?.value.status;
    let mut statuses: Vec<(u16, u16)> = Vec::new();
    for scalar in &written.value {
        let Some(Status(StatusRange(first, last))) = check.read(scalar) else {
            continue;
        };
        if statuses
            .iter()
            .any(|other| first <= other.1 && other.0 <= last)
        {
            let problem = Problem::new(scalar.place, format!("`{}` is here twice", scalar.raw));
            check.refuse(problem);
        }
        statuses.push((first, last));
    }
    if written.value.is_empty() {
        let problem = Problem::new(written.place, "an empty list counts no request");
        check.refuse(problem.note("name at least one status, such as 401"));
    }
    Some(statuses.into())
}

/// Refuses `count`, and a cost from the answer, if the limit's algorithm or mode cannot return units.
pub(crate) fn reserves_fit(
    check: &mut Check<'_>,
    name: &Scalar<LimitName>,
    limit: &WrittenLimit,
    quota: &Quota,
    mode: Mode,
) {
    let Some((what, place)) = reserving(limit) else {
        return;
    };
    let key = match &limit.cost {
        Some(SingleOr::Block(block)) => answer_key(&block.value),
        _ => None,
    };
    if let Some((place, key)) = key.filter(|_| limit.count.is_some()) {
        let problem = Problem::new(
            place,
            "a charge is settled by the status of the answer or by its cost, not by both",
        );
        check.refuse(problem.note(format!("leave out `count`, or `{key}` and `reserve`")));
    }
    if quota.is_queue() || quota.lease().is_some() {
        let message = format!("a {} cannot have {what}", quota.algorithm());
        let problem = Problem::new(place, message);
        check.refuse(problem.note("such a limit is charged before the answer is known"));
    }
    if matches!(mode, Mode::Leased | Mode::Synced) {
        let message = format!("a limit with {what} cannot be {}", mode.word());
        check.refuse(unfit_mode(name, limit, message).note("allowed here: exact, local"));
    }
}

//! `cost`: the units that a request is charged. Refuses a cost that the limit can never admit.

use crate::yaml::{Place, Problem};
use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::Quota;
use tidegate_tower::{Cost, JsonPath, Missing};

use crate::check::Check;
use crate::clients::WrittenClients;
use crate::limits::WrittenLimit;
use crate::shape::SingleOr;
use crate::value::Scalar;
use crate::value::number::Count;

/// A cost that differs from request to request: `header` and `max`, or `reserve` with `response_header` or `response_json`. `missing` is
/// for `response_json` only.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Cost")]
#[schemars(extend("minProperties" = 2, "maxProperties" = 3))]
pub(crate) struct WrittenCost {
    /// The request header with the cost, trusted from `trusted_proxies` only. A request without the header costs 1.
    pub(crate) header: Option<Scalar<HeaderName>>,
    /// The highest cost. A larger number in the header counts as `max`.
    pub(crate) max: Option<Scalar<Count>>,
    /// The answer's header with the cost, a whole number from 0 up. If the answer lacks the header, the request costs `reserve`.
    pub(crate) response_header: Option<Scalar<HeaderName>>,
    /// The path of the cost in the answer's JSON body or events, such as usage.total_tokens. If the answer lacks the number, `missing`
    /// applies.
    pub(crate) response_json: Option<Scalar<JsonPath>>,
    /// The units that a request is charged until the gateway has read the cost in the answer.
    pub(crate) reserve: Option<Scalar<Count>>,
    /// The cost of a request whose successful answer lacks the number: reserve, or all for the limit's capacity. Default: reserve.
    pub(crate) missing: Option<Scalar<Missing>>,
}

/// Reads the cost of a request. Refuses a cost that never fits the quota.
pub(crate) fn cost(
    check: &mut Check<'_>,
    limit: &WrittenLimit,
    quota: Option<&Quota>,
    clients: WrittenClients<'_>,
) -> Option<Cost> {
    let (cost, place) = match limit.cost.as_ref()? {
        SingleOr::Single(scalar) => {
            let cost = at_least_1(check, scalar, "cost")?;
            (Cost::Fixed(cost), scalar.place)
        }
        SingleOr::Block(block) => read_cost(check, &block.value, block.place, clients)?,
    };
    if let Some(quota) = quota {
        fits(check, &cost, quota, place);
    }
    Some(cost)
}

/// Reads a cost that a request or its answer contains. Returns the cost, and the place of its number: `max` or `reserve`.
fn read_cost(
    check: &mut Check<'_>,
    written: &WrittenCost,
    place: Option<Place>,
    clients: WrittenClients<'_>,
) -> Option<(Cost, Option<Place>)> {
    let WrittenCost {
        header,
        max,
        response_header,
        response_json,
        reserve,
        missing,
    } = written;
    match (header, max, response_header, response_json, reserve) {
        (Some(header), Some(scalar), None, None, None) if missing.is_none() => {
            let name = check.read(header);
            let max = at_least_1(check, scalar, "max");
            if !clients.has_proxies() {
                let problem = Problem::new(header.place, "this header is never believed");
                check.warn(problem.note(
                    "a cost is believed from `trusted_proxies` only, and none is listed: every request costs 1",
                ));
            }
            let (name, max) = (name?, max?);
            Some((Cost::Header { name, max }, scalar.place))
        }
        (None, None, Some(header), None, Some(scalar)) if missing.is_none() => {
            let name = check.read(header);
            let reserve = at_least_1(check, scalar, "reserve");
            let (name, reserve) = (name?, reserve?);
            Some((Cost::Answer { name, reserve }, scalar.place))
        }
        (None, None, None, Some(path), Some(scalar)) => {
            let path = check.read(path);
            let reserve = at_least_1(check, scalar, "reserve");
            let missing = match missing {
                None => Missing::default(),
                Some(scalar) => check.read(scalar)?,
            };
            let cost = Cost::Body {
                path: path?,
                reserve: reserve?,
                missing,
            };
            Some((cost, scalar.place))
        }
        _ => {
            let problem = Problem::new(place, "this is not a valid cost");
            check.refuse(problem.note(
                "allowed here: `header` and `max`, or `reserve` with `response_header` or `response_json`; `missing` goes with `response_json`",
            ));
            None
        }
    }
}

/// Refuses a cost that never fits the quota. Does not check costs from a request header, because they differ between requests.
pub(crate) fn fits(check: &mut Check<'_>, cost: &Cost, quota: &Quota, place: Option<Place>) {
    let capacity = quota.capacity();
    if let Some(cost) = cost.at_first()
        && cost > capacity
    {
        check.refuse(Problem::new(
            place,
            format!("a cost of {cost} never fits where at most {capacity} is admitted at once"),
        ));
    }
}

pub(super) fn at_least_1(check: &mut Check<'_>, scalar: &Scalar<Count>, what: &str) -> Option<u64> {
    let Count(number) = check.read(scalar)?;
    if number == 0 {
        let message = format!("`{what}` must be at least 1");
        check.refuse(Problem::new(scalar.place, message));
        return None;
    }
    Some(number)
}

//! `cost`: the units that a request is charged. Refuses a cost that the limit can never admit.

use crate::yaml::{Place, Problem};
use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::Quota;
use tidegate_tower::{Cost, Missing};

use crate::check::Check;
use crate::clients::WrittenClients;
use crate::limits::WrittenLimit;
use crate::limits::models::{WrittenPrices, prices};
use crate::limits::reserve::{WrittenReserve, read_reserve};
use crate::limits::units::{WrittenNumbers, at_least_1, numbers};
use crate::shape::SingleOr;
use crate::value::Scalar;
use crate::value::number::Count;

/// A cost that differs from request to request: `header` and `max`, or `reserve` with `response_header` or `response_json`. `missing` and
/// `per_model` are for `response_json` only.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Cost")]
#[schemars(extend("minProperties" = 2, "maxProperties" = 4))]
pub(crate) struct WrittenCost {
    /// The request header with the cost, trusted from `trusted_proxies` only. A request without the header costs 1.
    pub(crate) header: Option<Scalar<HeaderName>>,
    /// The highest cost. A larger number in the header counts as `max`.
    pub(crate) max: Option<Scalar<Count>>,
    /// The answer's header with the cost, a whole number from 0 up. If the answer lacks the header, the request costs `reserve`.
    pub(crate) response_header: Option<Scalar<HeaderName>>,
    /// The path of the cost in the answer's JSON body or events, such as usage.total_tokens, or several paths with the units for each 1. If
    /// the answer has none of the numbers, `missing` applies.
    pub(crate) response_json: Option<WrittenNumbers>,
    /// The units that a request is charged until the gateway has read the cost in the answer: a number, or parts of the request.
    pub(crate) reserve: Option<SingleOr<Count, WrittenReserve>>,
    /// The cost of a request whose successful answer lacks the number: reserve, or all for the limit's capacity. Default: reserve.
    pub(crate) missing: Option<Scalar<Missing>>,
    /// The prices of models, which multiply the units. Default: all models have the price 1.
    pub(crate) per_model: Option<WrittenPrices>,
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
        per_model,
    } = written;
    let has_body_keys = missing.is_some() || per_model.is_some();
    match (header, max, response_header, response_json, reserve) {
        (Some(header), Some(scalar), None, None, None) if !has_body_keys => {
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
        (None, None, Some(header), None, Some(written)) if !has_body_keys => {
            let name = check.read(header);
            let reserve = read_reserve(check, written);
            let (name, (reserve, place)) = (name?, reserve?);
            Some((Cost::Answer { name, reserve }, place))
        }
        (None, None, None, Some(paths), Some(written)) => {
            let numbers = numbers(check, paths);
            let reserve = read_reserve(check, written);
            let missing = match missing {
                None => Missing::default(),
                Some(scalar) => check.read(scalar)?,
            };
            let prices = match per_model {
                None => None,
                Some(written) => Some(prices(check, written)?),
            };
            let (numbers, (reserve, place)) = (numbers?, reserve?);
            let reserve = match prices {
                None => reserve,
                Some(prices) => reserve.priced(prices),
            };
            let cost = Cost::Body {
                numbers,
                reserve,
                missing,
            };
            Some((cost, place))
        }
        _ => {
            let problem = Problem::new(place, "this is not a valid cost");
            check.refuse(problem.note(
                "allowed here: `header` and `max`, or `reserve` with `response_header` or `response_json`; `missing` and `per_model` go with `response_json`",
            ));
            None
        }
    }
}

/// Refuses a cost that never fits the quota. Does not check costs from a request, because they differ between requests.
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

//! `reserve`: the units that a request holds until its answer names the cost.

use crate::yaml::{Place, Problem};
use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_tower::{RequestReserve, Reserve, Weight};

use crate::check::Check;
use crate::limits::units::{WrittenNumbers, at_least_1, numbers};
use crate::shape::SingleOr;
use crate::value::number::Count;
use crate::value::{Scalar, Value};

/// The parts of a request that determine the units to reserve. The file must have `request_json`, `request_header` or
/// `request_bytes`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Reserve")]
#[schemars(extend("minProperties" = 3))]
pub(crate) struct WrittenReserve {
    /// The path of the number in the request's JSON body, such as max_tokens, or several paths with the units for each 1. The first 64 KB
    /// of the body are read.
    pub(crate) request_json: Option<WrittenNumbers>,
    /// The header with the number of units, which any client may send.
    pub(crate) request_header: Option<Scalar<HeaderName>>,
    /// The units for each byte of the body, added to the other units.
    pub(crate) request_bytes: Option<Scalar<Weight>>,
    /// The units for a request without any of the numbers.
    pub(crate) default: Scalar<Count>,
    /// The most units that a request reserves.
    pub(crate) max: Scalar<Count>,
}

/// Reads the units to reserve, and the place of the number of units that must fit.
pub(super) fn read_reserve(
    check: &mut Check<'_>,
    written: &SingleOr<Count, WrittenReserve>,
) -> Option<(Reserve, Option<Place>)> {
    let block = match written {
        SingleOr::Single(scalar) => {
            let units = at_least_1(check, scalar, "reserve")?;
            return Some((Reserve::Fixed(units), scalar.place));
        }
        SingleOr::Block(block) => block,
    };
    let WrittenReserve {
        request_json,
        request_header,
        request_bytes,
        default,
        max,
    } = &block.value;
    if request_json.is_none() && request_header.is_none() && request_bytes.is_none() {
        let problem = Problem::new(block.place, "no part of the request is named");
        check.refuse(problem.note(
            "allowed here: `request_json`, `request_header` and `request_bytes`, with `default` and `max`",
        ));
    }
    let numbers = match request_json {
        Some(written) => numbers(check, written),
        None => Some(Box::default()),
    };
    let header = optional(check, request_header.as_ref());
    let byte = optional(check, request_bytes.as_ref());
    let units = at_least_1(check, default, "default");
    let most = at_least_1(check, max, "max");
    let (units, most) = (units?, most?);
    if units > most {
        let message = format!("a default of {units} is above `max`, which is {most}");
        check.refuse(Problem::new(default.place, message));
    }
    let reserve = RequestReserve {
        numbers: numbers?,
        header: header?,
        byte: byte?,
        default: units,
        max: most,
        prices: None,
    };
    Some((Reserve::Request(Box::new(reserve)), default.place))
}

/// Reads a value that may be left out. `None` if the value is written and not valid.
fn optional<T: Value>(check: &mut Check<'_>, written: Option<&Scalar<T>>) -> Option<Option<T>> {
    match written {
        Some(scalar) => check.read(scalar).map(Some),
        None => Some(None),
    }
}

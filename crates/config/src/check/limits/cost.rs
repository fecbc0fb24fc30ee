//! Costs: what a request is charged as, and whether that can ever fit.

use tidegate_core::Quota;
use tidegate_tower::Cost;

use crate::file::{self, File, SingleOr};
use crate::reading::Check;
use crate::value::{Count, Scalar};
use tidegate_yaml::{Place, Problem};

/// What a request costs at a limit with this quota.
pub(crate) fn cost(
    check: &mut Check<'_>,
    limit: &file::Limit,
    quota: Option<&Quota>,
    file: &File,
) -> Option<Cost> {
    let cost = match limit.cost.as_ref()? {
        SingleOr::Single(scalar) => {
            let cost = at_least_1(check, scalar, "cost")?;
            if let Some(quota) = quota {
                fits(check, &Cost::Fixed(cost), quota, scalar.place);
            }
            Cost::Fixed(cost)
        }
        SingleOr::Block(block) => told(check, &block.value, block.place, quota, file)?,
    };
    Some(cost)
}

/// A cost that a header says: a request's, or its answer's.
fn told(
    check: &mut Check<'_>,
    written: &file::Cost,
    place: Option<Place>,
    quota: Option<&Quota>,
    file: &File,
) -> Option<Cost> {
    let file::Cost {
        header,
        max,
        response_header,
        reserve,
    } = written;
    match (header, max, response_header, reserve) {
        (Some(header), Some(max), None, None) => {
            let name = check.read(header);
            let max = at_least_1(check, max, "max");
            if file.trusted_proxies.iter().flatten().next().is_none() {
                let problem = Problem::new(header.place, "this header is never believed");
                check.warn(problem.note(
                    "a cost is believed from `trusted_proxies` only, and none is listed: every request costs 1",
                ));
            }
            Some(Cost::Header {
                name: name?,
                max: max?,
            })
        }
        (None, None, Some(header), Some(scalar)) => {
            let name = check.read(header);
            let reserve = at_least_1(check, scalar, "reserve");
            let cost = Cost::Answer {
                name: name?,
                reserve: reserve?,
            };
            if let Some(quota) = quota {
                fits(check, &cost, quota, scalar.place);
            }
            Some(cost)
        }
        _ => {
            let problem = Problem::new(place, "this is not a valid cost");
            check.refuse(
                problem
                    .note("allowed here: `header` and `max`, or `response_header` and `reserve`"),
            );
            None
        }
    }
}

/// Refuses a cost that is the same for every request, and never fits.
pub(crate) fn fits(check: &mut Check<'_>, cost: &Cost, quota: &Quota, place: Option<Place>) {
    let capacity = quota.capacity();
    if let Cost::Fixed(cost) | Cost::Answer { reserve: cost, .. } = cost
        && *cost > capacity
    {
        check.refuse(Problem::new(
            place,
            format!("a cost of {cost} never fits where at most {capacity} is admitted at once"),
        ));
    }
}

fn at_least_1(check: &mut Check<'_>, scalar: &Scalar<Count>, what: &str) -> Option<u64> {
    let Count(number) = check.read(scalar)?;
    if number == 0 {
        let message = format!("`{what}` must be at least 1");
        check.refuse(Problem::new(scalar.place, message));
        return None;
    }
    Some(number)
}

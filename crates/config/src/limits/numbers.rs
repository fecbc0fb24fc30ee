//! What the configuration asks of an algorithm's numbers, and how it reports numbers that do not fit together.

use std::fmt::Debug;

use crate::yaml::{Place, Problem};
use tidegate_core::{Quota, QuotaError};

use crate::check::Check;
use crate::value::Scalar;
use crate::value::number::Count;

/// The numbers of an algorithm, as they are written.
pub(crate) trait Numbers: Debug {
    /// The quota; none if something in it was refused.
    fn quota(&self, check: &mut Check<'_>) -> Option<Quota>;

    /// Returns where the number stands that says how much it admits at once, and where its window does, if it has one.
    fn places(&self) -> (Option<Place>, Option<Place>);
}

/// A quota, if its numbers fit together; else the number that does not is pointed at.
pub(crate) fn fit(
    check: &mut Check<'_>,
    quota: Result<Quota, QuotaError>,
    count: &Scalar<Count>,
    time: Option<Place>,
) -> Option<Quota> {
    let error = match quota {
        Ok(quota) => return Some(quota),
        Err(error) => error,
    };
    let place = match error {
        QuotaError::TooLarge { .. } => count.place,
        QuotaError::Zero(what) if !matches!(what, "window" | "rate") => count.place,
        _ => time,
    };
    let problem = Problem::new(place, error.to_string());
    check.refuse(match error {
        QuotaError::Zero("capacity" | "limit") => {
            problem.note("to refuse clients altogether, list them under `deny`")
        }
        _ => problem,
    });
    None
}

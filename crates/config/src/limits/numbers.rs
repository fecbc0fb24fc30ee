//! The numbers of an algorithm in the configuration, and the errors if they do not fit together.

use std::fmt::Debug;

use crate::yaml::{Place, Problem};
use tidegate_core::{Quota, QuotaError};

use crate::check::Check;
use crate::value::Scalar;
use crate::value::number::Count;

/// The numbers of an algorithm, as they are written.
pub(crate) trait Numbers: Debug {
    /// Reads the quota. `None` if a number was refused.
    fn quota(&self, check: &mut Check<'_>) -> Option<Quota>;

    /// Returns two places: the place of the number that bounds units or requests, and the place of the window. An algorithm without a
    /// window has `None` as the second place.
    fn places(&self) -> (Option<Place>, Option<Place>);
}

/// Returns the quota, if its numbers fit together. Otherwise reports the error at the number that does not fit.
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

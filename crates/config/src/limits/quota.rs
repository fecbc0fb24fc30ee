//! Quotas, each with exactly one algorithm, and the table of algorithms.

use crate::yaml::{Place, Problem};
use tidegate_core::Quota;

use crate::check::Check;
use crate::limits::numbers::Numbers;

/// Passes the table of algorithms to a macro: the key of each algorithm, and the type of its numbers as written. Windows of days and months
/// belong to `fixed_window`.
macro_rules! algorithms {
    ($then:ident) => {
        $then! {
            /// A bucket of `capacity` units, refilled at the rate `refill`.
            token_bucket: $crate::limits::bucket::WrittenTokenBucket,
            /// A queue that drains at a constant rate.
            leaky_bucket: $crate::limits::bucket::WrittenLeakyBucket,
            /// At most `limit` units per window; windows start at multiples of their length.
            fixed_window: $crate::limits::window::WrittenFixedWindow,
            /// At most `limit` units in any window, exactly; keeps one timestamp per request.
            sliding_window_log: $crate::limits::window::WrittenLog,
            /// At most `limit` units in any window, by estimate; keeps two numbers.
            sliding_window_counter: $crate::limits::window::WrittenCounter,
            /// At most `limit` units in flight.
            concurrency: $crate::limits::concurrency::WrittenConcurrency,
        }
    };
}

macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident: $numbers:ty,)*) => {
        [$(stringify!($key)),*]
    };
}

/// Reads the quota of the only algorithm in `written`. `whose` names the limit or the plan in messages, and `place` is where the limit or
/// the plan is written.
pub(crate) fn quota(
    check: &mut Check<'_>,
    whose: &str,
    place: Option<Place>,
    written: &[&dyn Numbers],
) -> Option<Quota> {
    let many = match written {
        [only] => return only.quota(check),
        [] => "no algorithm",
        _ => "more than one algorithm",
    };
    let allowed = algorithms!(keys).join(", ");
    let problem = Problem::new(place, format!("{whose} has {many}"));
    check.refuse(problem.note(format!("allowed here: exactly one of {allowed}")));
    None
}

pub(crate) use algorithms;

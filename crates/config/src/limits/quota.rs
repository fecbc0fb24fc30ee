//! Quotas: exactly one algorithm. The table of algorithms, as the configuration has them.

use crate::yaml::{Place, Problem};
use tidegate_core::Quota;

use crate::check::Check;
use crate::limits::numbers::Numbers;

/// Hands the table of algorithms to a macro: the key of each, and the type of its numbers as they are written. A calendar's windows
/// are fixed ones.
macro_rules! algorithms {
    ($then:ident) => {
        $then! {
            /// A burst of `capacity`, filled up again at `refill`.
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

/// Reads the quota of the only algorithm in `written`. Messages contain `whose` and `place`.
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

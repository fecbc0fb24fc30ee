//! `concurrency`: a limit on requests in flight.

use std::time::Duration;

use crate::yaml::{Place, Problem};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::{Concurrency, Quota, micros};

use crate::check::Check;
use crate::limits::numbers::{Numbers, fit};
use crate::value::Scalar;
use crate::value::number::Count;

/// The default of `lease`. If a gateway dies, its holds lapse after this time.
const LEASE: Duration = Duration::from_secs(10);
/// The shortest lease. A gateway must be able to renew a lease several times before the lease lapses.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// The numbers of a limit on requests in flight.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Concurrency")]
pub(crate) struct WrittenConcurrency {
    /// The most units in flight.
    pub(crate) limit: Scalar<Count>,
    /// The time after which the holds of a dead gateway lapse, at least 1s. Default: 10s.
    pub(crate) lease: Option<Scalar<Duration>>,
}

impl Numbers for WrittenConcurrency {
    fn quota(&self, check: &mut Check<'_>) -> Option<Quota> {
        let count = check.read(&self.limit);
        let length = check.read_some(self.lease.as_ref());
        let place = self.lease.as_ref().and_then(|scalar| scalar.place);
        if length.is_some_and(|length| length < SHORTEST_LEASE) {
            let problem = Problem::new(place, "the shortest lease is 1s");
            check.refuse(problem.note("the gateway renews the lease while the request runs"));
            return None;
        }
        let quota = Concurrency::new(count?.0, micros(length.unwrap_or(LEASE)));
        fit(check, quota.map(Quota::from), &self.limit, place)
    }

    fn places(&self) -> (Option<Place>, Option<Place>) {
        (self.limit.place, None)
    }
}

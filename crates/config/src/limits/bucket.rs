//! `token_bucket` and `leaky_bucket`.

use crate::yaml::Place;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::{LeakyBucket, Quota, Rate, TokenBucket};

use crate::check::Check;
use crate::limits::numbers::{Numbers, fit};
use crate::value::Scalar;
use crate::value::number::Count;

/// The numbers of a token bucket.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TokenBucket")]
pub(crate) struct WrittenTokenBucket {
    /// The units of a full bucket, which can be taken at once.
    pub(crate) capacity: Scalar<Count>,
    /// The rate at which units are added, such as 10/s.
    pub(crate) refill: Scalar<Rate>,
}

impl Numbers for WrittenTokenBucket {
    fn quota(&self, check: &mut Check<'_>) -> Option<Quota> {
        let (count, rate) = (check.read(&self.capacity), check.read(&self.refill));
        let quota = TokenBucket::new(count?.0, rate?).map(Quota::from);
        fit(check, quota, &self.capacity, self.refill.place)
    }

    fn places(&self) -> (Option<Place>, Option<Place>) {
        (self.capacity.place, None)
    }
}

/// The numbers of a leaky bucket.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LeakyBucket")]
pub(crate) struct WrittenLeakyBucket {
    /// The most requests in the queue, including a request that leaves it at once.
    pub(crate) queue: Scalar<Count>,
    /// The rate at which requests leave the queue, such as 10/s.
    pub(crate) drain: Scalar<Rate>,
    /// Whether admitted requests are forwarded at once, without a wait for their turn. Default: false.
    pub(crate) nodelay: Option<Scalar<bool>>,
}

// `nodelay` is not part of the quota. `has_nodelay` reads it.
impl Numbers for WrittenLeakyBucket {
    fn quota(&self, check: &mut Check<'_>) -> Option<Quota> {
        let (count, rate) = (check.read(&self.queue), check.read(&self.drain));
        let quota = LeakyBucket::new(count?.0, rate?).map(Quota::from);
        fit(check, quota, &self.queue, self.drain.place)
    }

    fn places(&self) -> (Option<Place>, Option<Place>) {
        (self.queue.place, None)
    }
}

/// Reads whether requests that a leaky bucket admits are forwarded at once, without a wait for their turn.
pub(crate) fn has_nodelay(check: &mut Check<'_>, bucket: Option<&WrittenLeakyBucket>) -> bool {
    let scalar = bucket.and_then(|bucket| bucket.nodelay.as_ref());
    check.read_some(scalar).unwrap_or_default()
}

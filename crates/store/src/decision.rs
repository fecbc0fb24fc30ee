//! Decisions of a store.

use std::time::Duration;

use tidegate_core::{HoldId, Micros, Verdict};

use crate::{PerCharge, StoreError};

/// One verdict per charge, in the order of the charges; `None` for a limit that did not decide, such as an `open` limit without Redis.
pub type Verdicts = PerCharge<Option<Verdict>>;

/// The source of each verdict, in the order of the charges.
pub type Sources = PerCharge<Source>;

/// The source of a verdict, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The time by the source's clock, in us since the epoch.
    pub at: Micros,
    /// Whether the source is this process, and not Redis.
    pub here: bool,
    /// The ID of the charge's hold, if its limit takes holds.
    pub hold: HoldId,
}

/// Whether the limits admitted the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every enforced limit admitted the request. Every limit that admitted it was charged.
    Admitted,
    /// At least one limit refused the request. No limit was charged, except units of a leased limit that Redis had already charged.
    Refused,
    /// Redis did not decide on a limit with `on_failure: closed`. No limit was charged.
    Unavailable,
}

/// The way in which the request was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The configured store.
    Store,
    /// This process, which repeated a cached refusal of Redis that is still valid.
    Remembered,
    /// This process, because the modes of the limits allow decisions without Redis.
    Here,
    /// The limits' `on_failure`, because Redis did not decide.
    Fallback,
}

/// The decision on one request's charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the limits admitted the request.
    pub outcome: Outcome,
    /// The way in which the request was decided.
    pub via: Via,
    /// The time of the decision in us since the epoch, by Redis's clock, or by this machine's clock if this process decided.
    pub now: Micros,
    /// The verdict of each limit.
    pub verdicts: Verdicts,
    /// The source of each verdict.
    pub sources: Sources,
    /// The call to Redis, if there was one.
    pub call: Option<StoreCall>,
}

impl Decision {
    /// Returns a refusal that repeats an answer of Redis. `now` is the present time by Redis's clock.
    pub(crate) fn remembered(now: Micros, verdicts: impl Iterator<Item = Option<Verdict>>) -> Self {
        let verdicts: Verdicts = verdicts.collect();
        Self {
            outcome: Outcome::Refused,
            via: Via::Remembered,
            now,
            sources: Self::sources(verdicts.len(), now, false, HoldId(0)),
            verdicts,
            call: None,
        }
    }

    /// Returns one source for every charge of a decision. `hold` is the ID of the holds, if there are any.
    pub(crate) fn sources(charges: usize, at: Micros, here: bool, hold: HoldId) -> Sources {
        Sources::from_elem(Source { at, here, hold }, charges)
    }
}

/// The verdict that a charge would get now. No unit is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The time by the store's clock, in us since the epoch.
    pub now: Micros,
    /// The verdict of this limit alone.
    pub verdict: Verdict,
    /// Whether the verdict is from the counts of this process alone, so that other gateways may admit the same units.
    pub here: bool,
}

/// The state of a charge in this process, read without a charge and without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalView {
    /// The verdict without Redis: by this process's share of the quota, or by the process's own count ([`Mode::Local`](crate::Mode)).
    pub outlook: Outlook,
    /// The capacity that the outlook is computed from: the share's or the whole quota's.
    pub capacity: u64,
    /// The units left in a borrowed slice ([`Mode::Leased`](crate::Mode)).
    pub leased: Option<u64>,
    /// The last decision of Redis on the key, if it is cached.
    pub last: Option<LastDecision>,
}

/// The last decision of Redis on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastDecision {
    /// The units that were left after the decision.
    pub remaining: u64,
    /// The time until the refusal ends, in us. 0 if the refusal has ended, or if the request was admitted.
    pub retry_after: Micros,
    /// The time since this process received the decision.
    pub age: Duration,
}

/// A call to Redis, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreCall {
    /// The time that the decision waited for the call.
    pub took: Duration,
    /// The error, if the call returned no decision.
    pub error: Option<StoreError>,
}

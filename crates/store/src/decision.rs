//! What came out of a store.

use std::time::Duration;

use tidegate_core::{HoldId, Micros, Verdict};

use crate::{PerCharge, StoreError};

/// One verdict per charge, in the order of the charges; `None` where a limit without a store stands open.
pub type Verdicts = PerCharge<Option<Verdict>>;

/// Where each verdict comes from, in the order of the charges.
pub type Sources = PerCharge<Source>;

/// By whom a verdict was given, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The time by the clock of who gave it, in us since the epoch.
    pub at: Micros,
    /// Whether that was this process, and not Redis.
    pub here: bool,
    /// The ID of what the charge holds, if its limit holds something.
    pub hold: HoldId,
}

/// Whether the request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every limit allowed it, and every one was charged.
    Admitted,
    /// At least one limit did not; none was charged.
    Refused,
    /// A limit that stays closed without a store had none; none was charged.
    Unavailable,
}

/// Which rule decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The store that was configured.
    Store,
    /// A refusal of Redis's that was given a moment ago, and still holds.
    Remembered,
    /// This process, as the modes of the limits have it.
    Here,
    /// The limits' `on_failure`, because Redis did not decide.
    Fallback,
}

/// The answer to one request's charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request goes on.
    pub outcome: Outcome,
    /// Which rule decided.
    pub via: Via,
    /// The time of the decision by the deciding clock, in us since the epoch.
    pub now: Micros,
    /// What each limit said.
    pub verdicts: Verdicts,
    /// Where that comes from.
    pub sources: Sources,
    /// The call to Redis, if there was one.
    pub call: Option<StoreCall>,
}

impl Decision {
    /// A refusal that Redis gave a moment ago, at this time by its clock.
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

    /// The sources of a decision that was made at once, and whose charges hold something under this ID.
    pub(crate) fn sources(charges: usize, at: Micros, here: bool, hold: HoldId) -> Sources {
        Sources::from_elem(Source { at, here, hold }, charges)
    }
}

/// What a charge would meet now: nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The time by the store's clock, in us since the epoch.
    pub now: Micros,
    /// What the limit says, on its own.
    pub verdict: Verdict,
    /// Whether that is what this process alone counts; others may count as much.
    pub here: bool,
}

/// What this process knows of a charge by itself: nothing was charged, and nobody asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalView {
    /// What it would decide without Redis: by its share of the quota, or by what it alone counts ([`Mode::Local`](crate::Mode)).
    pub outlook: Outlook,
    /// The capacity of what it decides by.
    pub capacity: u64,
    /// What is left of a slice that it has borrowed ([`Mode::Leased`](crate::Mode)).
    pub leased: Option<u64>,
    /// What Redis said of the key last, if that is remembered.
    pub last: Option<LastDecision>,
}

/// What Redis said of a key last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastDecision {
    /// What was left then.
    pub remaining: u64,
    /// For how long a refusal still lasts, in us; 0: it was none, or its time is over.
    pub retry_after: Micros,
    /// How long ago it was.
    pub age: Duration,
}

/// How a call to Redis went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreCall {
    /// How long the decision waited for it.
    pub took: Duration,
    /// Why it gave no decision.
    pub error: Option<StoreError>,
}

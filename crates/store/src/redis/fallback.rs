//! Decisions without Redis, by each limit's [`OnFailure`].

use std::sync::Arc;

use tidegate_core::{HoldId, Micros, Quota};
use tidegate_redis::Gateways;

use super::decision_cache::DecisionCache;
use crate::table::{Elsewhere, Terms};
use crate::{
    Charge, Decision, Limit, MemoryStore, OnFailure, Outcome, Outlook, PerCharge, Sources,
    Verdicts, Via,
};

/// Decisions of this process alone, by its share of each quota.
#[derive(Debug)]
pub(crate) struct Fallback {
    pub(super) memory: Arc<MemoryStore>,
    pub(super) cache: Arc<DecisionCache>,
    pub(super) gateways: Arc<Gateways>,
}

impl Fallback {
    /// Returns this gateway's share of a limit in an outage.
    pub(crate) fn share(&self, limit: &Limit) -> Quota {
        limit.quota().divided(self.gateways.count())
    }

    /// Decides by each limit's `on_failure`. One `closed` limit makes the request unavailable, `local` limits decide together, and `open`
    /// limits have no verdict. With `is_undecided`, the charges are held, because other limits decide later.
    pub(super) fn decide(&self, charges: &[Charge<'_>], is_undecided: bool) -> Decision {
        let mut enforced = charges.iter().filter(|charge| !charge.limit.is_observed());
        let mut decision = if enforced.any(|it| it.limit.on_failure() == OnFailure::Closed) {
            Decision {
                outcome: Outcome::Unavailable,
                via: Via::Fallback,
                now: crate::now(),
                verdicts: Verdicts::new(),
                sources: Sources::new(),
                call: None,
            }
        } else {
            let local: PerCharge<Charge<'_>> = charges
                .iter()
                .filter(|charge| charge.limit.on_failure() == OnFailure::Local)
                .copied()
                .collect();
            self.decide_alone(&local, is_undecided)
        };
        let mut local = std::mem::take(&mut decision.verdicts).into_iter();
        decision.verdicts = charges
            .iter()
            .map(|charge| match charge.limit.on_failure() {
                OnFailure::Local => local.next().flatten(),
                OnFailure::Open | OnFailure::Closed => None,
            })
            .collect();
        let hold = decision
            .sources
            .first()
            .map_or(HoldId(0), |source| source.hold);
        decision.sources = Decision::sources(charges.len(), decision.now, true, hold);
        decision.via = Via::Fallback;
        decision
    }

    /// Returns the capacity of this gateway's share, and the outlook of a charge alone. Charges no unit.
    pub(super) fn look(&self, charge: &Charge<'_>) -> (u64, Outlook) {
        let now = crate::now();
        self.count_running(std::slice::from_ref(charge), now);
        let terms = self.terms(charge, self.gateways.count(), now);
        let capacity = terms.quota.capacity();
        (capacity, self.memory.table().peek(charge, terms, now))
    }

    /// Checks charges with `on_failure: local` of a request that another limit refuses. Charges no unit, and starts the block of each key
    /// that the request exceeds.
    pub(super) fn check(&self, charges: &[Charge<'_>]) -> Decision {
        let (now, gateways) = (crate::now(), self.gateways.count());
        self.count_running(charges, now);
        let verdicts = charges.iter().map(|charge| {
            let is_local = charge.limit.on_failure() == OnFailure::Local;
            is_local.then(|| {
                let terms = self.terms(charge, gateways, now);
                self.memory.check(charge, terms, now)
            })
        });
        Decision {
            outcome: Outcome::Refused,
            via: Via::Fallback,
            now,
            verdicts: verdicts.collect(),
            sources: Decision::sources(charges.len(), now, true, HoldId(0)),
            call: None,
        }
    }

    /// Decides in this process, by this gateway's share of each quota. Units that were used according to Redis's last answer about a key
    /// count as used.
    fn decide_alone(&self, charges: &[Charge<'_>], is_undecided: bool) -> Decision {
        let (now, gateways) = (crate::now(), self.gateways.count());
        self.count_running(charges, now);
        self.memory.decide_by(charges, now, |charge| Terms {
            is_undecided,
            ..self.terms(charge, gateways, now)
        })
    }

    /// Makes this process count the running requests that Redis has admitted, if any of these limits is of `concurrency`.
    fn count_running(&self, charges: &[Charge<'_>], now: Micros) {
        if charges.iter().any(|charge| charge.limit.counts_running()) {
            self.memory
                .registry()
                .count_here(self.memory.table(), |limit| self.share(limit), now);
        }
    }

    /// Returns the terms of a charge: a share of the quota, and the last answer of Redis about the key.
    fn terms(&self, charge: &Charge<'_>, gateways: u64, now: Micros) -> Terms {
        let quota = charge.limit.quota().divided(gateways);
        let blocked_until = self.cache.blocked_until(charge, now);
        let (held, used) = match charge.limit.counts_running() {
            // There is no other gateway, so this process has all holds.
            true if gateways == 1 => (None, None),
            true => (self.cache.held(charge, &quota), None),
            // The units left of a share depend on the shared limit, so they do not show what the member has used.
            false if quota.is_share() => (None, None),
            false => (None, self.cache.state(charge, &quota, now)),
        };
        Terms {
            quota,
            elsewhere: Some(Box::new(Elsewhere {
                used,
                held,
                blocked_until,
            })),
            is_undecided: false,
        }
    }
}

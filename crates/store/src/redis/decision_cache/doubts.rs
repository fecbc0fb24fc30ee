//! Doubts about a request that a limit refuses: Redis may refuse its other charges, too.
//!
//! A refusal names all limits that refuse, and their longest wait. If a recent answer of Redis about a limit exists, there is no doubt
//! about this limit, unless that answer left too few units.

use std::time::{Duration, Instant};

use tidegate_core::Verdict;

use super::DecisionCache;
use super::single_flight::Flight;
use crate::Charge;

/// The doubt about one charge of a refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Doubt {
    /// No doubt: a recent answer left room, or the limit needs no answer.
    None,
    /// No doubt: a recent answer refused. This refusal is only added to a refusal by another limit.
    Refused(Verdict),
    /// The last answer left too few units, or was a refusal that is old by now.
    Due,
    /// No answer, or an old answer that left room.
    Unknown,
}

/// The cause of the refusal of a request, apart from the charge in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum RefusedBy {
    /// A limit of this process.
    Here,
    /// A recent answer of Redis about another charge.
    NewAnswer,
    /// No certain refusal: the call decides the request.
    Nothing,
}

impl DecisionCache {
    /// Returns the doubt about a charge. `is_refused_here` is true if a limit of this process refuses the request, so that no other call is
    /// made about the charge.
    pub(in super::super) fn doubt(
        &self,
        charge: &Charge<'_>,
        now: Instant,
        is_refused_here: bool,
    ) -> Doubt {
        let limit = charge.limit;
        if limit.is_observed() && limit.block().is_none() {
            return Doubt::None;
        }
        let doubt = self.with(charge, |seen| {
            if !seen.holds {
                return None;
            }
            let is_new = seen.is_new(charge, now);
            let is_refused = !seen.verdict.allowed && seen.cost <= charge.cost;
            if is_refused && is_new {
                // A cached refusal of a `concurrency` limit does not refuse other requests, because held units may become free at any moment.
                // Observed limits refuse no request.
                let counts = !limit.counts_running() && !limit.is_observed();
                if !counts {
                    return Some(Doubt::None);
                }
                if seen.refusal(now).is_none() {
                    let lasting = seen.lasting_refusal(charge, now);
                    return Some(lasting.map_or(Doubt::None, Doubt::Refused));
                }
                let mut refusal = seen.refusal_of(charge, now);
                if refusal.is_none() && seen.is_asked(now) {
                    refusal = seen.longest_refusal(now);
                }
                return Some(refusal.map_or(Doubt::Due, |(verdict, _)| Doubt::Refused(verdict)));
            }
            if is_refused || seen.verdict.remaining < charge.cost {
                let is_asked = seen.is_asked(now);
                return Some(if is_asked { Doubt::None } else { Doubt::Due });
            }
            is_new.then_some(Doubt::None)
        });
        doubt.unwrap_or_else(|| {
            let matters = is_refused_here || limit.block().is_some();
            match matters && self.looks.is_due(&charge.limit_key(), now) {
                true => Doubt::Unknown,
                false => Doubt::None,
            }
        })
    }

    /// Returns true to one request, which calls Redis to end the doubt about a charge. Other requests get false for `patience` at most. A
    /// call that only adds to a refusal counts toward the [rate](super::looks) of such calls.
    pub(in super::super) fn claim(
        &self,
        charge: &Charge<'_>,
        now: Instant,
        patience: Duration,
        refused_by: RefusedBy,
    ) -> bool {
        match self.doubt(charge, now, refused_by == RefusedBy::Here) {
            Doubt::None | Doubt::Refused(_) => false,
            Doubt::Unknown => self.claim_look(charge, now),
            Doubt::Due => {
                let is_needed = refused_by == RefusedBy::Nothing;
                let claimed = self.with(charge, |seen| {
                    let is_granted = !seen.is_asked(now) && (is_needed || self.looks.take(now));
                    is_granted.then(|| seen.asking = Some(now + patience))
                });
                claimed.is_some()
            }
        }
    }

    /// Returns the [`Flight`] of a request that calls Redis to end the doubts about these charges. `None` if there are no doubts, or if
    /// other requests have claimed the calls.
    pub(in super::super) fn claim_any<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        now: Instant,
        patience: Duration,
        refused_by: RefusedBy,
    ) -> Option<Flight<'a>> {
        let claims = charges
            .iter()
            .filter(|charge| self.claim(charge, now, patience, refused_by));
        (claims.count() > 0).then(|| self.flight(charges))
    }

    /// Returns whether this request may call Redis about a key without a recent answer. Another request for the
    /// key may not call at the same time. The [rate](super::looks) of such calls is bounded.
    pub(in super::super) fn claim_look(&self, charge: &Charge<'_>, now: Instant) -> bool {
        self.looks.claim(&charge.limit_key(), now)
    }
}

//! Decisions by recent answers of Redis, and the calls that are needed in spite of such answers.
//!
//! A cached refusal needs no call. The repeated refusal names each limit whose cached answer is a refusal at most one second old. Redis is
//! called nevertheless if the last answer about another limit left too few units, or if another limit may have a block to start. To start
//! blocks, each key causes at most one call a second.

use std::time::Instant;

use tidegate_core::Micros;

use super::Exact;
use crate::redis::decision_cache::{Doubt, Known};
use crate::{Charge, Decision, Mode, Verdicts};

/// The decision by the recent answers about a request's charges.
pub(in super::super) enum Remembered {
    /// The request is refused.
    Refused(Decision),
    /// The request is refused, and one such request should call Redis about charges in doubt. The flag is true if the refusal is recent, so
    /// that it is the decision even if the call fails.
    Doubtful(Decision, bool),
    /// The last answer about a charge left too few units for it.
    Exhausted,
    /// No cached answer decides.
    Nothing,
}

impl Exact {
    /// Returns a refusal of these charges that needs no call, if there is one. Changes no state.
    pub(in super::super) fn known_refusal(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        let mut modes = charges.iter().map(|charge| charge.limit.mode());
        if modes.any(|mode| mode != Mode::Exact) {
            return None;
        }
        match self.remembered(charges, Instant::now(), false) {
            Remembered::Refused(refusal) => Some(refusal),
            Remembered::Doubtful(..) | Remembered::Exhausted | Remembered::Nothing => None,
        }
    }

    /// Decides these charges by recent answers. `is_refused_here` is true if a limit of this process refuses the request. Changes no state.
    pub(in super::super) fn remembered(
        &self,
        charges: &[Charge<'_>],
        now: Instant,
        is_refused_here: bool,
    ) -> Remembered {
        if !self.remember_refusals {
            return Remembered::Nothing;
        }
        let mut verdicts = Verdicts::new();
        let mut time = None::<Micros>;
        let (mut is_exhausted, mut is_new, mut is_doubtful) = (false, false, false);
        for charge in charges {
            let answer = match charge.limit.is_refusal_final() {
                true => self.access.cache.of(charge, now),
                false => Known::Nothing,
            };
            verdicts.push(match answer {
                Known::Refused(verdict, at) | Known::Stale(verdict, at) => {
                    time = time.max(Some(at));
                    Some(verdict)
                }
                Known::Exhausted | Known::Nothing => None,
            });
            match answer {
                Known::Refused(..) => is_new = true,
                Known::Stale(..) => is_doubtful = true,
                Known::Exhausted => is_exhausted = true,
                Known::Nothing => {}
            }
        }
        let Some(now_there) = time.or(is_refused_here.then_some(0)) else {
            return match is_exhausted {
                true => Remembered::Exhausted,
                false => Remembered::Nothing,
            };
        };
        let hidden = charges.iter().zip(&mut verdicts);
        for (charge, verdict) in hidden.filter(|(_, verdict)| verdict.is_none()) {
            match self.access.cache.doubt(charge, now, is_refused_here) {
                Doubt::None => {}
                Doubt::Refused(refusal) => *verdict = Some(refusal),
                Doubt::Due | Doubt::Unknown => is_doubtful = true,
            }
        }
        let refusal = Decision::remembered(now_there, verdicts.into_iter());
        match is_doubtful {
            true => Remembered::Doubtful(refusal, is_new),
            false => Remembered::Refused(refusal),
        }
    }
}

//! Requests that Redis decides: by what it said of their limits a moment ago, or by asking it, in turn where nothing was left.

use std::time::Instant;

use tidegate_core::{Micros, Verdict};

use super::RedisStore;
use super::recent::Known;
use crate::{Charge, Decision, Mode, PerCharge, Verdicts};

/// How often a request waits for the answer to another one before it asks as well.
const TURNS: usize = 2;

/// What Redis said of a request's charges a moment ago.
#[expect(
    clippy::large_enum_variant,
    reason = "a refusal costs no allocation, and is moved once"
)]
pub(super) enum Remembered {
    /// It is refused.
    Refused(Decision),
    /// One of them had nothing left.
    Exhausted,
    /// Nothing that is of use now.
    Nothing,
}

impl RedisStore {
    /// Decides a request, by what Redis said a moment ago or by asking it.
    pub(super) async fn decide_exactly(&self, charges: &[Charge<'_>], asked: Instant) -> Decision {
        match self.remembered(charges, asked) {
            Remembered::Refused(refusal) => refusal,
            Remembered::Nothing => self.ask_or_fall_back(charges, asked).await,
            Remembered::Exhausted => Box::pin(self.ask_in_turn(charges, asked)).await,
        }
    }

    /// Asks about charges of which one has nothing left, as far as is known: one request does, and the others wait.
    async fn ask_in_turn(&self, charges: &[Charge<'_>], asked: Instant) -> Decision {
        for _ in 0..TURNS {
            if !self.recent.wait(charges, self.timeout / 4).await {
                break;
            }
            if let Remembered::Refused(refusal) = self.remembered(charges, Instant::now()) {
                return refusal;
            }
        }
        let _turn = self.recent.turn(charges, self.timeout);
        self.ask_or_fall_back(charges, asked).await
    }

    /// The refusal of these charges that a request would be given without asking Redis, if there is one. Looks only.
    pub(crate) fn known_refusal(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        if !self.remember_refusals {
            return None;
        }
        let now = Instant::now();
        let known = |charge: &Charge<'_>| {
            let limit = charge.limit;
            let is_final = limit.mode() == Mode::Exact && limit.is_refusal_final();
            is_final.then(|| self.recent.refusal(charge, now)).flatten()
        };
        let known: PerCharge<Option<(Verdict, Micros)>> = charges.iter().map(known).collect();
        let (_, time) = known.iter().flatten().max_by_key(|(_, at)| *at)?;
        Some(Decision::remembered(
            *time,
            known.iter().map(|known| known.map(|(verdict, _)| verdict)),
        ))
    }

    /// What Redis said of these charges a moment ago: a refusal of one, if it still holds.
    pub(super) fn remembered(&self, charges: &[Charge<'_>], now: Instant) -> Remembered {
        if !self.remember_refusals {
            return Remembered::Nothing;
        }
        let mut verdicts = Verdicts::new();
        let (mut time, mut is_exhausted) = (None, false);
        for charge in charges {
            let known = match charge.limit.is_refusal_final() {
                true => self.recent.of(charge, now, self.timeout),
                false => Known::Nothing,
            };
            is_exhausted |= known == Known::Exhausted;
            verdicts.push(match known {
                Known::Refused(verdict, at) => {
                    time = time.max(Some(at));
                    Some(verdict)
                }
                Known::Exhausted | Known::Nothing => None,
            });
        }
        match time {
            Some(now) => Remembered::Refused(Decision::remembered(now, verdicts.into_iter())),
            None if is_exhausted => Remembered::Exhausted,
            None => Remembered::Nothing,
        }
    }
}

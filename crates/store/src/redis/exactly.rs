//! Requests that Redis decides: by what it said of their limits a moment ago, or by asking it, in turn where nothing was left.

use std::time::Instant;

use super::RedisStore;
use super::recent::Known;
use crate::{Charge, Decision, Limit, Outcome, Verdicts, Via};

/// How often a request waits for the answer to another one before it asks as well.
const TURNS: usize = 2;

/// What Redis said of a request's charges a moment ago.
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

    /// What Redis said of these charges a moment ago: a refusal of one, if it still holds.
    pub(super) fn remembered(&self, charges: &[Charge<'_>], now: Instant) -> Remembered {
        if !self.remember_refusals {
            return Remembered::Nothing;
        }
        let mut verdicts = Verdicts::new();
        let (mut time, mut is_exhausted) = (None, false);
        for charge in charges {
            // What is only observed refuses nobody, and what is held may be free again at any moment.
            let holds = |limit: &Limit| !limit.is_observed() && limit.lease().is_none();
            let known = match holds(charge.limit) {
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
            Some(now) => Remembered::Refused(Decision {
                outcome: Outcome::Refused,
                via: Via::Remembered,
                now,
                sources: Decision::sources(verdicts.len(), now, false),
                verdicts,
                call: None,
            }),
            None if is_exhausted => Remembered::Exhausted,
            None => Remembered::Nothing,
        }
    }
}

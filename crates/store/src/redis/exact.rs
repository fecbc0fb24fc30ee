//! Limits of mode `exact`: Redis decides each request, or what it said a moment ago. Where nothing was left, one request asks and
//! others wait.
//!
//! - [`slots`]: the concurrency slots that running requests hold; [`settlements`]: what becomes of a charge

mod settlements;
mod slots;

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::{Micros, Verdict};

use super::access::Access;
use super::decision_cache::Known;
use super::script::caller::call_of;
use super::script::caller::cross_slot::Decided;
use crate::registry::Registry;
use crate::{Charge, Decision, MemoryStore, Mode, PerCharge, StoreCall, StoreError, Verdicts};

/// How often a request waits for the answer to another one before it asks as well.
const WAITS: usize = 2;

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

/// Limits whose requests Redis decides, one by one.
#[derive(Debug)]
pub(crate) struct Exact {
    pub(super) access: Access,
    // It has the list of what requests hold.
    memory: Arc<MemoryStore>,
    remember_refusals: bool,
}

impl Exact {
    /// Asks with this access. Without `remember_refusals` each request asks.
    pub(super) const fn new(
        access: Access,
        memory: Arc<MemoryStore>,
        remember_refusals: bool,
    ) -> Self {
        Self {
            access,
            memory,
            remember_refusals,
        }
    }

    fn registry(&self) -> &Registry {
        self.memory.registry()
    }

    /// Decides a request, by what Redis said a moment ago or by asking it.
    ///
    /// # Errors
    ///
    /// Redis does not decide: each limit's `on_failure` is to.
    pub(super) async fn decide(
        &self,
        charges: &[Charge<'_>],
        asked: Instant,
    ) -> Result<Decision, StoreError> {
        match self.remembered(charges, asked) {
            Remembered::Refused(refusal) => Ok(refusal),
            Remembered::Nothing => self.ask_redis(charges, asked).await,
            Remembered::Exhausted => Box::pin(self.ask_single_flight(charges, asked)).await,
        }
    }

    /// Asks about charges of which one has nothing left, as far as is known: one request does, and the others wait.
    async fn ask_single_flight(
        &self,
        charges: &[Charge<'_>],
        asked: Instant,
    ) -> Result<Decision, StoreError> {
        for _ in 0..WAITS {
            if !self
                .access
                .cache
                .wait(charges, self.access.timeout / 4)
                .await
            {
                break;
            }
            if let Remembered::Refused(refusal) = self.remembered(charges, Instant::now()) {
                return Ok(refusal);
            }
        }
        let _flight = self.access.cache.fly(charges, self.access.timeout);
        self.ask_redis(charges, asked).await
    }

    /// The refusal of these charges that a request would be given without asking Redis, if there is one. Looks only.
    pub(super) fn known_refusal(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        if !self.remember_refusals {
            return None;
        }
        let now = Instant::now();
        let known = |charge: &Charge<'_>| {
            let limit = charge.limit;
            let is_final = limit.mode() == Mode::Exact && limit.is_refusal_final();
            is_final
                .then(|| self.access.cache.refusal(charge, now))
                .flatten()
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
                true => self.access.cache.of(charge, now, self.access.timeout),
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

    async fn ask_redis(
        &self,
        charges: &[Charge<'_>],
        asked: Instant,
    ) -> Result<Decision, StoreError> {
        // Boxed: whoever is decided without Redis need not make room for asking it.
        let answer = Box::pin(self.ask(charges, asked + self.access.timeout)).await;
        match answer {
            Ok(mut decision) => {
                let took = asked.elapsed();
                decision.call = Some(StoreCall { took, error: None });
                Ok(decision)
            }
            Err(error) => {
                // A key that cannot be read says nothing of those that others are refused by.
                let is_theirs = |charge: &&Charge<'_>| charge.limit.is_shared();
                for charge in charges {
                    if !(error.is_about_keys() && is_theirs(&charge)) {
                        self.access.cache.unanswered(charge);
                    }
                }
                Err(error)
            }
        }
    }

    /// Has Redis decide, and notes the answer.
    pub(super) async fn ask(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<Decision, StoreError> {
        self.access.secret.check()?;
        if charges.iter().any(|charge| charge.limit.holds_slots()) {
            Box::pin(self.confirmed(charges, until)).await?;
        }
        let caller = &self.access.caller;
        let Decided { decision, calls } = match caller.decide_at_once(charges, until).await {
            Some(answer) => {
                let answer = answer?;
                let call = call_of(&answer);
                Decided {
                    calls: charges.iter().map(|_| Some(call)).collect(),
                    decision: answer.content,
                }
            }
            // No script can decide them at once.
            None => Box::pin(caller.decide(charges, until, &self.access.cache)).await?,
        };
        for ((charge, verdict), call) in charges.iter().zip(&decision.verdicts).zip(calls) {
            if let (Some(verdict), Some(call)) = (verdict, call) {
                self.access.cache.note(charge, verdict, call);
            }
        }
        Ok(decision)
    }
}

//! Limits of mode `exact`: Redis decides each request, by a call or by a cached answer. If no units were left in the last answer, one
//! request calls Redis, and the others wait.
//!
//! - [`remembered`]: decisions by recent answers of Redis, and the calls that are needed in spite of such answers
//! - [`holds`]: calls after a decision

mod holds;
mod remembered;

use std::sync::Arc;
use std::time::Instant;

use tidegate_redis::Wait;

use super::access::Access;
use super::decision_cache::RefusedBy;
use super::script::caller::call_of;
use super::script::caller::cross_slot::Decided;
use crate::registry::Registry;
use crate::{Charge, Decision, MemoryStore, StoreCall, StoreError};
pub(super) use remembered::Remembered;

/// The most times that a request waits for the answer to another request, before it calls Redis itself.
const WAITS: usize = 2;

/// Limits whose requests Redis decides, one by one.
#[derive(Debug)]
pub(crate) struct Exact {
    pub(super) access: Access,
    // The memory store, which has the registry of holds.
    memory: Arc<MemoryStore>,
    remember_refusals: bool,
}

impl Exact {
    /// Creates an `Exact` that calls Redis through `access`. If `remember_refusals` is false, each request makes a call.
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

    /// Decides a request, by a cached answer of Redis or by a call.
    ///
    /// # Errors
    ///
    /// Redis does not decide, so each limit's `on_failure` must decide.
    pub(super) async fn decide(
        &self,
        charges: &[Charge<'_>],
        wait: Wait,
    ) -> Result<Decision, StoreError> {
        match self.remembered(charges, wait.start, false) {
            Remembered::Refused(refusal) => Ok(refusal),
            Remembered::Nothing => self.ask_redis(charges, wait).await,
            Remembered::Doubtful(refusal, is_new) => {
                Box::pin(self.ask_again(charges, wait, refusal, is_new)).await
            }
            Remembered::Exhausted => Box::pin(self.ask_single_flight(charges, wait)).await,
        }
    }

    /// Calls Redis about charges if the last answer about any of them left no units. One request calls, and the others wait.
    async fn ask_single_flight(
        &self,
        charges: &[Charge<'_>],
        wait: Wait,
    ) -> Result<Decision, StoreError> {
        for _ in 0..WAITS {
            let patience = wait.length() / 4;
            if !self.access.cache.wait(charges, patience).await {
                break;
            }
            if let Remembered::Refused(refusal) = self.remembered(charges, Instant::now(), false) {
                return Ok(refusal);
            }
        }
        let _flight = self.access.cache.fly(charges, self.access.timeout);
        self.ask_redis(charges, wait).await
    }

    /// Calls Redis about a request that a cached answer refuses, while answers about other charges are in doubt. One request calls, and the
    /// others get the refusal. If `is_new` is true, the refusal is recent, and is the decision even if the call fails.
    async fn ask_again(
        &self,
        charges: &[Charge<'_>],
        wait: Wait,
        mut refusal: Decision,
        is_new: bool,
    ) -> Result<Decision, StoreError> {
        let Access { cache, timeout, .. } = &self.access;
        let refused_by = match is_new {
            true => RefusedBy::NewAnswer,
            false => RefusedBy::Nothing,
        };
        let Some(_flight) = cache.claim_any(charges, wait.start, *timeout, refused_by) else {
            return Ok(refusal);
        };
        if !is_new {
            return self.ask_redis(charges, wait).await;
        }
        let answer = self.ask(charges, wait).await;
        let error = match answer {
            Ok(decision) => {
                refusal = decision;
                None
            }
            Err(error) => Some(error),
        };
        let took = wait.start.elapsed();
        refusal.call = Some(StoreCall { took, error });
        Ok(refusal)
    }

    /// Checks charges of a request that a limit of this process refuses. Charges no unit, and starts the block of each key that the request
    /// exceeds. Recent answers are used without a call. Each key has at most one call a second, and all keys together have a bounded
    /// number.
    ///
    /// # Errors
    ///
    /// The call failed.
    pub(super) async fn check(
        &self,
        charges: &[Charge<'_>],
        wait: Wait,
    ) -> Result<Decision, StoreError> {
        let Access { cache, timeout, .. } = &self.access;
        let _flight = match self.remembered(charges, wait.start, true) {
            Remembered::Refused(refusal) => return Ok(refusal),
            Remembered::Doubtful(refusal, _) => {
                let Some(flight) = cache.claim_any(charges, wait.start, *timeout, RefusedBy::Here)
                else {
                    return Ok(refusal);
                };
                Some(flight)
            }
            Remembered::Exhausted | Remembered::Nothing => None,
        };
        self.prepare(charges, wait).await?;
        let decided = self.access.caller.check(charges, wait).await?;
        let mut decision = self.noted(charges, decided);
        decision.call = Some(StoreCall {
            took: wait.start.elapsed(),
            error: None,
        });
        Ok(decision)
    }

    /// Returns whether the last call to a server of these charges failed.
    pub(super) fn is_silent(&self, charges: &[Charge<'_>]) -> bool {
        let shards = &self.access.caller.shards;
        charges.iter().any(|charge| shards.fails(&charge.key.tag))
    }

    async fn ask_redis(&self, charges: &[Charge<'_>], wait: Wait) -> Result<Decision, StoreError> {
        // Boxed, so that the future of a decision without a call is small.
        let answer = Box::pin(self.ask(charges, wait)).await;
        match answer {
            Ok(mut decision) => {
                let took = wait.start.elapsed();
                decision.call = Some(StoreCall { took, error: None });
                Ok(decision)
            }
            Err(error) => {
                // If a key cannot be read, refusals by shared limits are still repeated, because they apply to other clients as well.
                for charge in charges {
                    if !(error.is_about_keys() && charge.limit.is_shared()) {
                        self.access.cache.unanswered(charge);
                    }
                }
                Err(error)
            }
        }
    }

    /// Calls Redis for a decision, and caches the answer.
    pub(super) async fn ask(
        &self,
        charges: &[Charge<'_>],
        wait: Wait,
    ) -> Result<Decision, StoreError> {
        self.prepare(charges, wait).await?;
        let caller = &self.access.caller;
        let decided = match caller.decide_at_once(charges, wait).await {
            Some(answer) => {
                let answer = answer?;
                let call = call_of(&answer);
                Decided {
                    calls: charges.iter().map(|_| Some(call)).collect(),
                    decision: answer.content,
                }
            }
            // No script can decide all charges at once.
            None => Box::pin(caller.decide(charges, wait)).await?,
        };
        Ok(self.noted(charges, decided))
    }

    /// Fails if the gateways do not agree on the secret. Waits until the servers of these charges have all holds of `concurrency` of this
    /// process.
    async fn prepare(&self, charges: &[Charge<'_>], wait: Wait) -> Result<(), StoreError> {
        self.access.secret.check()?;
        if charges.iter().any(|charge| charge.limit.counts_running()) {
            Box::pin(self.confirmed(charges, wait.until)).await?;
        }
        Ok(())
    }

    /// Adds the answer to the cache.
    fn noted(&self, charges: &[Charge<'_>], decided: Decided) -> Decision {
        let Decided { decision, calls } = decided;
        for ((charge, verdict), call) in charges.iter().zip(&decision.verdicts).zip(calls) {
            if let (Some(verdict), Some(call)) = (verdict, call) {
                self.access.cache.note(charge, verdict, call);
            }
        }
        decision
    }
}

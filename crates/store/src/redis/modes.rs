//! Decisions on requests whose limits have different modes.
//!
//! Charges to `leased`, `synced` and `local` limits, whose state is in this process, are reserved first, without a call to Redis if
//! possible. After that, Redis decides the `exact` limits. If the request is refused, or its client leaves, units are put back into slices,
//! counts are subtracted, and holds end with cost 0. A charge that Redis made in the call for a slice is not undone. [`super::leased`] and
//! [`super::synced`] describe slices and counts.
//!
//! After a limit has refused, the other limits are checked, and no unit is charged. So a refusal names all limits that refuse, as far as
//! this process has recent answers. Each limit that the request exceeds starts its block. To keep a flood of refused requests from causing
//! one call each, the other limits are checked as follows:
//!
//! - `local`: the memory store checks the limit, and starts its block.
//! - `synced`: the counts of this process and the last exchange decide.
//! - `leased`: the slice or its last refusal decides. If neither decides, the key causes at most one call to Redis a second.
//! - `exact`: an answer that is at most one second old decides. Without such an answer, a script checks all exact limits, charges no unit,
//!   and starts their blocks. Each key causes at most one such call a second, and all keys together cause a bounded number.
//! - Without Redis, the shares of limits with `on_failure: local` decide.
//!
//! - [`budgets`]: reads and resets for operators
//! - [`reserved`]: the charges that this process holds until all limits have decided

mod budgets;
mod reserved;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::HoldId;
use tidegate_redis::Wait;

use self::reserved::{How, Reserved};
use super::exact::{Exact, Remembered};
use super::fallback::Fallback;
use super::leased::Leased;
use super::synced::{Reply, Synced};
use crate::table::Terms;
use crate::{Charge, Decision, Mode, Outcome, PerCharge, StoreCall, StoreError, Via};

/// The longest time for which a gateway returns slices to Redis after a reload, or returns slices and sends its counts before it exits.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The modes of a store's limits, and the decisions without Redis.
#[derive(Debug)]
pub(super) struct Modes {
    pub(super) exact: Exact,
    pub(super) leased: Arc<Leased>,
    pub(super) synced: Synced,
    pub(super) fallback: Fallback,
    pub(super) timeout: Duration,
}

impl Modes {
    /// Decides one request within the timeout, or within a shorter time.
    pub(super) async fn decide(
        &self,
        charges: &[Charge<'_>],
        within: Option<Duration>,
    ) -> Decision {
        let wait = Wait::new(self.timeout, within);
        if charges
            .iter()
            .all(|charge| charge.limit.mode() == Mode::Exact)
        {
            self.decide_exactly(charges, wait).await
        } else {
            self.decide_in_modes(charges, wait).await
        }
    }

    /// Decides a request whose limits are all exact.
    async fn decide_exactly(&self, charges: &[Charge<'_>], wait: Wait) -> Decision {
        match self.exact.decide(charges, wait).await {
            Ok(decision) => decision,
            Err(error) => {
                let mut decision = self.fallback.decide(charges, false);
                decision.call = Some(failed(wait.start, error));
                decision
            }
        }
    }

    /// Runs [`RedisStore::close`](super::RedisStore::close).
    pub(super) async fn close(&self) {
        let telling = async {
            tokio::join!(self.leased.close(), self.synced.tell_all_counts());
        };
        let _ = tokio::time::timeout(LAST_WORDS, telling).await;
    }

    /// Runs [`RedisStore::keep_leased`](super::RedisStore::keep_leased).
    pub(super) async fn keep_leased(&self, limits: HashSet<u64>) -> bool {
        let returning = self.leased.keep_only(limits);
        tokio::time::timeout(LAST_WORDS, returning).await.is_ok()
    }

    /// Decides a request whose limits are not all exact.
    async fn decide_in_modes(&self, charges: &[Charge<'_>], wait: Wait) -> Decision {
        let now = crate::now();
        let mut decision = Decision {
            outcome: Outcome::Admitted,
            via: Via::Here,
            now,
            verdicts: charges.iter().map(|_| None).collect(),
            sources: Decision::sources(charges.len(), now, true, HoldId(0)),
            call: None,
        };
        let exact = Part::of(charges, |charge| charge.limit.mode() == Mode::Exact);
        if let Remembered::Refused(refusal) =
            self.exact
                .remembered(&exact.pick(charges), wait.start, false)
        {
            exact.tell(refusal, &mut decision);
        }
        let mut reserved = Reserved {
            modes: self,
            kept: PerCharge::new(),
        };
        let Undecided {
            exactly,
            unanswered,
            error,
        } = self
            .reserve(charges, wait, &mut decision, &mut reserved)
            .await;
        if let Some(error) = error {
            let charges_here = unanswered.pick(charges);
            if decision.outcome == Outcome::Admitted {
                let is_undecided = !exactly.0.is_empty();
                let part = self.fallback.decide(&charges_here, is_undecided);
                if is_undecided {
                    self.reserve_shares(charges, &unanswered, &part, &mut reserved);
                }
                unanswered.tell(part, &mut decision);
            } else {
                unanswered.add(self.fallback.check(&charges_here), &mut decision);
            }
            decision.call = Some(failed(wait.start, error));
        }
        if !exactly.0.is_empty() {
            let exact_charges = exactly.pick(charges);
            // Boxed, so that the future of a request without exact limits is small.
            match decision.outcome {
                Outcome::Admitted => {
                    let part = Box::pin(self.decide_exactly(&exact_charges, wait)).await;
                    exactly.tell(part, &mut decision);
                }
                Outcome::Refused => {
                    let checked = self.check_exactly(&exactly, &exact_charges, wait, &mut decision);
                    Box::pin(checked).await;
                }
                Outcome::Unavailable => {}
            }
        }
        reserved.end(&mut decision);
        decision
    }

    /// Checks exact limits of a request that another limit refuses. Charges no unit, and starts the block of each key that the request
    /// exceeds.
    async fn check_exactly(
        &self,
        exactly: &Part,
        charges: &[Charge<'_>],
        wait: Wait,
        decision: &mut Decision,
    ) {
        let checked = self.exact.check(charges, wait).await;
        if checked.is_err() || self.exact.is_silent(charges) {
            exactly.add(self.fallback.check(charges), decision);
        }
        match checked {
            Ok(part) => exactly.add(part, decision),
            Err(error) => decision.call = Some(failed(wait.start, error)),
        }
    }

    /// Reserves the charges that this process decides, and returns the other charges.
    async fn reserve<'a>(
        &'a self,
        charges: &[Charge<'a>],
        wait: Wait,
        decision: &mut Decision,
        reserved: &mut Reserved<'a>,
    ) -> Undecided {
        let mut undecided = Undecided::default();
        // True if a cached refusal of Redis has already refused the request.
        let was_refused = decision.outcome == Outcome::Refused;
        // Leased limits come last, because a charge that Redis makes for them is not undone if another limit refuses.
        let (leased, others): (PerCharge<usize>, PerCharge<usize>) =
            (0..charges.len()).partition(|index| charges[*index].limit.mode() == Mode::Leased);
        for index in others.into_iter().chain(leased) {
            let charge = &charges[index];
            let is_refused = decision.outcome == Outcome::Refused;
            let now = decision.sources[index].at;
            let reply = match charge.limit.mode() {
                Mode::Exact if was_refused => continue,
                Mode::Exact => {
                    undecided.exactly.0.push(index);
                    continue;
                }
                Mode::Local if is_refused => {
                    let terms = Terms::of(*charge.limit.quota());
                    let looked = self.fallback.memory.check(charge, terms, now);
                    decision.verdicts[index] = Some(looked);
                    continue;
                }
                Mode::Synced if was_refused => {
                    decision.verdicts[index] = self.synced.look_beside(charge);
                    continue;
                }
                Mode::Leased => {
                    if is_refused {
                        let verdict = self.leased.look(charge);
                        if verdict.is_some() || !self.fallback.cache.claim_look(charge, wait.start)
                        {
                            decision.verdicts[index] = verdict;
                            continue;
                        }
                    }
                    let taken = self.leased.reserve(charge, is_refused, wait).await;
                    if taken.as_ref().is_ok_and(|taken| taken.was_called) {
                        let took = wait.start.elapsed();
                        // If a part was decided without the store, the whole was.
                        if !is_refused && decision.via != Via::Fallback {
                            decision.via = Via::Store;
                        }
                        decision.call = Some(StoreCall { took, error: None });
                    }
                    taken.map(|taken| (Reply::Here(taken.verdict), taken.spent.map(How::Leased)))
                }
                Mode::Synced => {
                    let reply = self.synced.reserve(charge);
                    reply.map(|(reply, window)| (reply, Some(How::Synced(window))))
                }
                Mode::Local => {
                    let quota = *charge.limit.quota();
                    let is_undecided = charges.len() > 1;
                    let mut terms = Terms::of(quota);
                    terms.is_undecided = is_undecided;
                    let (verdict, hold) = self.fallback.memory.decide_one(charge, terms, now);
                    decision.sources[index].hold = hold;
                    let how = is_undecided.then_some(How::Here(quota, hold));
                    Ok((Reply::Here(verdict), how))
                }
            };
            let (reply, how) = match reply {
                Ok((Reply::NoRoom, _)) => {
                    undecided.exactly.0.push(index);
                    continue;
                }
                Ok(reply) => reply,
                Err(error) => {
                    undecided.unanswered.0.push(index);
                    undecided.error = Some(error);
                    continue;
                }
            };
            if matches!(reply, Reply::Alone(_)) {
                decision.via = Via::Fallback;
            }
            decision.verdicts[index] = reply.verdict();
            if !reply.is_refusal() {
                let kept = how.map(|how| (index, *charge, how));
                reserved.kept.extend(kept);
            } else if !charge.limit.is_observed() {
                decision.outcome = Outcome::Refused;
            }
        }
        undecided
    }
}

/// Returns the call of a request that has failed with this error.
fn failed(start: Instant, error: StoreError) -> StoreCall {
    StoreCall {
        took: start.elapsed(),
        error: Some(error),
    }
}

/// The charges that this process does not decide by its own state.
#[derive(Default)]
struct Undecided {
    /// Redis decides these charges.
    exactly: Part,
    /// The `on_failure` of each limit decides these charges, because of an error.
    unanswered: Part,
    error: Option<StoreError>,
}

/// Some charges of a request, by their indices.
#[derive(Default)]
struct Part(PerCharge<usize>);

impl Part {
    fn of<'a>(charges: &[Charge<'a>], belongs: impl Fn(&Charge<'a>) -> bool) -> Self {
        let indices = (0..charges.len()).filter(|index| belongs(&charges[*index]));
        Self(indices.collect())
    }

    fn pick<'a>(&self, charges: &[Charge<'a>]) -> PerCharge<Charge<'a>> {
        self.0.iter().map(|index| charges[*index]).collect()
    }

    /// Adds the verdicts on this part to the refusal of the request.
    fn add(&self, part: Decision, decision: &mut Decision) {
        let verdicts = part.verdicts.into_iter().zip(part.sources);
        for (index, (verdict, source)) in self.0.iter().zip(verdicts) {
            if verdict.is_some() {
                decision.verdicts[*index] = verdict;
                decision.sources[*index] = source;
            }
        }
        decision.call = decision.call.take().or(part.call);
    }

    /// Copies the decision on this part into the decision on all charges.
    fn tell(&self, part: Decision, decision: &mut Decision) {
        let verdicts = part.verdicts.into_iter().zip(part.sources);
        for (index, (verdict, source)) in self.0.iter().zip(verdicts) {
            decision.verdicts[*index] = verdict;
            decision.sources[*index] = source;
        }
        decision.outcome = part.outcome;
        decision.now = part.now;
        // If `on_failure` decided one part, the whole decision counts as made by `on_failure`.
        if decision.via != Via::Fallback {
            decision.via = part.via;
        }
        if decision.call.as_ref().is_none_or(|it| it.error.is_none()) {
            decision.call = part.call;
        }
    }
}

//! Requests with limits that are kept in this process, as their modes have it.
//!
//! Those limits are reserved first, without a question to Redis if possible; then what is left is decided as ever.
//! Whatever was reserved is given back if the request is refused after all, or is not waited for any more. How slices
//! and differences work is the business of [`super::leases`] and [`super::synced`].

use std::time::Instant;

use arrayvec::ArrayVec;
use tidegate_core::{Micros, Quota};

use super::RedisStore;
use super::leases::Taken;
use crate::{Charge, Decision, MAX_CHARGES, Mode, Outcome, StoreCall, StoreError, Via};

impl RedisStore {
    /// Decides a request of which not every limit is exact.
    pub(super) async fn decide_in_modes(&self, charges: &[Charge<'_>], asked: Instant) -> Decision {
        let now = crate::now();
        let mut decision = Decision {
            outcome: Outcome::Admitted,
            via: Via::Here,
            now,
            verdicts: charges.iter().map(|_| None).collect(),
            sources: Decision::sources(charges.len(), now, true),
            call: None,
        };
        let exact = Places::of(charges, |_, charge| charge.limit.mode() == Mode::Exact);
        let exact_charges = exact.pick(charges);
        if let Some(refusal) = self.remembered(&exact_charges, asked) {
            exact.tell(refusal, &mut decision);
            return decision;
        }
        let mut reserved = Reserved {
            store: self,
            kept: ArrayVec::new(),
        };
        let failed = self
            .reserve(charges, asked, &mut decision, &mut reserved)
            .await;
        if let Some(error) = failed
            && decision.outcome == Outcome::Admitted
        {
            let unanswered = Places::of(charges, |place, charge| {
                charge.limit.mode() != Mode::Exact && decision.verdicts[place].is_none()
            });
            let mut part = self.fall_back(&unanswered.pick(charges));
            let took = asked.elapsed();
            let error = Some(error);
            part.call = Some(StoreCall { took, error });
            self.reserve_shares(charges, &unanswered, &part, &mut reserved);
            unanswered.tell(part, &mut decision);
        }
        if decision.outcome == Outcome::Admitted && !exact_charges.is_empty() {
            // Boxed: a request that is only charged to limits of this process need not make room for it.
            let part = Box::pin(self.ask_or_fall_back(&exact_charges, asked)).await;
            exact.tell(part, &mut decision);
        }
        reserved.end(&mut decision);
        decision
    }

    /// Reserves what is kept here, and says why not all of it could be.
    async fn reserve<'a>(
        &'a self,
        charges: &[Charge<'a>],
        asked: Instant,
        decision: &mut Decision,
        reserved: &mut Reserved<'a>,
    ) -> Option<StoreError> {
        let mut failed = None;
        for (place, charge) in charges.iter().enumerate() {
            let quota = charge.limit.quota();
            let said = match charge.limit.mode() {
                Mode::Exact => continue,
                // Redis is not asked in vain.
                Mode::Leased if decision.outcome == Outcome::Refused => continue,
                Mode::Leased => self
                    .leases
                    .reserve(charge, asked + self.timeout)
                    .await
                    .map(|taken| (taken.verdict, How::Leased(taken))),
                Mode::Synced => self
                    .synced
                    .reserve(charge)
                    .map(|verdict| (verdict, How::Synced)),
                Mode::Local => {
                    let verdict = self.fallback.decide_one(charge, quota, decision.now);
                    let receipt = decision.now + verdict.reset;
                    Ok((verdict, How::Here(*quota, receipt)))
                }
            };
            let (verdict, how) = match said {
                Ok(said) => said,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            if matches!(how, How::Leased(Taken { asked: true, .. })) {
                let took = asked.elapsed();
                decision.via = Via::Store;
                decision.call = Some(StoreCall { took, error: None });
            }
            decision.verdicts[place] = Some(verdict);
            if verdict.allowed {
                reserved.kept.push((place, *charge, how));
            } else if !charge.limit.is_observed() {
                decision.outcome = Outcome::Refused;
            }
        }
        failed
    }

    /// Notes what was charged here to go on with, instead of to Redis.
    fn reserve_shares<'a>(
        &self,
        charges: &[Charge<'a>],
        places: &Places,
        part: &Decision,
        reserved: &mut Reserved<'a>,
    ) {
        if part.outcome != Outcome::Admitted {
            return;
        }
        let gateways = self.gateways.count();
        for (place, verdict) in places.0.iter().zip(&part.verdicts) {
            if let Some(verdict) = verdict {
                let charge = charges[*place];
                let share = charge.limit.quota().divided(gateways);
                let how = How::Here(share, part.now + verdict.reset);
                reserved.kept.push((*place, charge, how));
            }
        }
    }
}

/// The places of some charges among all.
struct Places(ArrayVec<usize, MAX_CHARGES>);

impl Places {
    fn of<'a>(charges: &[Charge<'a>], belongs: impl Fn(usize, &Charge<'a>) -> bool) -> Self {
        let places = charges.iter().enumerate();
        let places = places.filter(|(place, charge)| belongs(*place, charge));
        Self(places.map(|(place, _)| place).collect())
    }

    fn pick<'a>(&self, charges: &[Charge<'a>]) -> ArrayVec<Charge<'a>, MAX_CHARGES> {
        self.0.iter().map(|place| charges[*place]).collect()
    }

    /// Puts what was decided of these into the decision on all.
    fn tell(&self, part: Decision, decision: &mut Decision) {
        for (place, verdict) in self.0.iter().zip(part.verdicts) {
            decision.verdicts[*place] = verdict;
        }
        for (place, source) in self.0.iter().zip(part.sources) {
            decision.sources[*place] = source;
        }
        decision.outcome = part.outcome;
        decision.now = part.now;
        // One that had to go on without the store is what is to be said of the whole.
        if decision.via != Via::Fallback {
            decision.via = part.via;
        }
        let had_error = |call: &StoreCall| call.error.is_some();
        if !decision.call.as_ref().is_some_and(had_error) {
            decision.call = part.call;
        }
    }
}

/// What was reserved so far; given back when it is dropped.
struct Reserved<'a> {
    store: &'a RedisStore,
    kept: ArrayVec<(usize, Charge<'a>, How), MAX_CHARGES>,
}

/// Where a charge was reserved.
enum How {
    /// In a slice, or by Redis, which was asked for one.
    Leased(Taken),
    /// Among the differences.
    Synced,
    /// In the memory store, by this quota; with the receipt.
    Here(Quota, Micros),
}

impl Reserved<'_> {
    /// All of it is kept if the request is admitted; else the verdicts say that it is there again.
    fn end(mut self, decision: &mut Decision) {
        if decision.outcome == Outcome::Admitted {
            self.kept.clear();
        }
        for (place, charge, _) in &self.kept {
            if let Some(verdict) = &mut decision.verdicts[*place] {
                verdict.remaining += charge.cost;
            }
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        for (_, charge, how) in &self.kept {
            match how {
                How::Leased(taken) => self.store.leases.give_back(charge, taken),
                How::Synced => self.store.synced.give_back(charge),
                How::Here(quota, receipt) => self.store.fallback.give_back(charge, quota, *receipt),
            }
        }
    }
}

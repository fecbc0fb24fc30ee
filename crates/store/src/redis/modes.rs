//! Requests with limits that are kept in this process, as their modes have it.
//!
//! Those limits are reserved first, without a question to Redis if possible; then what is left is decided as ever.
//! Whatever was reserved is given back if the request is refused after all, or is not waited for any more. How slices
//! and differences work is the business of [`super::leases`] and [`super::synced`].

use std::time::{Duration, Instant};

use tidegate_core::{HoldId, Micros, Quota, Receipt, Verdict};

use super::RedisStore;
use super::exactly::Remembered;
use super::leases::Taken;
use crate::{Charge, Decision, Mode, Outcome, PerCharge, StoreCall, StoreError, Via};

/// How long a gateway that ends may take to tell Redis what only it knows.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl RedisStore {
    /// Tells Redis what only this gateway knows, for a second at most; what cannot be told by then is lost, or lapses. To be
    /// called when nothing is decided any more, and nothing else of this store runs.
    pub async fn close(&self) {
        let telling = async {
            tokio::join!(self.leases.close(), self.tell_all_counts());
        };
        let _ = tokio::time::timeout(LAST_WORDS, telling).await;
    }

    /// Decides a request of which not every limit is exact.
    pub(super) async fn decide_in_modes(&self, charges: &[Charge<'_>], asked: Instant) -> Decision {
        let now = crate::now();
        let mut decision = Decision {
            outcome: Outcome::Admitted,
            via: Via::Here,
            now,
            verdicts: charges.iter().map(|_| None).collect(),
            sources: Decision::sources(charges.len(), now, true, 0),
            call: None,
        };
        let exact = Places::of(charges, |charge| charge.limit.mode() == Mode::Exact);
        if let Remembered::Refused(refusal) = self.remembered(&exact.pick(charges), asked) {
            exact.tell(refusal, &mut decision);
            return decision;
        }
        let mut reserved = Reserved {
            store: self,
            kept: PerCharge::new(),
        };
        let Undecided {
            exactly,
            unanswered,
            error,
        } = self
            .reserve(charges, asked, &mut decision, &mut reserved)
            .await;
        if let Some(error) = error
            && decision.outcome == Outcome::Admitted
        {
            let mut part = self.fall_back(&unanswered.pick(charges));
            let took = asked.elapsed();
            let error = Some(error);
            part.call = Some(StoreCall { took, error });
            self.reserve_shares(charges, &unanswered, &part, &mut reserved);
            unanswered.tell(part, &mut decision);
        }
        if decision.outcome == Outcome::Admitted && !exactly.0.is_empty() {
            let exact_charges = exactly.pick(charges);
            // Boxed: a request that is only charged to limits of this process need not make room for it.
            let part = Box::pin(self.decide_exactly(&exact_charges, asked)).await;
            exactly.tell(part, &mut decision);
        }
        reserved.end(&mut decision);
        decision
    }

    /// Reserves what is kept here, and says what is left to be decided.
    async fn reserve<'a>(
        &'a self,
        charges: &[Charge<'a>],
        asked: Instant,
        decision: &mut Decision,
        reserved: &mut Reserved<'a>,
    ) -> Undecided {
        let mut undecided = Undecided::default();
        for (place, charge) in charges.iter().enumerate() {
            let said = match charge.limit.mode() {
                Mode::Exact => {
                    undecided.exactly.0.push(place);
                    continue;
                }
                // Redis is not asked in vain.
                Mode::Leased if decision.outcome == Outcome::Refused => continue,
                Mode::Leased => {
                    let taken = self.leases.reserve(charge, asked + self.timeout).await;
                    taken.map(|taken| (Said::Here(taken.verdict), How::Leased(taken)))
                }
                Mode::Synced => {
                    let said = self.reserve_synced(charge);
                    said.map(|(said, start)| (said, How::Synced(start)))
                }
                Mode::Local => {
                    let quota = charge.limit.quota();
                    let (verdict, hold) = self.fallback.decide_one(charge, quota, decision.now);
                    decision.sources[place].hold = hold;
                    let receipt = decision.now + verdict.reset;
                    Ok((Said::Here(verdict), How::Here(*quota, receipt, hold)))
                }
            };
            let (said, how) = match said {
                Ok((Said::NoPlace, _)) => {
                    undecided.exactly.0.push(place);
                    continue;
                }
                Ok(said) => said,
                Err(error) => {
                    undecided.unanswered.0.push(place);
                    undecided.error = Some(error);
                    continue;
                }
            };
            if matches!(how, How::Leased(Taken { asked: true, .. })) {
                let took = asked.elapsed();
                decision.via = Via::Store;
                decision.call = Some(StoreCall { took, error: None });
            }
            if matches!(said, Said::Alone(_)) {
                decision.via = Via::Fallback;
            }
            decision.verdicts[place] = said.verdict();
            if !said.is_refusal() {
                reserved.kept.push((place, *charge, how));
            } else if !charge.limit.is_observed() {
                decision.outcome = Outcome::Refused;
            }
        }
        undecided
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
        let said = part.verdicts.iter().zip(&part.sources);
        for (place, (verdict, source)) in places.0.iter().zip(said) {
            if let Some(verdict) = verdict {
                let charge = charges[*place];
                let share = charge.limit.quota().divided(gateways);
                let how = How::Here(share, part.now + verdict.reset, source.hold);
                reserved.kept.push((*place, charge, how));
            }
        }
    }
}

/// What a limit that is kept here says of a charge, which is reserved unless that is a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// By what is kept.
    Here(Verdict),
    /// By its `on_failure`, since Redis is silent: one that is open says nothing.
    Alone(Option<Verdict>),
    /// It cannot be kept here: Redis decides, as if the limit were exact.
    NoPlace,
}

impl Said {
    const fn verdict(self) -> Option<Verdict> {
        match self {
            Self::Here(verdict) => Some(verdict),
            Self::Alone(verdict) => verdict,
            Self::NoPlace => None,
        }
    }

    pub(super) fn is_refusal(&self) -> bool {
        self.verdict().is_some_and(|verdict| !verdict.allowed)
    }
}

/// The charges that are not decided by what is kept here.
#[derive(Default)]
struct Undecided {
    /// By Redis.
    exactly: Places,
    /// By their limits' `on_failure`, because of an error.
    unanswered: Places,
    error: Option<StoreError>,
}

/// The places of some charges among all.
#[derive(Default)]
struct Places(PerCharge<usize>);

impl Places {
    fn of<'a>(charges: &[Charge<'a>], belongs: impl Fn(&Charge<'a>) -> bool) -> Self {
        let places = charges.iter().enumerate();
        let places = places.filter(|(_, charge)| belongs(charge));
        Self(places.map(|(place, _)| place).collect())
    }

    fn pick<'a>(&self, charges: &[Charge<'a>]) -> PerCharge<Charge<'a>> {
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
    kept: PerCharge<(usize, Charge<'a>, How)>,
}

/// Where a charge was reserved.
enum How {
    /// In a slice, or by Redis, which was asked for one.
    Leased(Taken),
    /// Among the counts of the window that started then.
    Synced(Micros),
    /// In the memory store, by this quota; with the receipt, and the ID of what is reserved.
    Here(Quota, Micros, u64),
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
                How::Synced(start) => self.store.synced.give_back(charge, *start),
                How::Here(quota, receipt, hold) if charge.limit.reserves().is_some() => {
                    let memory = self.store.fallback.table();
                    memory.settle(charge, quota, *receipt, *hold, 0);
                }
                How::Here(quota, until, hold) => {
                    let (until, hold) = (*until, HoldId(*hold));
                    let receipt = Receipt { until, hold };
                    let memory = self.store.fallback.table();
                    memory.give_back(charge, quota, receipt);
                }
            }
        }
    }
}

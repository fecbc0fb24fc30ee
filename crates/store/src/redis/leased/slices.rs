//! The work on slices: spends units, makes calls, waits for answers, and settles slices at intervals.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::MappedMutexGuard;
use tidegate_core::{Quota, Verdict};
use tidegate_redis::{Answer, Wait};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::super::decision_cache::{Known, RefusedBy};
use super::lender::{Ask, Lent};
use super::slice::{Slice, Step};
use super::table::{AnswerWatch, Entry};
use super::{Leased, Taken, clock};
use crate::charge::LimitKey;
use crate::{Charge, Recall, StoreError};

/// The time between two searches for slices that are due.
const ROUND: Duration = Duration::from_millis(100);

/// The most slices that are settled at once.
const AT_ONCE: usize = 64;

/// The next step of a request.
#[derive(Debug)]
pub(super) enum Next {
    /// The request was decided in this process.
    Done(Taken),
    /// Redis decides.
    Asking(JoinHandle<Result<Taken, StoreError>>),
    /// The request waits for this answer, and then takes the next step.
    Wait(AnswerWatch),
}

impl Leased {
    /// Spends from the slice, makes a call, or waits for a call that is under way.
    pub(super) fn take(self: &Arc<Self>, charge: &Charge<'_>, checks: bool, wait: Wait) -> Next {
        let key = charge.limit_key();
        let Some(mut entry) = self.entry(&key, charge) else {
            return self.without_slice(charge, checks, wait);
        };
        let (quota, request) = (charge.limit.quota(), (charge.cost, checks));
        let step = entry
            .slice
            .take(quota, request, clock::now(), || self.number());
        match step {
            Step::Spent(verdict, spent, ask) => {
                if let Some(ask) = ask {
                    self.begin(key, entry, ask, Wait::new(self.lender.access.timeout, None));
                }
                Next::Done(Taken {
                    verdict,
                    was_called: false,
                    spent: Some(spent),
                })
            }
            Step::Decided(verdict) => Next::Done(unspent(verdict)),
            Step::Ask(ask) => Next::Asking(self.begin(key, entry, ask, wait)),
            Step::Wait => Next::Wait(entry.answer.clone()),
        }
    }

    /// Returns the entry of a charge, if its slice was lent under the charge's quota.
    pub(super) fn current(&self, charge: &Charge<'_>) -> Option<MappedMutexGuard<'_, Entry>> {
        let entry = self.table.get(&charge.limit_key())?;
        (entry.budget.limit.quota() == charge.limit.quota()).then_some(entry)
    }

    /// Settles the slice of one key, and returns all its unspent units to Redis.
    pub(super) fn end(self: &Arc<Self>, charge: &Charge<'_>, wait: Wait) -> Next {
        let nothing = Charge { cost: 0, ..*charge };
        let key = charge.limit_key();
        let Some(mut entry) = self.entry(&key, charge) else {
            return Next::Asking(self.ask_once(&nothing, false, wait));
        };
        if entry.slice.is_asking() {
            return Next::Wait(entry.answer.clone());
        }
        let ask = entry.slice.end(self.number());
        Next::Asking(self.begin(key, entry, ask, wait))
    }

    /// Whether this gateway borrows slices of this key's limit.
    pub(super) fn is_leased(&self, key: &LimitKey) -> bool {
        let leased = self.leased.read();
        leased
            .as_ref()
            .is_none_or(|leased| leased.contains(&key.limit))
    }

    /// Settles the slices of the keys for which `ends` returns true, and returns them to Redis. Retries while Redis does not answer.
    pub(super) async fn end_where(self: &Arc<Self>, ends: impl Fn(&LimitKey) -> bool) {
        loop {
            let now = clock::now();
            let mut keys = self.table.sweep(now, |it| it.is_out(now) || it.is_asking());
            keys.retain(&ends);
            if keys.is_empty() {
                return;
            }
            self.settle_all(&keys, |slice, _| slice.end(self.number()))
                .await;
            // Keys that already had a call under way, or got no answer, are tried again.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Settles all lent slices of these clients, and returns them to Redis.
    pub(super) async fn return_of(self: &Arc<Self>, recall: &Recall) {
        let now = clock::now();
        let mut keys = self.table.sweep(now, |slice| slice.is_out(now));
        keys.retain(|key| recall.concerns(&key.key));
        self.settle_all(&keys, |slice, _| slice.end(self.number()))
            .await;
    }

    /// Makes calls about many keys, a few at a time.
    async fn settle_all(
        self: &Arc<Self>,
        keys: &[LimitKey],
        mut ask: impl FnMut(&mut Slice, &Quota) -> Ask,
    ) {
        for keys in keys.chunks(AT_ONCE) {
            let mut asking = Vec::with_capacity(keys.len());
            for key in keys {
                let Some(mut entry) = self.table.get(key) else {
                    continue;
                };
                if entry.slice.is_asking() {
                    continue;
                }
                let budget = entry.budget.clone();
                let ask = ask(&mut entry.slice, budget.limit.quota());
                let wait = Wait::new(self.lender.access.timeout, None);
                asking.push(self.begin(*key, entry, ask, wait));
            }
            for asking in asking {
                // If the call failed, the slice remains lent until a later call settles it, or until it lapses.
                let _ = asking.await;
            }
        }
    }

    /// Returns the entry of a charge. `None` if there is no place for it. If a reload has changed the quota, the units of the slice are not
    /// spent any more, and the next call returns them.
    fn entry(&self, key: &LimitKey, charge: &Charge<'_>) -> Option<MappedMutexGuard<'_, Entry>> {
        let budget = || Arc::new(self.lender.budget(charge));
        let begin = || Entry::new(budget(), Slice::new(self.number()));
        let mut entry = self.table.entry(key, begin)?;
        if entry.budget.limit.quota() != charge.limit.quota() {
            entry.budget = budget();
            entry.slice.forget();
        }
        Some(entry)
    }

    /// Calls Redis for the slice of this entry, in a task of its own. Other requests wait for the entry's answer.
    fn begin(
        self: &Arc<Self>,
        key: LimitKey,
        mut entry: MappedMutexGuard<'_, Entry>,
        mut ask: Ask,
        wait: Wait,
    ) -> JoinHandle<Result<Taken, StoreError>> {
        if !self.is_leased(&key) {
            ask.wanted = 0;
        }
        let (sender, watch) = watch::channel(None);
        entry.answer = watch;
        let (leased, budget) = (self.clone(), entry.budget.clone());
        drop(entry);
        let sent = clock::now();
        tokio::spawn(async move {
            let answer = leased.lender.ask(&budget, &ask, wait).await;
            leased.note(&key, sent, &answer);
            let answer = answer.map(|answer| taken(&answer.content));
            let result = match &answer {
                // A waiting request may wait for longer than this call did, so it takes the next step.
                Err(error) if !wait.explains(error) => Err(error.clone()),
                _ => Ok(()),
            };
            // Sending fails if no request waits, so its result is ignored.
            let _ = sender.send(Some(result));
            answer
        })
    }

    /// Records the answer in the slice.
    fn note(&self, key: &LimitKey, sent: Instant, answer: &Result<Answer<Lent>, StoreError>) {
        let Some(mut entry) = self.table.get(key) else {
            return;
        };
        match answer {
            Ok(answer) => {
                let lent = answer.content;
                entry.slice.answered(lent, sent, clock::now());
            }
            Err(_) => entry.slice.failed(clock::now()),
        }
    }

    /// Decides a charge for whose key the table has no place.
    fn without_slice(self: &Arc<Self>, charge: &Charge<'_>, checks: bool, wait: Wait) -> Next {
        let (cache, now) = (&self.lender.access.cache, Instant::now());
        let patience = self.lender.access.timeout;
        match cache.of(charge, now) {
            Known::Stale(..) if cache.claim(charge, now, patience, RefusedBy::Nothing) => {}
            Known::Refused(refusal, _) | Known::Stale(refusal, _) => {
                return Next::Done(unspent(refusal));
            }
            Known::Exhausted | Known::Nothing => {}
        }
        Next::Asking(self.ask_once(charge, checks, wait))
    }

    /// Calls Redis without a slice, and borrows none.
    fn ask_once(
        self: &Arc<Self>,
        charge: &Charge<'_>,
        checks: bool,
        wait: Wait,
    ) -> JoinHandle<Result<Taken, StoreError>> {
        let (leased, budget) = (self.clone(), self.lender.budget(charge));
        let ask = Ask {
            cost: charge.cost,
            session: self.number(),
            call: self.number(),
            checks,
            ..Ask::default()
        };
        tokio::spawn(async move {
            let answer = leased.lender.ask(&budget, &ask, wait).await;
            answer.map(|answer| taken(&answer.content))
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    #[cfg(test)]
    pub(super) fn knows(&self, charge: &Charge<'_>) -> bool {
        self.table.get(&charge.limit_key()).is_some()
    }

    fn number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Returns the result of a call for its request.
fn taken(lent: &Lent) -> Taken {
    Taken {
        was_called: true,
        ..unspent(lent.verdict())
    }
}

/// Returns a verdict for which no unit was spent.
const fn unspent(verdict: Verdict) -> Taken {
    Taken {
        verdict,
        was_called: false,
        spent: None,
    }
}

/// Settles slices when they are due, until `leased` is dropped.
pub(super) async fn keep(leased: Weak<Leased>) {
    let mut rounds = tokio::time::interval(ROUND);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let Some(leased) = leased.upgrade() else {
            return;
        };
        let now = clock::now();
        let due = leased.table.sweep(now, |slice| slice.is_due(now));
        let settle = |slice: &mut Slice, quota: &Quota| slice.settle(quota, now, leased.number());
        leased.settle_all(&due, settle).await;
    }
}

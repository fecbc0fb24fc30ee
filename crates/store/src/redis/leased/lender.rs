//! Calls of `lua/lease.lua`, each about one key.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Micros, Quota, Verdict};
use tidegate_redis::{Answer, Identity, Wait, Word, with_deadline};

use super::super::access::Access;
use super::super::decision_cache;
use super::super::script::arguments::{Arguments, Holding};
use super::super::script::{self, Task};
use crate::{Charge, Key, Limit, StoreError};

/// The time without a call after which a slice lapses. After the lapse, the gateway counts as gone, and its whole slice as spent.
pub(super) const TERM: Duration = Duration::from_secs(5);

/// The longest time for which requests are refused without a call.
pub(super) const LONGEST_REFUSAL: Duration = Duration::from_secs(1);

/// The Redis that lends slices, and the gateway that borrows them.
#[derive(Debug)]
pub(in crate::redis) struct Lender {
    pub(in crate::redis) access: Access,
    /// The ID of this gateway.
    pub(in crate::redis) identity: Arc<Identity>,
}

/// A key from whose budget this gateway borrows slices.
#[derive(Debug)]
pub(super) struct LentKey {
    pub(super) limit: Limit,
    key: Key,
    // The Redis keys of the limit's own state and of the slices of all gateways.
    keys: [Word; 2],
}

/// A call about a slice, with the slice's use and wanted size. Units are counted from the beginning of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ask {
    /// The cost of the request that Redis decides; 0 without a request.
    pub(super) cost: u64,
    /// The number of the session.
    pub(super) session: u64,
    /// The number of the call; later calls have greater numbers.
    pub(super) call: u64,
    /// The units spent so far.
    pub(super) spent: u64,
    /// The spent units that no answer has settled yet.
    pub(super) unsettled: u64,
    /// The units of the slice that the gateway keeps.
    pub(super) kept: u64,
    /// The lapse of the slice in the last answer, by Redis's clock; 0 before the first answer.
    pub(super) lapse: Micros,
    /// The wanted size of the slice.
    pub(super) wanted: u64,
    /// Whether the request is decided and not charged, because another limit has refused it.
    pub(super) checks: bool,
}

/// The answer of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lent {
    /// The time by Redis's clock.
    pub(super) now: Micros,
    /// Whether the request was admitted. The cost of an admitted request is charged, unless the call only checks the request.
    pub(super) admitted: bool,
    /// The units that can still be lent.
    pub(super) left: u64,
    /// The time until all charged units are free again, in us.
    pub(super) reset: Micros,
    /// The time until a request of the same cost is admitted, in us; 0 at once. Without a request, the cost is 1.
    pub(super) retry_after: Micros,
    /// The size of the slice.
    pub(super) out: u64,
    /// The time at which the slice lapses.
    pub(super) lapse: Micros,
}

impl Lender {
    /// Returns the budget of a charge.
    pub(super) fn budget(&self, charge: &Charge<'_>) -> LentKey {
        let key = charge.redis_key(&self.access.caller.key_prefix);
        let slices = format!("{key}:slices");
        LentKey {
            limit: charge.limit.clone(),
            key: charge.key,
            keys: [key.into(), slices.into()],
        }
    }

    /// Makes the call, with this deadline.
    pub(super) async fn ask(
        &self,
        budget: &LentKey,
        ask: &Ask,
        wait: Wait,
    ) -> Result<Answer<Lent>, StoreError> {
        let charge = budget.charge(ask.cost);
        let answer = self.ask_guarded(budget, ask, wait).await;
        match &answer {
            Ok(answer) => {
                let lent = &answer.content;
                let call = decision_cache::Call {
                    sent: answer.sent,
                    received: answer.received,
                    at: lent.now,
                };
                // The units of the slice are left out, because the slice is used up before a decision uses this answer.
                let remaining = lent.left;
                // `reset` is not raised to a longer wait, because the cache would take the later `reset` for a debt.
                let verdict = Verdict {
                    remaining,
                    reset: lent.reset,
                    ..lent.verdict()
                };
                self.access.cache.note(&charge, &verdict, call);
            }
            Err(_) => self.access.cache.unanswered(&charge),
        }
        answer
    }

    async fn ask_guarded(
        &self,
        budget: &LentKey,
        ask: &Ask,
        wait: Wait,
    ) -> Result<Answer<Lent>, StoreError> {
        self.access.secret.check()?;
        let shard = self.access.caller.server(&budget.key.tag)?;
        let call = |on_clock| self.call(budget, ask, on_clock);
        match shard.in_flight.call(wait, call).await {
            // The late call had no effect. Its answer contains Redis's time, from which the next call computes its deadline.
            Err(StoreError::Late) => shard.in_flight.call(wait, call).await,
            answer => answer,
        }
    }

    async fn call(
        &self,
        budget: &LentKey,
        ask: &Ask,
        on_clock: Option<Micros>,
    ) -> Result<(Micros, Option<Lent>), StoreError> {
        let charges = [budget.charge(ask.cost)];
        let mut words = with_deadline(
            on_clock,
            0,
            &Arguments::of(&charges, Holding::None).at(crate::now()),
        );
        words.push(self.identity.get().to_string().into());
        let term = u64::try_from(TERM.as_micros()).unwrap_or(u64::MAX);
        let Ask {
            session,
            call,
            spent,
            unsettled,
            kept,
            lapse,
            wanted,
            checks,
            ..
        } = *ask;
        let checks = u64::from(checks);
        let numbers = [
            session, call, spent, unsettled, kept, lapse, wanted, term, checks,
        ];
        words.extend(numbers.map(Word::from));
        let script = script::number(Task::Lease, &charges, Holding::None);
        let (tag, shards) = (&budget.key.tag, &self.access.caller.shards);
        let reply = shards.call(tag, script, &budget.keys, &words).await?;
        let (now, lent) = Lent::read(&reply).ok_or_else(StoreError::unknown_reply)?;
        Ok((
            now,
            lent.map(|lent| lent.with_shortest_refusal(budget.limit.quota())),
        ))
    }

    /// Borrows one unit for this charge, to check that Redis lends slices. The slice lapses with the period of the quota.
    pub(in crate::redis) async fn probe(
        &self,
        charge: &Charge<'_>,
        wait: Wait,
    ) -> Result<(), StoreError> {
        let now = crate::now();
        let ask = Ask {
            cost: charge.cost,
            session: now,
            call: now,
            wanted: 1,
            ..Ask::default()
        };
        let answer = self.ask_guarded(&self.budget(charge), &ask, wait).await;
        answer.map(drop)
    }
}

impl LentKey {
    fn charge(&self, cost: u64) -> Charge<'_> {
        Charge {
            limit: &self.limit,
            key: self.key,
            cost,
            origin: None,
        }
    }
}

impl Lent {
    /// Reads a reply (lua/README.md): the time, and all other fields if the call was in time.
    fn read(reply: &[i64]) -> Option<(Micros, Option<Self>)> {
        let number = |at: usize| u64::try_from(*reply.get(at)?).ok();
        let now = number(0)?;
        if reply.get(1) == Some(&-1) {
            return Some((now, None));
        }
        let lent = Self {
            now,
            admitted: number(1)? == 1,
            left: number(2)?,
            reset: number(3)?,
            retry_after: number(4)?,
            out: number(5)?,
            lapse: number(6)?,
        };
        Some((now, Some(lent)))
    }

    /// Raises the wait of a refusal to the shortest time for which this gateway refuses. So this request gets the same wait as later
    /// requests.
    fn with_shortest_refusal(mut self, quota: &Quota) -> Self {
        if !self.admitted {
            let shortest = Micros::try_from(shortest_refusal(quota).as_micros());
            self.retry_after = self.retry_after.max(shortest.unwrap_or(0));
        }
        self
    }

    /// Returns the verdict on the request of the call.
    pub(super) fn verdict(&self) -> Verdict {
        let retry_after = if self.admitted { 0 } else { self.retry_after };
        Verdict {
            allowed: self.admitted,
            remaining: self.left + self.out,
            // Even if no unit is charged, a request may have to wait for lent units.
            reset: self.reset.max(retry_after),
            retry_after,
            ..Verdict::default()
        }
    }
}

/// Returns the shortest time for which a request is refused. In this time, enough units become free, bit by bit, to make the next call
/// worthwhile.
pub(super) fn shortest_refusal(quota: &Quota) -> Duration {
    if quota.is_gradual() {
        Duration::from_micros(quota.period() / 32).min(LONGEST_REFUSAL)
    } else {
        Duration::ZERO
    }
}

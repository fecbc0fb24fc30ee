//! What is told to `lua/lease.lua` and what it answers: one call per question, for one key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{Micros, Quota, Verdict};
use tidegate_redis::{Answer, Identity, Word, with_deadline};

use super::super::access::Access;
use super::super::decision_cache;
use super::super::script::arguments::{Arguments, Holding};
use super::super::script::{self, Task};
use crate::{Charge, Key, Limit, StoreError};

/// After so long without a word a slice lapses: its gateway is taken to be gone, and to have spent all of it.
pub(super) const TERM: Duration = Duration::from_secs(5);

/// The longest time for which requests are refused without a call.
pub(super) const LONGEST_REFUSAL: Duration = Duration::from_secs(1);

/// Whom slices are borrowed from, and by whom.
#[derive(Debug)]
pub(in crate::redis) struct Lender {
    pub(in crate::redis) access: Access,
    /// This gateway.
    pub(in crate::redis) identity: Arc<Identity>,
}

/// A key of which slices are borrowed.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) limit: Limit,
    key: Key,
    // The limit's own state, and who holds what of it.
    keys: [Word; 2],
}

/// What a gateway tells of its slice, and what it asks for. Units are counted from the beginning of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ask {
    /// What the request at hand costs, which Redis decides; 0 if there is none.
    pub(super) cost: u64,
    /// Which session it is.
    pub(super) session: u64,
    /// Which call it is; later ones have greater numbers.
    pub(super) call: u64,
    /// Spent so far.
    pub(super) spent: u64,
    /// Of these, what no answer has settled yet.
    pub(super) unsettled: u64,
    /// How much of the slice is not given back.
    pub(super) kept: u64,
    /// When it lapses, by Redis's clock, as far as is known; 0 if there is none.
    pub(super) lapse: Micros,
    /// How large the slice should be.
    pub(super) wanted: u64,
    /// Whether the request is decided and not charged: another limit has refused it.
    pub(super) checks: bool,
}

/// What Redis answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lent {
    /// Its clock.
    pub(super) now: Micros,
    /// Whether the request was admitted, and its cost charged.
    pub(super) admitted: bool,
    /// How much more can be lent.
    pub(super) left: u64,
    /// How long until all that is charged is forgotten, in us.
    pub(super) reset: Micros,
    /// How long until a request of this cost (without one, of 1) would be admitted, in us; 0: at once.
    pub(super) retry_after: Micros,
    /// The size of the slice.
    pub(super) out: u64,
    /// When it lapses.
    pub(super) lapse: Micros,
}

impl Lender {
    /// The budget of a charge.
    pub(super) fn budget(&self, charge: &Charge<'_>) -> Budget {
        let key = charge.redis_key(&self.access.caller.key_prefix);
        let slices = format!("{key}:slices");
        Budget {
            limit: charge.limit.clone(),
            key: charge.key,
            keys: [key.into(), slices.into()],
        }
    }

    /// Asks, until then.
    pub(super) async fn ask(
        &self,
        budget: &Budget,
        ask: &Ask,
        until: Instant,
    ) -> Result<Answer<Lent>, StoreError> {
        let charge = budget.charge(ask.cost);
        let answer = self.ask_guarded(budget, ask, until).await;
        match &answer {
            Ok(answer) => {
                let lent = &answer.content;
                let call = decision_cache::Call {
                    sent: answer.sent,
                    received: answer.received,
                    at: lent.now,
                };
                // What is in hand is spent before anything is made of this.
                let remaining = lent.left;
                // The wait may last beyond the reset, which is no debt.
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
        budget: &Budget,
        ask: &Ask,
        until: Instant,
    ) -> Result<Answer<Lent>, StoreError> {
        self.access.secret.check()?;
        let shard = self.access.caller.server(&budget.key.tag)?;
        let asked = |on_clock| self.call(budget, ask, on_clock);
        match shard.in_flight.call(until, asked).await {
            // It has done nothing, and told the time, by which another one may be in time.
            Err(StoreError::Late) => shard.in_flight.call(until, asked).await,
            answer => answer,
        }
    }

    async fn call(
        &self,
        budget: &Budget,
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

    /// Borrows one unit for this charge, which shows whether Redis lends at all. The slice lapses with the period of the quota.
    pub(in crate::redis) async fn probe(
        &self,
        charge: &Charge<'_>,
        until: Instant,
    ) -> Result<(), StoreError> {
        let now = crate::now();
        let ask = Ask {
            cost: charge.cost,
            session: now,
            call: now,
            wanted: 1,
            ..Ask::default()
        };
        let asked = self.ask_guarded(&self.budget(charge), &ask, until).await;
        asked.map(drop)
    }
}

impl Budget {
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
    /// Reads a reply (lua/README.md): the time, and the rest, if the call was in time.
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

    /// Returns the answer with the time for which this gateway refuses by it. The request gets the same time as later ones.
    fn with_shortest_refusal(mut self, quota: &Quota) -> Self {
        if !self.admitted {
            let shortest = Micros::try_from(shortest_refusal(quota).as_micros());
            self.retry_after = self.retry_after.max(shortest.unwrap_or(0));
        }
        self
    }

    /// What a request that asked is told.
    pub(super) fn verdict(&self) -> Verdict {
        let retry_after = if self.admitted { 0 } else { self.retry_after };
        Verdict {
            allowed: self.admitted,
            remaining: self.left + self.out,
            // Where nothing is used it may yet wait for what is lent.
            reset: self.reset.max(retry_after),
            retry_after,
            ..Verdict::default()
        }
    }
}

/// Returns the shortest time for which a request is refused. Units that come back bit by bit are left to become worth a call.
pub(super) fn shortest_refusal(quota: &Quota) -> Duration {
    if quota.is_gradual() {
        Duration::from_micros(quota.period() / 32).min(LONGEST_REFUSAL)
    } else {
        Duration::ZERO
    }
}

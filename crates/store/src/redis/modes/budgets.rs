//! One client's budgets in Redis: looking at them without charging, and forgetting what was used of them.
//!
//! Neither is any request's business: nothing here is remembered for decisions. Without an answer of Redis, [`Modes::peek_here`] says
//! what this process knows, and says nothing in Redis's place.

use std::time::Instant;

use tidegate_core::Verdict;

use super::Modes;
use crate::redis::script::caller::compensation::LONGEST;
use crate::{Charge, LocalView, MAX_CHARGES, Mode, Outlook, StoreError};

impl Modes {
    /// As [`RedisStore::peek`](crate::RedisStore::peek).
    pub(in crate::redis) async fn peek(
        &self,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Outlook>, StoreError> {
        let is_local = |charge: &Charge<'_>| charge.limit.mode() == Mode::Local;
        let (local, shared): (Vec<Charge<'_>>, Vec<Charge<'_>>) =
            charges.iter().partition(|charge| is_local(charge));
        let mut here = self.fallback.memory.peek(&local).into_iter();
        let mut there = match shared.is_empty() {
            true => Vec::new(),
            false => self.peek_redis(&shared).await?,
        }
        .into_iter();
        let next = |charge| match is_local(charge) {
            true => here.next(),
            false => there.next(),
        };
        Ok(charges.iter().filter_map(next).collect())
    }

    async fn peek_redis(&self, charges: &[Charge<'_>]) -> Result<Vec<Outlook>, StoreError> {
        self.exact.access.secret.check()?;
        let mut outlooks = Vec::with_capacity(charges.len());
        self.settle_leased(charges).await?;
        for charges in parts(charges) {
            let until = Instant::now() + self.timeout;
            let decision = self.exact.access.caller.look(charges, until).await?;
            let outlook = |verdict: Verdict| Outlook {
                now: decision.now,
                verdict,
                here: false,
            };
            outlooks.extend(decision.verdicts.iter().flatten().copied().map(outlook));
        }
        Ok(outlooks)
    }

    /// What this process knows of a charge by itself.
    pub(in crate::redis) fn peek_here(&self, charge: &Charge<'_>) -> LocalView {
        let mode = charge.limit.mode();
        let known = match mode {
            Mode::Local => return self.fallback.memory.view(charge),
            Mode::Synced => self.synced.look(charge),
            Mode::Exact | Mode::Leased => None,
        };
        let (capacity, outlook) = known.unwrap_or_else(|| self.fallback.look(charge));
        LocalView {
            outlook,
            capacity,
            leased: match mode {
                Mode::Leased => self.leased.left(charge),
                _ => None,
            },
            last: self.fallback.cache.last(charge),
        }
    }

    /// As [`RedisStore::reset`](crate::RedisStore::reset).
    pub(in crate::redis) async fn reset(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let is_shared = |charge: &&Charge<'_>| charge.limit.mode() != Mode::Local;
        let shared: Vec<Charge<'_>> = charges.iter().filter(is_shared).copied().collect();
        if !shared.is_empty() {
            self.reset_redis(&shared).await?;
        }
        self.fallback.memory.reset(charges);
        for charge in charges {
            self.fallback.cache.forget(charge);
            self.leased.forget(charge);
        }
        Ok(())
    }

    async fn reset_redis(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        self.exact.access.secret.check()?;
        match self.settle_leased(charges).await {
            // What cannot be read is forgotten too.
            Err(error) if !error.is_about_keys() => return Err(error),
            _ => {}
        }
        let patience = self.timeout.max(LONGEST);
        for charges in parts(charges) {
            self.exact.access.caller.forget(charges, patience).await?;
            self.synced.forget(charges);
        }
        Ok(())
    }

    /// Brings into Redis's state what is known of leased limits here, and returns what this gateway has borrowed.
    async fn settle_leased(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let leased = |charge: &&Charge<'_>| charge.limit.mode() == Mode::Leased;
        for charge in charges.iter().filter(leased) {
            let until = Instant::now() + self.timeout;
            self.leased.settle(charge, until).await?;
        }
        Ok(())
    }
}

/// As many charges as fit into one call, whose keys share a slot of a Redis Cluster.
fn parts<'a>(charges: &'a [Charge<'a>]) -> impl Iterator<Item = &'a [Charge<'a>]> {
    let of_one_tag = charges.chunk_by(|a, b| a.key.tag == b.key.tag);
    of_one_tag.flat_map(|charges| charges.chunks(MAX_CHARGES))
}

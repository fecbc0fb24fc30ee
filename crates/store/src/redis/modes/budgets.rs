//! One client's budgets in Redis: read without a charge, and reset.
//!
//! Answers to these calls are not cached for decisions. If Redis does not answer, [`Modes::peek_here`] returns the state of this process,
//! which does not replace a verdict of Redis.

use tidegate_redis::Wait;

use super::Modes;
use crate::redis::script::caller::compensation::LONGEST;
use crate::{Charge, LocalView, MAX_CHARGES, Mode, Outlook, StoreError};

impl Modes {
    /// Runs [`RedisStore::peek`](crate::RedisStore::peek).
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
        let outlooks = charges.iter().filter_map(|charge| match is_local(charge) {
            true => here.next(),
            false => there.next(),
        });
        Ok(outlooks.collect())
    }

    async fn peek_redis(&self, charges: &[Charge<'_>]) -> Result<Vec<Outlook>, StoreError> {
        self.exact.access.secret.check()?;
        let mut outlooks = Vec::with_capacity(charges.len());
        self.settle_leased(charges).await?;
        for charges in parts(charges) {
            let wait = Wait::new(self.timeout, None);
            let decision = self.exact.access.caller.look(charges, wait).await?;
            let verdicts = decision.verdicts.iter().flatten().copied();
            outlooks.extend(verdicts.map(|verdict| Outlook {
                now: decision.now,
                verdict,
                here: false,
            }));
        }
        Ok(outlooks)
    }

    /// Returns the state of a charge in this process.
    pub(in crate::redis) fn peek_here(&self, charge: &Charge<'_>) -> LocalView {
        let mode = charge.limit.mode();
        let state = match mode {
            Mode::Local => return self.fallback.memory.view(charge),
            Mode::Synced => self.synced.look(charge),
            Mode::Exact | Mode::Leased => None,
        };
        let (capacity, outlook) = state.unwrap_or_else(|| self.fallback.look(charge));
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

    /// Runs [`RedisStore::reset`](crate::RedisStore::reset).
    pub(in crate::redis) async fn reset(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let mut shared = charges.to_vec();
        shared.retain(|charge| charge.limit.mode() != Mode::Local);
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
            // An error about unreadable keys is ignored, because the reset also removes data that the script cannot read.
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

    /// Settles the leased limits of these charges, and returns this gateway's slices to Redis.
    async fn settle_leased(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        for charge in charges {
            if charge.limit.mode() == Mode::Leased {
                let wait = Wait::new(self.timeout, None);
                self.leased.settle(charge, wait).await?;
            }
        }
        Ok(())
    }
}

/// Divides charges into parts for one call each: at most [`MAX_CHARGES`], with keys in one slot of a Redis Cluster.
fn parts<'a>(charges: &'a [Charge<'a>]) -> impl Iterator<Item = &'a [Charge<'a>]> {
    let of_one_tag = charges.chunk_by(|a, b| a.key.tag == b.key.tag);
    of_one_tag.flat_map(|charges| charges.chunks(MAX_CHARGES))
}

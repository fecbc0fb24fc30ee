//! What a gateway does for overrides all the time: it asks what has changed, ends what is over, and drops what no longer counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::Micros;
use tidegate_redis::CallError;

use super::{Overrides, Store, ended};
use crate::MAX_OVERRIDES;
use crate::exchange::{BATCH, Exchange};
use crate::replica::Change;

/// How often Redis is asked for changes.
const EVERY: Duration = Duration::from_millis(500);
/// Overrides that end within so long of each other may end together.
const TOGETHER: Duration = Duration::from_millis(50);
/// By so much the clock may seem to step back, in us.
const JITTER: Micros = 1_000_000;
/// How often what no longer counts is dropped.
const DROP: Duration = Duration::from_secs(30);
/// How many records Redis drops then.
const DROPPED: usize = 2_000;

impl Overrides {
    /// Keeps them up to date, for as long as the future is polled.
    pub async fn keep(self: &Arc<Self>) {
        let mut is_failing = false;
        let (mut asked, mut dropped) = (None::<Instant>, Instant::now());
        loop {
            if asked.is_none_or(|at| at.elapsed() >= EVERY) {
                asked = Some(Instant::now());
                let answer = self.sync().await;
                is_failing = log(answer.err(), is_failing);
            }
            self.end_over().await;
            if dropped.elapsed() >= DROP {
                dropped = Instant::now();
                self.drop_unneeded().await;
            }
            tokio::time::sleep(self.pause()).await;
        }
    }

    /// How long nothing is to be done.
    fn pause(&self) -> Duration {
        let now = self.now();
        let next = self.replica.lock().next_end(now);
        let until = next.map_or(EVERY, |next| Duration::from_micros(next - now));
        until.clamp(TOGETHER, EVERY)
    }

    /// Ends the overrides whose time has come.
    pub(super) async fn end_over(self: &Arc<Self>) {
        let now = self.now();
        let since = {
            let mut told = self.told.lock();
            // Each answer of Redis shows its clock a little differently.
            if now <= *told && *told - now < JITTER {
                return;
            }
            std::mem::replace(&mut *told, now)
        };
        let over = self.replica.lock().ended(since, now);
        let changes: Vec<Change> = over.into_iter().map(ended).collect();
        self.tell(changes, true).await;
    }

    /// Drops what is over, and the earliest of too many cleared ones.
    async fn drop_unneeded(self: &Arc<Self>) {
        let Store::Redis(exchange) = &self.store else {
            let now = self.now();
            let mut replica = self.replica.lock();
            let over = replica.over(now, usize::MAX);
            let many = replica.cleared().saturating_sub(MAX_OVERRIDES);
            for (subject, _) in over.into_iter().chain(replica.earliest_cleared(many)) {
                replica.forget(&subject);
            }
            return;
        };
        // Another gateway does it, or this one by and by.
        let _ = self.drop_over(exchange, DROPPED).await;
        let many = self.replica.lock().cleared().saturating_sub(MAX_OVERRIDES);
        let earliest = self.replica.lock().earliest_cleared(many.min(DROPPED));
        for records in earliest.chunks(BATCH) {
            if exchange.drop_over(records, true).await.is_ok() {
                let mut replica = self.replica.lock();
                records
                    .iter()
                    .for_each(|(subject, _)| replica.forget(subject));
            }
        }
    }

    /// Drops what is over, here and in Redis.
    pub(super) async fn drop_over(
        self: &Arc<Self>,
        exchange: &Exchange,
        most: usize,
    ) -> Result<(), CallError> {
        self.end_over().await;
        let now = self.now();
        let over = self.replica.lock().over(now, most);
        for records in over.chunks(BATCH) {
            exchange.drop_over(records, false).await?;
            let mut replica = self.replica.lock();
            records
                .iter()
                .for_each(|(subject, _)| replica.forget(subject));
        }
        Ok(())
    }
}

/// Logs that Redis does not tell of overrides any more, and that it does again; whether it does not.
fn log(error: Option<CallError>, was_failing: bool) -> bool {
    match (&error, was_failing) {
        (Some(error), false) => {
            tracing::warn!(%error, "Redis does not tell of overrides; those that are known stay in force");
        }
        (None, true) => tracing::info!("Redis tells of overrides again"),
        _ => {}
    }
    error.is_some()
}

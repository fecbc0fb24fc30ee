//! What a gateway learns of Redis, and what it gives back to a Redis that has lost data.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::Micros;
use tidegate_redis::CallError;

use super::{Known, Overrides, Store, ended};
use crate::exchange::{BATCH, Exchange, REMEMBERED};
use crate::name::Subject;
use crate::replica::{Change, Record};

/// How often Redis is asked to keep overrides for longer.
const RENEW: Duration = Duration::from_secs(60 * 60);

impl Overrides {
    /// Learns what other gateways have changed, and gives back to Redis what it has lost.
    ///
    /// # Errors
    ///
    /// Redis does not answer as it should.
    pub async fn sync(self: &Arc<Self>) -> Result<(), CallError> {
        let Store::Redis(exchange) = &self.store else {
            return Ok(());
        };
        let mut changes = Vec::new();
        let mut known = self.known.lock().await;
        // What was in force when this process first hears of any is no news.
        let are_news = known.heard.is_some();
        let answer = self.exchange(exchange, &mut known, &mut changes).await;
        // Also if a later part failed.
        self.tell(changes, are_news).await;
        answer
    }

    pub(super) async fn exchange(
        &self,
        exchange: &Exchange,
        known: &mut Known,
        changes: &mut Vec<Change>,
    ) -> Result<(), CallError> {
        let connection = exchange.connection();
        let renews = known.renewed.is_none_or(|at| at.elapsed() >= RENEW);
        let mut page = exchange.changed(known.since, renews).await?;
        *self.clock.lock() = Some(page.clock);
        let now = page.clock.now();
        let is_lost = page.version < self.replica.lock().version();
        // Another server may have the state of a moment ago.
        let is_other = connection.is_none() || known.connection != connection;
        // Redis may drop one of the keys alone. What no gateway knows stays lost, and is no reason to compare all again and again.
        let is_torn = page.lacking > known.lacking;
        let is_whole = is_lost || is_other || is_torn || page.begun != known.begun;
        if is_whole && known.since != 0 {
            known.since = 0;
            page = exchange.changed(0, false).await?;
        }
        // What is restored behind a part that was read gets another beginning, which is not that of the first part: then all is compared
        // once more.
        let (begun, lacking) = (page.begun, page.lacking);
        if is_torn {
            tracing::warn!(
                lacking,
                "Redis has lost a part of the overrides; gateways that know it restore it"
            );
        }
        let mut seen = HashMap::new();
        loop {
            if is_whole {
                let records = page.records.iter();
                seen.extend(records.map(|(subject, record)| (subject.clone(), record.version)));
            }
            self.merge(page.records, now, changes);
            let is_last = page.until >= page.version || page.until <= known.since;
            known.since = known.since.max(page.until);
            if is_last {
                break;
            }
            page = exchange.changed(known.since, false).await?;
        }
        if is_whole {
            self.restore(exchange, known, &seen, changes).await?;
        }
        // If something was restored, there is another beginning by now, and all is compared once more.
        known.begun = begun;
        known.lacking = lacking;
        if renews {
            known.renewed = Some(Instant::now());
        }
        known.connection = connection;
        known.heard = Some(Instant::now());
        Ok(())
    }

    fn merge(&self, records: Vec<(Subject, Record)>, now: Micros, changes: &mut Vec<Change>) {
        let mut replica = self.replica.lock();
        let records = records.into_iter();
        changes.extend(records.filter_map(|(subject, it)| replica.merge(subject, it, now)));
    }

    /// Gives back to Redis what it does not have.
    async fn restore(
        &self,
        exchange: &Exchange,
        known: &Known,
        seen: &HashMap<Subject, u64>,
        changes: &mut Vec<Change>,
    ) -> Result<(), CallError> {
        let now = self.now();
        // What was cleared since is not remembered any longer.
        let is_old = known.heard.is_some_and(|at| at.elapsed() >= REMEMBERED);
        let missing: Vec<(Subject, Record)> = {
            let mut replica = self.replica.lock();
            if is_old {
                let in_force = replica.in_force(now);
                let lost = in_force.filter(|it| !seen.contains_key(&it.subject));
                changes.extend(lost.map(ended));
                replica.keep_only(|subject| seen.contains_key(subject));
            }
            let is_missing = |(subject, record): &(&Subject, &Record)| {
                let is_known = seen.get(*subject).is_some_and(|it| *it >= record.version);
                !is_known && !record.is_over(now)
            };
            let missing = replica.records().filter(is_missing);
            missing
                .map(|(subject, record)| (subject.clone(), record.clone()))
                .collect()
        };
        let version = self.replica.lock().version();
        if missing.is_empty() && known.since >= version {
            return Ok(());
        }
        let mut restored = exchange.restore(version, &[]).await?;
        for records in missing.chunks(BATCH) {
            restored += exchange.restore(version, records).await?;
        }
        tracing::info!(restored, "Redis had lost overrides; they were restored");
        Ok(())
    }
}

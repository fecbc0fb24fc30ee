//! The comparison of a gateway's table with Redis's table. Afterwards both tables have the same entries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tidegate_core::micros;
use tidegate_redis::CallError;

use super::{Overrides, Unseen};
use crate::name::Subject;
use crate::redis::{BATCH, Page, RedisTable};

/// The state of Redis at the last read.
#[derive(Debug, Default)]
pub(super) struct Read {
    at: Option<Instant>,
    pub(super) connection: Option<u64>,
    // The first page of the last read, without its entries.
    page: Page,
}

impl Overrides {
    /// Reads the changes of other gateways, and restores entries that Redis lost.
    ///
    /// # Errors
    ///
    /// Redis does not answer, or returns an error or an unknown reply.
    pub async fn sync(self: &Arc<Self>) -> Result<(), CallError> {
        let Some(redis) = &self.redis else {
            return Ok(());
        };
        let mut read = self.read.lock().await;
        let mut unseen = Unseen::new();
        let answer = self.compare(redis, &mut read, &mut unseen).await;
        // The listener gets the changes that were read, even if a later call failed.
        self.tell(&mut unseen).await;
        answer
    }

    /// Reads the entries that are newer than the last read. If Redis may lack entries, or this gateway may have missed entries, reads all
    /// entries and restores the entries that Redis lacks.
    pub(super) async fn compare(
        self: &Arc<Self>,
        redis: &RedisTable,
        read: &mut Read,
        unseen: &mut Unseen,
    ) -> Result<(), CallError> {
        // Overrides that were set before the first read are not news.
        unseen.are_news = read.at.is_some();
        let connection = redis.connection();
        let mut page = redis.read(read.page.version, &self.clock).await?;
        // Entries that no gateway has cannot be restored, and must not cause repeated comparisons. So only an increase of `lacking` causes
        // a comparison.
        let is_torn = page.lacking > read.page.lacking;
        let compares_all = is_torn
            || connection.is_none()
            || connection != read.connection
            || page.generation != read.page.generation
            || page.version < self.table.lock().version()
            || page.floor > read.page.version
            || read.at.is_none_or(|at| at.elapsed() > self.timing.silence);
        if is_torn {
            tracing::warn!(
                lacking = page.lacking,
                "Redis has lost a part of the overrides; gateways that know it restore it"
            );
            // If this comparison fails, the next call compares all entries, without another warning.
            (read.page.lacking, read.connection) = (page.lacking, None);
        }
        if compares_all && read.page.version != 0 {
            page = redis.read(0, &self.clock).await?;
        }
        let mut entries = std::mem::take(&mut page.entries);
        // `read` keeps the numbers of the first page. If another gateway restores entries while this gateway reads, the generation changes,
        // and the next call compares all entries.
        let first = page;
        let (mut until, mut version) = (first.until, first.version);
        // For each name in Redis: whether this gateway has the same entry.
        let mut seen = HashMap::new();
        loop {
            self.table.lock().saw(version);
            self.merge(
                entries.iter().map(|(name, it)| (name, it)),
                &mut unseen.changes,
            );
            self.tell_if_due(unseen).await;
            if compares_all {
                let table = self.table.lock();
                seen.extend(entries.into_iter().map(|(subject, entry)| {
                    let is_same = table.entries().get(&subject) == Some(&entry);
                    (subject, is_same)
                }));
            }
            if until >= version {
                break;
            }
            let next = redis.read(until, &self.clock).await?;
            if next.until <= until {
                break;
            }
            (entries, until, version) = (next.entries, next.until, next.version);
        }
        if compares_all {
            let was_away = first.floor > read.page.version;
            self.give_back(redis, &seen, &first, was_away, unseen)
                .await?;
        }
        *read = Read {
            at: Some(Instant::now()),
            connection,
            page: first,
        };
        if !unseen.are_news {
            self.tell(unseen).await;
            unseen.are_news = true;
        }
        Ok(())
    }

    /// Restores the entries that Redis lacks or has in an older version. Drops an ended entry from this table if Redis may have dropped it.
    /// If this gateway was away for longer than Redis keeps ended entries, it drops all entries that Redis lacks.
    async fn give_back(
        self: &Arc<Self>,
        redis: &RedisTable,
        seen: &HashMap<Subject, bool>,
        first: &Page,
        was_away: bool,
        unseen: &mut Unseen,
    ) -> Result<(), CallError> {
        let (version, lacking) = {
            let mut table = self.table.lock();
            let now = table.now();
            let (dropped, lacking): (Vec<_>, Vec<_>) = table
                .entries()
                .iter()
                .filter(|(subject, _)| seen.get(*subject) != Some(&true))
                .map(|(subject, entry)| (subject.clone(), entry.clone()))
                .partition(|(subject, entry)| {
                    let is_dropped = was_away || entry.is_over(now) && entry.version <= first.floor;
                    is_dropped && !seen.contains_key(subject)
                });
            for (subject, _) in &dropped {
                unseen.changes.extend(table.remove(subject));
            }
            (table.version(), lacking)
        };
        // The listener runs first, because the following calls may take long.
        self.tell(unseen).await;
        // Entries are restored only before this time. Later, Redis may have dropped an ended entry that is newer than the restored entry of
        // its name.
        let deadline = first.time.saturating_add(micros(self.timing.remembered));
        if first.version < version && lacking.is_empty() {
            redis.give_back(deadline, version, &[]).await?;
        }
        let mut count = 0;
        let giving = async {
            for entries in lacking.chunks(BATCH) {
                count += redis.give_back(deadline, version, entries).await?;
            }
            Ok(())
        };
        let answer = giving.await;
        // The restored entries are logged even if a later call failed.
        if count > 0 {
            tracing::info!(count, "Redis lacked overrides; they were given back");
        }
        answer
    }
}

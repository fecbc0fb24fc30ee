//! All overrides of a gateway: the table, and the store that keeps the table.

mod comparing;

use std::cmp::Reverse;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tidegate_core::{Micros, micros};
use tidegate_redis::{CallError, Shards};

use crate::MAX_OVERRIDES;
use crate::change::{ChangeError, Done, Outcome, Unfinished, Wish};
use crate::figures::{Counts, Figures, Kept};
use crate::file::OverrideFile;
use crate::local;
use crate::name::Subject;
use crate::redis::{BATCH, Clock, RedisTable, Timing};
use crate::setting::{Change, Override};
use crate::table::{Entry, Table};
use comparing::Read;

/// The number of overrides that [`Overrides::latest`] returns.
const MOST_LATEST: usize = 100;

/// The receiver of changes.
pub trait Listener: Send + Sync {
    /// Called after the overrides in force changed, and before the answer to the change. `are_news` is false for overrides that were in
    /// force before this process first read the table.
    fn changed(
        &self,
        changes: &[Change],
        are_news: bool,
        in_force: &mut dyn Iterator<Item = Override>,
    );
}

/// All overrides of a gateway.
pub struct Overrides {
    // The table in Redis. `None` if the overrides apply to this gateway only.
    redis: Option<RedisTable>,
    // The file of a gateway without Redis, if it has one.
    file: Option<Mutex<OverrideFile>>,
    timing: Timing,
    table: Mutex<Table>,
    // Locked during calls to the store, so that the calls run one after another.
    read: tokio::sync::Mutex<Read>,
    clock: Mutex<Option<Clock>>,
    listener: Box<dyn Listener>,
    // Locked while the listener runs.
    telling: Mutex<()>,
    // The counts and the latest overrides when the listener last ran.
    shown: Mutex<(Counts, Vec<Override>)>,
}

/// Changes that were not passed to the listener yet.
#[derive(Debug)]
struct Unseen {
    changes: Vec<Change>,
    are_news: bool,
    // The time at which the listener last ran, or at which this `Unseen` was made.
    since: Instant,
}

impl Unseen {
    fn new() -> Self {
        Self {
            changes: Vec::new(),
            are_news: true,
            since: Instant::now(),
        }
    }
}

impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Overrides").field(&self.figures()).finish()
    }
}

impl Overrides {
    /// Makes the overrides that all gateways on a Redis share, under keys with this prefix. The table is empty until the first
    /// [`sync`](Self::sync).
    pub fn in_redis(
        shards: Arc<Shards>,
        prefix: &str,
        timing: Timing,
        listener: Box<dyn Listener>,
    ) -> Arc<Self> {
        Arc::new(Self {
            redis: Some(RedisTable::new(shards, prefix, timing)),
            ..Self::new(timing, listener)
        })
    }

    /// Makes overrides that apply to this gateway only. Without a `file` the overrides end with the process.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub fn in_memory(file: Option<&Path>, listener: Box<dyn Listener>) -> io::Result<Arc<Self>> {
        let mut overrides = Self::new(Timing::default(), listener);
        let file = file.map(|path| OverrideFile::open(path, overrides.table.get_mut()));
        overrides.file = file.transpose()?.map(Mutex::new);
        overrides.merge([].into_iter(), &mut Vec::new());
        overrides.tell_now(&[], false);
        Ok(Arc::new(overrides))
    }

    fn new(timing: Timing, listener: Box<dyn Listener>) -> Self {
        Self {
            redis: None,
            file: None,
            timing,
            table: Mutex::new(Table::new(timing.remembered)),
            read: tokio::sync::Mutex::default(),
            clock: Mutex::default(),
            listener,
            telling: Mutex::default(),
            shown: Mutex::default(),
        }
    }

    /// Returns the place where the overrides are kept.
    pub const fn kept(&self) -> Kept {
        match (&self.redis, &self.file) {
            (Some(_), _) => Kept::Redis,
            (None, Some(_)) => Kept::File,
            (None, None) => Kept::Process,
        }
    }

    /// Returns the override of a name, if an override is in force.
    pub fn get(&self, subject: &Subject) -> Option<Override> {
        self.table.lock().get(subject)
    }

    /// Returns all overrides in force, by name.
    pub fn list(&self) -> Vec<Override> {
        self.page(None, MAX_OVERRIDES).0
    }

    /// Returns a page of at most `most` overrides, by name, and whether more follow. The page begins after the name `after`.
    pub fn page(&self, after: Option<&Subject>, most: usize) -> (Vec<Override>, bool) {
        let table = self.table.lock();
        let mut in_force = table.in_force(after);
        let page = in_force.by_ref().take(most).collect();
        (page, in_force.next().is_some())
    }

    /// Returns the 100 latest overrides, the latest first.
    pub fn latest(&self) -> Vec<Override> {
        self.shown.lock().1.clone()
    }

    /// Returns numbers about the overrides.
    pub fn figures(&self) -> Figures {
        Figures {
            in_force: self.shown.lock().0,
            heard: self.clock.lock().map(|clock| clock.age()),
        }
    }

    /// Returns the time on the store's clock, in us since the epoch.
    pub fn now(&self) -> Micros {
        let clock = *self.clock.lock();
        clock.map_or_else(system_time, |clock| clock.now())
    }

    /// Makes changes in order, and not as one transaction. When the function returns, the changes are in force on this gateway. The work
    /// continues even if the caller drops the future.
    ///
    /// # Errors
    ///
    /// Redis does not answer, or the file cannot be written. The changes that follow the failed change are not made.
    pub async fn change(self: &Arc<Self>, wishes: Vec<Wish>) -> Result<Vec<Outcome>, Unfinished> {
        let this = self.clone();
        let changing = tokio::spawn(async move { this.change_all(&wishes).await });
        changing.await.unwrap_or_else(|_| {
            Err(Unfinished {
                outcomes: Vec::new(),
                error: ChangeError::Ended,
            })
        })
    }

    async fn change_all(self: Arc<Self>, wishes: &[Wish]) -> Result<Vec<Outcome>, Unfinished> {
        let mut read = self.read.lock().await;
        let (mut outcomes, mut unseen) = (Vec::new(), Unseen::new());
        let changing = async {
            for wishes in wishes.chunks(BATCH) {
                let done = self.change_some(&mut read, wishes, &mut unseen).await?;
                let entries = wishes.iter().zip(&done);
                let entries =
                    entries.filter_map(|(wish, (_, entry))| Some((&wish.subject, entry.as_ref()?)));
                self.merge(entries, &mut unseen.changes);
                self.tell_if_due(&mut unseen).await;
                outcomes.extend(done.into_iter().map(|(outcome, _)| outcome));
            }
            Ok(())
        };
        let changed = changing.await;
        // The listener gets the first changes even if a later change failed.
        self.tell(&mut unseen).await;
        match changed {
            Ok(()) => Ok(outcomes),
            Err(error) => Err(Unfinished { outcomes, error }),
        }
    }

    async fn change_some(
        self: &Arc<Self>,
        read: &mut Read,
        wishes: &[Wish],
        unseen: &mut Unseen,
    ) -> Result<Vec<Done>, ChangeError> {
        if let Some(redis) = &self.redis {
            // Redis may have lost entries of this table. The gateway restores lost entries first, because the conditions of changes depend
            // on them.
            self.compare(redis, read, unseen).await?;
            // After a reconnect, the server may lack entries that were just compared. So no change is made.
            if redis.connection() != read.connection {
                return Err(CallError::Disconnected.into());
            }
            let (version, room) = {
                let table = self.table.lock();
                let room = MAX_OVERRIDES.saturating_sub(table.holding());
                (table.version(), room)
            };
            return Ok(redis.change(version, room, wishes, &self.clock).await?);
        }
        self.merge([].into_iter(), &mut unseen.changes);
        let (this, wishes) = (self.clone(), wishes.to_vec());
        // Writes the file on another thread, so that requests do not wait for the disk.
        let changing = tokio::task::spawn_blocking(move || {
            local::change(&this.table, this.file.as_ref(), &wishes)
        });
        Ok(changing.await.map_err(|_| ChangeError::Ended)??)
    }

    /// Keeps the overrides up to date while the future is polled.
    pub async fn keep(self: &Arc<Self>) {
        let reading = async {
            let mut is_failing = false;
            loop {
                is_failing = log(self.sync().await.err(), is_failing);
                tokio::time::sleep(self.timing.poll).await;
            }
        };
        let ending = async {
            loop {
                let next = self.table.lock().next_end().unwrap_or(Micros::MAX);
                let pause = Duration::from_micros(next.saturating_sub(self.now()));
                tokio::time::sleep(pause.max(self.timing.together).min(self.timing.poll)).await;
                let mut unseen = Unseen::new();
                self.merge([].into_iter(), &mut unseen.changes);
                self.tell(&mut unseen).await;
            }
        };
        tokio::join!(reading, ending);
    }

    /// Advances the table to the time on the store's clock, and merges entries.
    fn merge<'a>(
        &self,
        entries: impl Iterator<Item = (&'a Subject, &'a Entry)>,
        changes: &mut Vec<Change>,
    ) {
        let mut table = self.table.lock();
        changes.extend(table.advance(self.now()));
        changes.extend(entries.filter_map(|(subject, it)| table.merge(subject, it.clone())));
    }

    /// Calls the listener if any override has changed, on a thread that serves no requests: a pass over many entries takes long.
    async fn tell(self: &Arc<Self>, unseen: &mut Unseen) {
        if unseen.changes.is_empty() {
            return;
        }
        let (changes, are_news) = (std::mem::take(&mut unseen.changes), unseen.are_news);
        let this = self.clone();
        // The error is ignored, because a panic of the listener is already in the log.
        let _ = tokio::task::spawn_blocking(move || this.tell_now(&changes, are_news)).await;
        unseen.since = Instant::now();
    }

    /// Calls the listener if it has not run for the time `Timing::poll`. So the first of many changes apply before the last change is read
    /// or made.
    async fn tell_if_due(self: &Arc<Self>, unseen: &mut Unseen) {
        if unseen.since.elapsed() >= self.timing.poll {
            self.tell(unseen).await;
        }
    }

    fn tell_now(&self, changes: &[Change], are_news: bool) {
        // Calls of the listener run one after another, so that its last call has the latest table.
        let _telling = self.telling.lock();
        let mut in_force: Vec<Override> = self.table.lock().in_force(None).collect();
        in_force.sort_unstable_by_key(|it| Reverse(it.version));
        let mut counts = Counts::default();
        in_force
            .iter()
            .for_each(|it| counts.add(&it.setting.action));
        let latest = in_force.iter().take(MOST_LATEST).cloned().collect();
        self.listener
            .changed(changes, are_news, &mut in_force.into_iter());
        *self.shown.lock() = (counts, latest);
    }
}

/// Returns the time on the system's clock, in us since the epoch.
fn system_time() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, micros)
}

/// Logs when reads from Redis begin to fail, and when they succeed again. Returns whether they fail now.
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

#[cfg(test)]
mod tests;

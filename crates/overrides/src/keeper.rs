//! All overrides of a gateway: changes, and what other gateways change.

mod figures;
mod keeping;
mod syncing;
mod wish;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tidegate_core::Micros;
use tidegate_redis::{CallError, Shards};

use crate::MAX_OVERRIDES;
use crate::exchange::{Answer, BATCH, Clock, Done, Exchange, Order};
use crate::file::OverrideFile;
use crate::memory;
use crate::name::Subject;
use crate::replica::{Change, Replica};
use crate::setting::Override;
pub use figures::{Counts, Figures, Kept};
pub use wish::{ChangeError, Intent, Outcome, Previous, Unfinished, Wish};

/// From so many overrides on it takes a while to look at all. Another thread than those of requests does that.
const MANY: usize = 2_000;
/// How many that were set last are at hand.
const MOST_LATEST: usize = 100;

/// Who is told of changes.
pub trait Listener: Send + Sync {
    /// Other overrides are in force from now on. It is called before a change is answered. `are_news`: nobody knew of these changes
    /// before; else they were in force when this process first heard of any.
    fn changed(
        &self,
        changes: &[Change],
        are_news: bool,
        in_force: &mut dyn Iterator<Item = Override>,
    );
}

/// All overrides of a gateway.
pub struct Overrides {
    store: Store,
    replica: Mutex<Replica>,
    // Held over calls: one of them at a time.
    known: tokio::sync::Mutex<Known>,
    clock: Mutex<Option<Clock>>,
    listener: Box<dyn Listener>,
    // Held while the listener is told.
    telling: Mutex<()>,
    in_force: Mutex<Counts>,
    latest: Mutex<Vec<Override>>,
    // Up to when it was told of overrides that ended.
    told: Mutex<Micros>,
}

/// Where overrides are kept.
enum Store {
    Redis(Exchange),
    Memory(Mutex<Option<OverrideFile>>),
}

/// What is known of Redis.
#[derive(Debug, Default)]
struct Known {
    since: u64,
    begun: u64,
    // How many records Redis had in one of its keys alone, when all of it was compared last.
    lacking: u64,
    connection: Option<(usize, u64)>,
    heard: Option<Instant>,
    renewed: Option<Instant>,
}

impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.figures();
        f.debug_tuple("Overrides").field(&figures).finish()
    }
}

impl Overrides {
    /// Those of the gateways on a Redis, under keys with this prefix. None are known until the first [`sync`](Self::sync).
    pub fn in_redis(shards: Arc<Shards>, prefix: &str, listener: Box<dyn Listener>) -> Arc<Self> {
        let exchange = Exchange::new(shards, prefix);
        Self::new(Store::Redis(exchange), Replica::default(), listener)
    }

    /// Those of this gateway alone, kept in a file if one is named.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub fn in_memory(file: Option<&Path>, listener: Box<dyn Listener>) -> io::Result<Arc<Self>> {
        let mut replica = Replica::default();
        let file = file.map(|path| OverrideFile::open(path, &mut replica));
        let store = Store::Memory(Mutex::new(file.transpose()?));
        let overrides = Self::new(store, replica, listener);
        overrides.tell_now(&[], false);
        Ok(overrides)
    }

    fn new(store: Store, replica: Replica, listener: Box<dyn Listener>) -> Arc<Self> {
        Arc::new(Self {
            store,
            replica: Mutex::new(replica),
            known: tokio::sync::Mutex::default(),
            clock: Mutex::default(),
            listener,
            telling: Mutex::default(),
            in_force: Mutex::default(),
            latest: Mutex::default(),
            told: Mutex::new(memory::now()),
        })
    }

    /// Where they are kept.
    pub fn kept(&self) -> Kept {
        match &self.store {
            Store::Redis(_) => Kept::Redis,
            Store::Memory(file) if file.lock().is_some() => Kept::File,
            Store::Memory(_) => Kept::Process,
        }
    }

    /// The override of a name, if one is in force.
    pub fn get(&self, subject: &Subject) -> Option<Override> {
        self.replica.lock().get(subject, self.now())
    }

    /// All that are in force, by name.
    pub fn list(&self) -> Vec<Override> {
        self.page_now(None, MAX_OVERRIDES).0
    }

    /// Those whose name is behind `after`, by name, `most` at most; and whether there are more.
    pub async fn page(
        self: &Arc<Self>,
        after: Option<Subject>,
        most: usize,
    ) -> (Vec<Override>, bool) {
        if self.replica.lock().set() < MANY {
            return self.page_now(after.as_ref(), most);
        }
        let this = self.clone();
        let page = tokio::task::spawn_blocking(move || this.page_now(after.as_ref(), most));
        // It ends early only with the process.
        page.await.unwrap_or_default()
    }

    fn page_now(&self, after: Option<&Subject>, most: usize) -> (Vec<Override>, bool) {
        self.replica.lock().page(after, most, self.now())
    }

    /// The ones that were set last, the latest first, 100 at most.
    pub fn latest(&self) -> Vec<Override> {
        let now = self.now();
        let mut latest = self.latest.lock().clone();
        latest.retain(|it| it.ends.is_none_or(|ends| ends > now));
        latest
    }

    /// Numbers about them.
    pub fn figures(&self) -> Figures {
        let clock = *self.clock.lock();
        Figures {
            in_force: *self.in_force.lock(),
            heard: clock.map(|clock| clock.age()),
        }
    }

    /// The time by the clock of the store, in us since the epoch.
    pub fn now(&self) -> Micros {
        let clock = *self.clock.lock();
        clock.map_or_else(memory::now, |clock| clock.now())
    }

    /// Makes changes, each by itself, in their order. What is made is in force on this gateway. They go on if nobody waits for the answer.
    ///
    /// # Errors
    ///
    /// Redis does not answer, or the file cannot be written.
    pub async fn change(self: &Arc<Self>, wishes: Vec<Wish>) -> Result<Vec<Outcome>, Unfinished> {
        let orders: Vec<Order> = wishes.into_iter().map(Wish::order).collect();
        let this = self.clone();
        let changing = tokio::spawn(async move { this.follow(orders).await });
        changing.await.unwrap_or_else(|_| {
            Err(Unfinished {
                outcomes: Vec::new(),
                error: ChangeError::Ended,
            })
        })
    }

    async fn follow(self: Arc<Self>, orders: Vec<Order>) -> Result<Vec<Outcome>, Unfinished> {
        let mut known = self.known.lock().await;
        let (mut outcomes, mut changes) = (Vec::new(), Vec::new());
        let mut failed = None;
        for orders in orders.chunks(BATCH) {
            let done = match &self.store {
                Store::Redis(exchange) => {
                    let done = self.make(exchange, &mut known, orders, &mut changes);
                    done.await.map_err(ChangeError::from)
                }
                Store::Memory(_) => self.make_on_disk(orders, &mut changes).await,
            };
            match done {
                Ok(done) => {
                    let done = orders.iter().zip(done);
                    outcomes.extend(done.map(|(order, done)| Outcome::of(order, done)));
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        // Also if a later part failed.
        self.tell(changes, true).await;
        match failed {
            None => Ok(outcomes),
            Some(error) => Err(Unfinished { outcomes, error }),
        }
    }

    /// As [`make_here`](Self::make_here), where no request has to wait for the disk.
    async fn make_on_disk(
        self: &Arc<Self>,
        orders: &[Order],
        changes: &mut Vec<Change>,
    ) -> Result<Vec<Done>, ChangeError> {
        let (this, orders) = (self.clone(), orders.to_vec());
        let made = tokio::task::spawn_blocking(move || {
            let mut changes = Vec::new();
            let done = match &this.store {
                Store::Memory(file) => this.make_here(file, &orders, &mut changes)?,
                Store::Redis(_) => Vec::new(),
            };
            Ok::<_, io::Error>((done, changes))
        });
        let (done, made) = made.await.map_err(|_| ChangeError::Ended)??;
        changes.extend(made);
        Ok(done)
    }

    fn make_here(
        &self,
        file: &Mutex<Option<OverrideFile>>,
        orders: &[Order],
        changes: &mut Vec<Change>,
    ) -> io::Result<Vec<Done>> {
        let now = self.now();
        let mut replica = self.replica.lock();
        if replica.set() + orders.len() > MAX_OVERRIDES {
            for (subject, _) in replica.over(now, usize::MAX) {
                replica.forget(&subject);
            }
        }
        let (done, made) = memory::make(&mut replica, file.lock().as_mut(), orders, now)?;
        changes.extend(made);
        Ok(done)
    }

    async fn make(
        self: &Arc<Self>,
        exchange: &Exchange,
        known: &mut Known,
        orders: &[Order],
        changes: &mut Vec<Change>,
    ) -> Result<Vec<Done>, CallError> {
        if self.replica.lock().set() + orders.len() > MAX_OVERRIDES {
            self.drop_over(exchange, usize::MAX).await?;
        }
        let mut tries = 0;
        let (clock, done) = loop {
            let version = self.replica.lock().version();
            match exchange.make(version, orders).await? {
                Answer::Done(clock, done) => break (clock, done),
                // Redis has lost data, and gets it back first.
                Answer::Lost if tries < 2 => self.exchange(exchange, known, changes).await?,
                Answer::Lost => return Err(CallError::unknown_reply()),
            }
            tries += 1;
        };
        *self.clock.lock() = Some(clock);
        let now = clock.now();
        let mut replica = self.replica.lock();
        for (order, done) in orders.iter().zip(&done) {
            if let Done::Made { record, .. } = done {
                let subject = order.subject.clone();
                changes.extend(replica.merge(subject, record.clone(), now));
            }
        }
        Ok(done)
    }

    /// Tells the listener what is in force, if anything has changed. Where there are many, that is another thread's work.
    async fn tell(self: &Arc<Self>, changes: Vec<Change>, are_news: bool) {
        if changes.is_empty() {
            return;
        }
        if self.replica.lock().set() < MANY {
            return self.tell_now(&changes, are_news);
        }
        let this = self.clone();
        // A listener that panicked has said so.
        let _ = tokio::task::spawn_blocking(move || this.tell_now(&changes, are_news)).await;
    }

    fn tell_now(&self, changes: &[Change], are_news: bool) {
        // One after the other, so that what was told last is the latest.
        let _telling = self.telling.lock();
        let (now, in_force, latest) = {
            let replica = self.replica.lock();
            let now = self.now();
            let in_force: Vec<Override> = replica.in_force(now).collect();
            (now, in_force, replica.latest(MOST_LATEST, now))
        };
        let mut counts = Counts::default();
        let in_force = in_force.into_iter();
        let mut in_force = in_force.inspect(|it| counts.add(&it.setting.action));
        self.listener.changed(changes, are_news, &mut in_force);
        // Whatever the listener left.
        in_force.by_ref().for_each(drop);
        drop(in_force);
        *self.in_force.lock() = counts;
        *self.latest.lock() = latest;
        // The clock may have stepped back: what has ended before, and was told again just now, ends once more.
        let mut told = self.told.lock();
        *told = now.min(*told);
    }
}

/// An override that is over.
fn ended(before: Override) -> Change {
    Change {
        subject: before.subject.clone(),
        before: Some(before),
        after: None,
        cleared: None,
    }
}

#[cfg(test)]
mod tests;

//! All overrides of a gateway: changes, and what other gateways change.

mod figures;
mod keeping;
mod syncing;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tidegate_core::Micros;
use tidegate_redis::{CallError, Shards};

use crate::MAX_OVERRIDES;
use crate::exchange::{Answer, BATCH, Clock, Done, Ends, Exchange, Expected, Order};
use crate::file::OverrideFile;
use crate::memory;
use crate::name::Subject;
use crate::replica::{Change, Content, Record, Replica};
use crate::setting::{Clearing, Override, Setting};
pub use figures::{Counts, Figures, Kept};

/// A change that is wished for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Whom the override is for.
    pub subject: Subject,
    /// What must be in force.
    pub expected: Expected,
    /// When it ends; of no effect where it is cleared.
    pub ends: Ends,
    /// What becomes of it.
    pub intent: Intent,
}

/// What becomes of an override.
#[derive(Clone, Debug)]
pub enum Intent {
    /// It says this.
    Set(Setting),
    /// There is none any more.
    Clear(Clearing),
}

impl Wish {
    /// The wish that a name has no override.
    pub const fn clear(subject: Subject, expected: Expected, clearing: Clearing) -> Self {
        Self {
            subject,
            expected,
            ends: Ends::Never,
            intent: Intent::Clear(clearing),
        }
    }
}

/// What became of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force on this gateway, and within a second on all others.
    Set {
        /// What was in force.
        before: Option<Previous>,
        /// What is in force, unless it has ended since.
        after: Override,
    },
    /// It is not in force any more.
    Cleared {
        /// What was in force.
        before: Previous,
    },
    /// There was nothing to clear.
    Nothing,
    /// Something else is in force than was expected: this.
    Conflict(Option<Override>),
    /// There are [`MAX_OVERRIDES`] already.
    Full,
    /// It would have ended already.
    Over,
}

/// What a change took the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Previous {
    /// This.
    Override(Override),
    /// Something that this version of the program cannot read.
    Unreadable {
        /// Its version.
        version: u64,
        /// When it would have ended, in us since the epoch; none: never.
        ends: Option<Micros>,
    },
}

/// Why no change was made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Redis did not answer as it should. Whether the change was made is not known if it did not answer in time.
    #[error(transparent)]
    Store(#[from] CallError),
    /// The file of overrides cannot be written.
    #[error("the file of overrides cannot be written: {0}")]
    File(#[from] io::Error),
    /// The gateway ends.
    #[error("the gateway is stopping")]
    Ended,
}

/// A change of several that ended early.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unfinished {
    /// What became of the first.
    pub outcomes: Vec<Outcome>,
    /// Why nobody knows what became of the others.
    pub error: ChangeError,
}

/// From so many overrides on it takes a while to see which are in force, in which no request should wait.
const MANY: usize = 2_000;

/// Who is told of changes.
pub trait Listener: Send + Sync {
    /// Other overrides are in force from now on. It is called before a change is answered.
    fn changed(&self, changes: &[Change], in_force: &mut dyn Iterator<Item = Override>);
}

/// All overrides of a gateway.
pub struct Overrides {
    store: Store,
    replica: Mutex<Replica>,
    // Held over calls: one of them at a time.
    known: tokio::sync::Mutex<Known>,
    clock: Mutex<Option<Clock>>,
    listener: Box<dyn Listener>,
    in_force: Mutex<Counts>,
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
        overrides.tell_now(&[]);
        Ok(overrides)
    }

    fn new(store: Store, replica: Replica, listener: Box<dyn Listener>) -> Arc<Self> {
        Arc::new(Self {
            store,
            replica: Mutex::new(replica),
            known: tokio::sync::Mutex::default(),
            clock: Mutex::default(),
            listener,
            in_force: Mutex::default(),
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
        self.page(None, MAX_OVERRIDES).0
    }

    /// Those whose name is behind `after`, by name, `most` at most; and whether there are more.
    pub fn page(&self, after: Option<&Subject>, most: usize) -> (Vec<Override>, bool) {
        self.replica.lock().page(after, most, self.now())
    }

    /// The ones that were set last, the latest first, `most` at most.
    pub fn latest(&self, most: usize) -> Vec<Override> {
        self.replica.lock().latest(most, self.now())
    }

    /// Numbers about them.
    pub fn figures(&self) -> Figures {
        let clock = *self.clock.lock();
        Figures {
            in_force: *self.in_force.lock(),
            version: self.replica.lock().version(),
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
                    outcomes.extend(done.map(|(order, done)| outcome(order, done)));
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        // Also if a later part failed.
        self.tell(changes).await;
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

    /// Tells the listener what is in force, if anything has changed. Where there are many, no request waits for that.
    async fn tell(self: &Arc<Self>, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        if self.replica.lock().set() < MANY {
            return self.tell_now(&changes);
        }
        let this = self.clone();
        // A listener that panicked has said so.
        let _ = tokio::task::spawn_blocking(move || this.tell_now(&changes)).await;
    }

    fn tell_now(&self, changes: &[Change]) {
        let now = self.now();
        let replica = self.replica.lock();
        let mut counts = Counts::default();
        let in_force = replica.in_force(now);
        let mut in_force = in_force.inspect(|it| counts.add(&it.setting.action));
        self.listener.changed(changes, &mut in_force);
        // Whatever the listener left.
        in_force.by_ref().for_each(drop);
        drop(in_force);
        *self.in_force.lock() = counts;
    }
}

impl Wish {
    fn order(self) -> Order {
        Order {
            subject: self.subject,
            expected: self.expected,
            ends: self.ends,
            content: match self.intent {
                Intent::Set(setting) => Content::Set(Arc::new(setting)),
                Intent::Clear(clearing) => Content::Cleared(Arc::new(clearing)),
            },
        }
    }
}

/// What became of an order, by the time at which the store has judged it: by now a short override may have ended.
fn outcome(order: &Order, done: Done) -> Outcome {
    let subject = &order.subject;
    let previous = |record: Record| match record.says(subject) {
        Some(it) => Previous::Override(it),
        None => Previous::Unreadable {
            version: record.version,
            ends: record.ends,
        },
    };
    match done {
        Done::Made { record, before } => match (record.says(subject), before.map(previous)) {
            (Some(after), before) => Outcome::Set { before, after },
            (None, before) => Outcome::Cleared {
                // A version that is no number stood there.
                before: before.unwrap_or(Previous::Unreadable {
                    version: 0,
                    ends: None,
                }),
            },
        },
        Done::Nothing => Outcome::Nothing,
        Done::Conflict { current } => {
            Outcome::Conflict(current.and_then(|current| current.says(subject)))
        }
        Done::Full => Outcome::Full,
        Done::Over => Outcome::Over,
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

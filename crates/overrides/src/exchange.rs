//! The scripts that keep overrides in Redis: `lua/overrides.lua` and its neighbours. Each call is made once, and waits for a second at
//! most, also if decisions give up much earlier.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::Micros;
use tidegate_redis::{CallError, Shards, Word};

use crate::MAX_OVERRIDES;
use crate::name::{MAX_NAME, Subject};
use crate::replica::{Content, Record};

const CHANGED: &str = include_str!("../../../lua/overrides.lua");
const SET: &str = include_str!("../../../lua/override.lua");
const RESTORE: &str = include_str!("../../../lua/overrides_restore.lua");
const DROP: &str = include_str!("../../../lua/overrides_drop.lua");

/// How long a call may take. No request waits for one.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many overrides are read at once.
pub(crate) const PAGE: usize = 500;

/// How many are changed at once. Redis is busy meanwhile, and decisions wait for 25 ms at most.
pub(crate) const BATCH: usize = 100;

/// How long Redis keeps overrides after a gateway has last asked: as long as the secret that gateways share.
const KEPT: Duration = Duration::from_secs(64 * 24 * 60 * 60);

/// How long a cleared override is remembered. A gateway that was away for longer takes Redis's word.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The way to the overrides in Redis.
#[derive(Debug)]
pub(crate) struct Exchange {
    shards: Arc<Shards>,
    // The hash of records by name, and the set of names by version.
    keys: [Word; 2],
}

/// What has changed in Redis.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) clock: Clock,
    /// When the hash was begun; 0: there is none.
    pub(crate) begun: u64,
    /// The highest version.
    pub(crate) version: u64,
    /// How many records stand in one of the keys and not in the other: Redis has lost a part of them.
    pub(crate) lacking: u64,
    /// Up to which version this page tells.
    pub(crate) until: u64,
    pub(crate) records: Vec<(Subject, Record)>,
}

/// Redis's clock, as an answer showed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    time: Micros,
    sent: Instant,
}

/// What to make of one override.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) subject: Subject,
    pub(crate) expected: Expected,
    pub(crate) ends: Ends,
    pub(crate) content: Content,
}

/// What must be in force for a change to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Whatever is.
    #[default]
    Any,
    /// Nothing.
    Nothing,
    /// An override of this version.
    Version(u64),
}

/// When an override ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Never.
    Never,
    /// So long after the change.
    After(Duration),
    /// At a time of the store's clock, in us since the epoch.
    At(Micros),
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// It is the record now, in place of one that was in force.
    Made {
        record: Record,
        before: Option<Record>,
    },
    /// There was nothing to clear.
    Nothing,
    /// Another version is in force, or none.
    Conflict { current: Option<Record> },
    /// There is no room for another override.
    Full,
    /// It would have been over already.
    Over,
}

/// What became of several orders.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Each in its order.
    Done(Clock, Vec<Done>),
    /// Nothing: Redis has lost data.
    Lost,
}

impl Clock {
    /// A clock that showed this when it was asked at `sent`.
    pub(crate) const fn new(time: Micros, sent: Instant) -> Self {
        Self { time, sent }
    }

    /// How long ago it was seen.
    pub(crate) fn age(&self) -> Duration {
        self.sent.elapsed()
    }

    /// The time now.
    pub(crate) fn now(&self) -> Micros {
        self.time.saturating_add(micros(self.sent.elapsed()))
    }
}

impl Exchange {
    /// With the servers of a store whose keys have this prefix.
    pub(crate) fn new(shards: Arc<Shards>, key_prefix: &str) -> Self {
        let hash = format!("{key_prefix}:{{overrides}}");
        let versions = format!("{hash}:versions");
        let keys = [Word::from(hash), Word::from(versions)];
        Self { shards, keys }
    }

    /// Which connection there is to the server that has them; no two are the same. None: there is none now.
    pub(crate) fn connection(&self) -> Option<(usize, u64)> {
        let shard = self.shards.of_key(self.keys[0].as_str()).ok()?;
        let connection = shard.client.connection();
        (connection != 0).then_some((Arc::as_ptr(&shard).addr(), connection))
    }

    /// What changed after `since`, a page of it. With `renews`, Redis keeps all for as long as it can from now.
    pub(crate) async fn changed(&self, since: u64, renews: bool) -> Result<Page, CallError> {
        let kept = match renews {
            true => kept(),
            false => Word::from("0"),
        };
        let arguments = [since.into(), (PAGE as u64).into(), kept];
        let sent = Instant::now();
        let reply = self.ask(CHANGED, &arguments).await?;
        read_page(&reply, sent).ok_or_else(CallError::unknown_reply)
    }

    /// Makes changes, each if it may be made.
    pub(crate) async fn make(&self, known: u64, orders: &[Order]) -> Result<Answer, CallError> {
        let remembered = micros(REMEMBERED);
        let most = Word::from(MAX_OVERRIDES as u64);
        let mut arguments = vec![known.into(), most, remembered.into(), kept()];
        for order in orders {
            let expected = match order.expected {
                Expected::Any => Word::from("*"),
                Expected::Nothing => Word::from("0"),
                Expected::Version(version) => version.into(),
            };
            let ends = match order.ends {
                Ends::Never => Word::from("0"),
                Ends::After(time) => format!("+{}", micros(time)).into(),
                Ends::At(time) => time.into(),
            };
            let name = order.subject.to_string().into();
            arguments.extend([name, expected, ends, order.content.written().into()]);
        }
        let sent = Instant::now();
        let reply = self.ask(SET, &arguments).await?;
        read_answer(&reply, sent, orders).ok_or_else(CallError::unknown_reply)
    }

    /// Brings records back to a Redis that has lost them, and the highest version that is known.
    pub(crate) async fn restore(
        &self,
        version: u64,
        records: &[(Subject, Record)],
    ) -> Result<u64, CallError> {
        let mut arguments = vec![Word::from(MAX_OVERRIDES as u64), kept(), version.into()];
        for (subject, record) in records {
            arguments.extend([subject.to_string().into(), record.written().into()]);
        }
        self.counted(RESTORE, &arguments).await
    }

    /// Has Redis drop records that are over; `early`: also what is remembered of cleared ones.
    pub(crate) async fn drop_over(
        &self,
        records: &[(Subject, u64)],
        early: bool,
    ) -> Result<u64, CallError> {
        let mut arguments = vec![Word::from(u64::from(early))];
        for (subject, version) in records {
            arguments.extend([subject.to_string().into(), Word::from(*version)]);
        }
        self.counted(DROP, &arguments).await
    }

    async fn ask(
        &self,
        script: &'static str,
        arguments: &[Word],
    ) -> Result<Vec<Vec<u8>>, CallError> {
        let shards = &self.shards;
        let asked = shards.eval_texts(&self.keys, script, arguments, PATIENCE);
        Ok(asked.await?.1)
    }

    async fn counted(&self, script: &'static str, arguments: &[Word]) -> Result<u64, CallError> {
        let asked = self.shards.eval(&self.keys, script, arguments, PATIENCE);
        let (_, reply) = asked.await?;
        let count = reply.get(1).and_then(|count| u64::try_from(*count).ok());
        count.ok_or_else(CallError::unknown_reply)
    }
}

fn kept() -> Word {
    u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX).into()
}

fn micros(time: Duration) -> Micros {
    Micros::try_from(time.as_micros()).unwrap_or(Micros::MAX)
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads what `lua/overrides.lua` answers. A record that no gateway can have written is passed over.
fn read_page(reply: &[Vec<u8>], sent: Instant) -> Option<Page> {
    let (head, records) = reply.split_at_checked(5)?;
    let read = |pair: &[Vec<u8>]| {
        let [name, record] = pair else {
            return None;
        };
        let name = std::str::from_utf8(name).ok()?;
        let subject = Subject::parse(name, 128).ok()?;
        let record = Record::read(std::str::from_utf8(record).ok()?)?;
        // Of several writings of one name, one counts.
        (subject.to_string() == name && name.len() <= MAX_NAME).then_some((subject, record))
    };
    Some(Page {
        clock: Clock::new(number(&head[0])?, sent),
        begun: number(&head[1])?,
        version: number(&head[2])?,
        lacking: number(&head[3])?,
        until: number(&head[4])?,
        records: records.chunks(2).filter_map(read).collect(),
    })
}

/// Reads what `lua/override.lua` answers.
fn read_answer(reply: &[Vec<u8>], sent: Instant, orders: &[Order]) -> Option<Answer> {
    let (head, rows) = reply.split_at_checked(2)?;
    let clock = Clock::new(number(&head[0])?, sent);
    if head[1] == b"-1" {
        return Some(Answer::Lost);
    }
    if rows.len() != 3 * orders.len() {
        return None;
    }
    let read = |(row, order): (&[Vec<u8>], &Order)| {
        let before = std::str::from_utf8(&row[2]).ok().and_then(Record::read);
        Some(match &*row[0] {
            b"0" => Done::Nothing,
            b"-1" => Done::Conflict { current: before },
            b"-2" => Done::Full,
            b"-3" => Done::Over,
            version => Done::Made {
                before,
                record: Record {
                    version: number(version)?,
                    ends: Some(number(&row[1])?).filter(|ends| *ends != 0),
                    content: order.content.clone(),
                },
            },
        })
    };
    let done: Option<Vec<Done>> = rows.chunks(3).zip(orders).map(read).collect();
    Some(Answer::Done(clock, done?))
}

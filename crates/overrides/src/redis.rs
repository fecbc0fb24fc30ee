//! The table in Redis: `lua/override.lua` writes it, and `lua/overrides.lua` reads it. No request waits for these calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::{Micros, micros};
use tidegate_redis::{CallError, Shards, Word};

use crate::change::{Done, Ends, Expected, Outcome, Wish};
use crate::name::{MAX_NAME, Subject, read_name};
use crate::table::{Entry, MAX_ENTRIES};

const WRITE: &str = include_str!("../../../lua/override.lua");
const READ: &str = include_str!("../../../lua/overrides.lua");

/// The number of entries in a page of a read.
const PAGE: u64 = 500;
/// The number of entries that one call writes. Such a call blocks Redis for 25 ms at most.
pub(crate) const BATCH: usize = 100;
/// The time after the last call at which the keys expire, in ms. The gateways' secret expires after the same time.
const KEYS_KEPT: u64 = 64 * 24 * 60 * 60 * 1_000;

/// The times of the protocol with Redis. Tests use other times.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The pause between two reads of new entries.
    pub poll: Duration,
    /// The timeout of a call.
    pub patience: Duration,
    /// A gateway that has not read for a longer time compares all entries.
    pub silence: Duration,
    /// The time for which an ended entry is kept. A gateway that was away for longer drops the entries that Redis lacks.
    pub remembered: Duration,
    /// Overrides that end within this time of each other may end together.
    pub together: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(500),
            patience: Duration::from_secs(1),
            silence: Duration::from_secs(5),
            remembered: Duration::from_secs(30 * 24 * 60 * 60),
            together: Duration::from_millis(50),
        }
    }
}

/// The access to the table in Redis.
#[derive(Debug)]
pub(crate) struct RedisTable {
    shards: Arc<Shards>,
    timing: Timing,
    // The hash of entries by name, and the sorted set of names by version.
    keys: [Word; 2],
}

/// A page of entries that are newer than a version, with the state of the table in Redis.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The time on Redis's clock.
    pub(crate) time: Micros,
    /// The number that changes when a gateway restores entries in Redis. 0 if the table is empty.
    pub(crate) generation: u64,
    /// The highest version that the table in Redis has.
    pub(crate) version: u64,
    /// The highest version of an entry that Redis has dropped.
    pub(crate) floor: u64,
    /// The number of names that a key lacks although the other key contains them, because Redis lost a part of its data.
    pub(crate) lacking: u64,
    /// The highest version that this page covers.
    pub(crate) until: u64,
    pub(crate) entries: Vec<(Subject, Entry)>,
}

/// An estimate of Redis's clock, from its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    // Redis's time at the moment `at`. From then on the estimate advances with the monotonic clock.
    time: Micros,
    at: Instant,
    // The time of the last answer.
    heard: Instant,
}

impl Clock {
    pub(crate) const fn new(time: Micros, at: Instant) -> Self {
        let heard = at;
        Self { time, at, heard }
    }

    pub(crate) fn now(&self) -> Micros {
        self.time.saturating_add(micros(self.at.elapsed()))
    }

    /// Returns the time since Redis's last answer.
    pub(crate) fn age(&self) -> Duration {
        self.heard.elapsed()
    }

    /// Records Redis's time from the answer to a call that was sent at `sent`. Redis read its clock at some moment between `sent` and now.
    /// If the estimate lies within this span, it is kept. If not, `time` replaces it.
    fn saw(clock: &mut Option<Self>, time: Micros, sent: Instant) {
        let seen = Self::new(time, Instant::now());
        // The 1,000 us allow for drift and rounding.
        let latest = time.saturating_add(micros(seen.at - sent) + 1_000);
        let same = clock.filter(|clock| (time..=latest).contains(&clock.now()));
        *clock = Some(Self {
            heard: seen.heard,
            ..same.unwrap_or(seen)
        });
    }
}

impl RedisTable {
    /// Returns the access to the table whose keys have this prefix.
    pub(crate) fn new(shards: Arc<Shards>, key_prefix: &str, timing: Timing) -> Self {
        let hash = format!("{key_prefix}:{{overrides}}");
        let versions = format!("{hash}:versions");
        let keys = [Word::from(hash), Word::from(versions)];
        Self {
            shards,
            timing,
            keys,
        }
    }

    /// Returns the unique number of the connection to the server that has the table, or `None` without a connection.
    pub(crate) fn connection(&self) -> Option<u64> {
        let shard = self.shards.of_key(self.keys[0].as_str()).ok()?;
        Some(shard.client.connection()).filter(|connection| *connection != 0)
    }

    /// Reads a page of the entries that are newer than `since`.
    pub(crate) async fn read(
        &self,
        since: u64,
        clock: &Mutex<Option<Clock>>,
    ) -> Result<Page, CallError> {
        let arguments = [since, PAGE, KEYS_KEPT].map(Word::from);
        let sent = Instant::now();
        let reply = self.call(READ, &arguments).await?;
        let page = read_page(&reply).ok_or_else(CallError::unknown_reply)?;
        Clock::saw(&mut clock.lock(), page.time, sent);
        Ok(page)
    }

    /// Makes changes. The caller has read Redis's entries up to `version`, and `room` more overrides may be in force beside these entries.
    /// After an error is returned, Redis makes no further change of this call.
    pub(crate) async fn change(
        &self,
        version: u64,
        room: usize,
        wishes: &[Wish],
        clock: &Mutex<Option<Clock>>,
    ) -> Result<Vec<Done>, CallError> {
        let mut arguments = self.head(version, room);
        let contents: Vec<String> = wishes.iter().map(Wish::content).collect();
        for (wish, content) in wishes.iter().zip(&contents) {
            let expected = match wish.expected {
                Expected::Any => Word::from("*"),
                Expected::Nothing => Word::from("0"),
                Expected::Version(version) => version.into(),
            };
            let ends = match wish.ends {
                Ends::Never => Word::from("0"),
                Ends::After(time) => format!("+{}", micros(time)).into(),
                Ends::At(time) => time.into(),
            };
            let name = wish.subject.to_string().into();
            arguments.extend([name, expected, ends, content.clone().into()]);
        }
        let (shards, patience, sent) = (&self.shards, self.timing.patience, Instant::now());
        let reply = shards.eval_in_time(&self.keys, WRITE, &arguments, patience);
        let (time, done) =
            read_done(&reply.await?, wishes, &contents).ok_or_else(CallError::unknown_reply)?;
        Clock::saw(&mut clock.lock(), time, sent);
        Ok(done)
    }

    /// Restores entries that Redis lacks, and the highest version that this gateway has seen. Returns the number of entries that Redis
    /// stored. After the deadline on Redis's clock, the script makes no change.
    pub(crate) async fn give_back(
        &self,
        deadline: Micros,
        version: u64,
        entries: &[(Subject, Entry)],
    ) -> Result<u64, CallError> {
        let mut arguments = vec![deadline.into()];
        arguments.extend(self.head(version, 0));
        for (subject, entry) in entries {
            let (name, entry) = (subject.to_string().into(), entry.written().into());
            arguments.extend([name, "=".into(), entry, "".into()]);
        }
        let reply = self.call(WRITE, &arguments).await?;
        match reply.get(1).map(Vec::as_slice) {
            Some(b"-1") => Err(CallError::Late),
            taken => taken.and_then(number).ok_or_else(CallError::unknown_reply),
        }
    }

    /// Returns the arguments between the deadline and the entries.
    fn head(&self, version: u64, room: usize) -> Vec<Word> {
        let kept = micros(self.timing.remembered);
        let numbers = [version, room as u64, MAX_ENTRIES as u64, kept, KEYS_KEPT];
        numbers.map(Word::from).to_vec()
    }

    async fn call(
        &self,
        script: &'static str,
        arguments: &[Word],
    ) -> Result<Vec<Vec<u8>>, CallError> {
        let shards = &self.shards;
        let call = shards.eval(&self.keys, script, arguments, self.timing.patience);
        Ok(call.await?.1)
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads a reply of `lua/overrides.lua`. Skips invalid entries, which no gateway wrote.
fn read_page(reply: &[Vec<u8>]) -> Option<Page> {
    let (head, entries) = reply.split_first_chunk::<6>()?;
    Some(Page {
        time: number(&head[0])?,
        generation: number(&head[1])?,
        version: number(&head[2])?,
        floor: number(&head[3])?,
        lacking: number(&head[4])?,
        until: number(&head[5])?,
        entries: entries.chunks(2).filter_map(read_entry).collect(),
    })
}

fn read_entry(pair: &[Vec<u8>]) -> Option<(Subject, Entry)> {
    let name = std::str::from_utf8(pair.first()?).ok()?;
    let subject = read_name(name, 128).ok()?;
    let entry = Entry::read(std::str::from_utf8(pair.get(1)?).ok()?)?;
    // Only the canonical spelling of a name is valid.
    (subject.to_string() == name && name.len() <= MAX_NAME).then_some((subject, entry))
}

/// Reads the reply of `lua/override.lua` to changes.
fn read_done(
    reply: &[Vec<u8>],
    wishes: &[Wish],
    contents: &[String],
) -> Option<(Micros, Vec<Done>)> {
    let ([time, _], rows) = reply.split_first_chunk::<2>()?;
    let time = number(time)?;
    let rows = rows.chunks_exact(3);
    if rows.len() != wishes.len() {
        return None;
    }
    let mut all = Vec::with_capacity(wishes.len());
    for ((row, wish), content) in rows.zip(wishes).zip(contents) {
        let subject = &wish.subject;
        let before = std::str::from_utf8(&row[2]).ok().and_then(Entry::read);
        let outcome = match &*row[0] {
            b"0" => Outcome::Nothing,
            b"-1" => Outcome::Conflict(before.and_then(|it| it.of(subject))),
            b"-2" => Outcome::Full,
            b"-3" => Outcome::Over,
            version => {
                let ends = Some(number(&row[1])?).filter(|ends| *ends != 0);
                let entry = Entry::new(number(version)?, ends, content);
                all.push(Outcome::made(subject, entry, before));
                continue;
            }
        };
        all.push((outcome, None));
    }
    Some((time, all))
}

//! The calls that send Redis the counts of this gateway, and return the totals.
//!
//! Every call has a greater number than all calls before it, and sends whole counts in place of differences. So a lost, repeated or late
//! call adds no unit twice, and the next call adds the units of a lost call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_core::{Micros, TallyCounts, TallyTotals};
use tidegate_redis::{Answer, Wait, Word, deadline, slot_of_tag};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::Synced;
use super::due::Turns;
use super::entry::{Due, Telling};
use crate::charge::{key_of, notes_key};
use crate::redis::script::caller::Caller;
use crate::redis::script::{self, Task};
use crate::{Charge, StoreError};

/// The most keys in one call: Redis is busy with them for less than half a millisecond.
const KEYS: usize = 32;
/// The most calls under way at once.
const CALLS: usize = 256;

/// The time between two attempts after a failure.
const RETRY: Duration = Duration::from_millis(100);
/// The time between two attempts while a slot moves to another node.
const MOVING: Duration = Duration::from_millis(2);

/// The counts that one call sends.
type Batch = Vec<Telling>;

/// A call that is over.
struct Ended {
    batch: Batch,
    answer: Result<Answer<Exchanged>, StoreError>,
}

/// The totals of the keys of a call, and the time by Redis's clock.
struct Exchanged {
    now: Micros,
    // The totals of each key, or the error if the key could not be read.
    totals: Vec<Result<TallyTotals, StoreError>>,
}

/// Calls under way, and batches that wait to be sent.
#[derive(Default)]
struct Calls {
    under_way: JoinSet<Ended>,
    waiting: VecDeque<Batch>,
}

impl Synced {
    /// Runs [`RedisStore::keep_synced`](crate::RedisStore::keep_synced).
    pub(in crate::redis) async fn keep(&self) {
        let mut turns = Turns::default();
        let mut retry = tokio::time::interval(RETRY);
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut calls = Calls::default();
        loop {
            let (due, every) = tokio::select! {
                Some(ended) = calls.under_way.join_next() => {
                    self.ended(ended);
                    self.send(&mut calls);
                    continue;
                }
                () = self.table.urgent() => (Due::Now, Duration::ZERO),
                every = turns.next() => (Due::Turn, every),
                _ = retry.tick() => {
                    self.sweep();
                    (Due::Retry, Duration::ZERO)
                }
            };
            // A new interval comes with a key that is due at once.
            let (tellings, intervals) = self.table.take(due, every);
            turns.keep(&intervals);
            calls.waiting.extend(self.batches(tellings));
            self.send(&mut calls);
        }
    }

    /// Sends Redis all counts that it does not have yet, until it has them.
    pub(in crate::redis) async fn tell_all_counts(&self) {
        loop {
            let untold = self.table.take_untold();
            if untold.is_empty() {
                return;
            }
            let mut calls = Calls {
                waiting: self.batches(untold).into(),
                ..Calls::default()
            };
            let mut failed = false;
            loop {
                failed |= self.send(&mut calls);
                match calls.under_way.join_next().await {
                    Some(ended) => failed |= self.ended(ended),
                    None => break,
                }
            }
            if failed {
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Divides counts into batches for one call each. A batch has counts under one ID, and in a cluster only keys of one slot.
    fn batches(&self, mut tellings: Vec<Telling>) -> Vec<Batch> {
        let slot = |telling: &Telling| match self.access.caller.shards.are_many() {
            true => slot_of_tag(&telling.key().tag),
            false => 0,
        };
        tellings.sort_by_key(slot);
        let groups =
            tellings.chunk_by(|one, next| slot(one) == slot(next) && one.gateway == next.gateway);
        let batches = groups.flat_map(|group| group.chunks(KEYS));
        batches.map(<[Telling]>::to_vec).collect()
    }

    /// Sends waiting batches while fewer than [`CALLS`] calls are under way. Returns whether any batch could not be sent.
    fn send(&self, calls: &mut Calls) -> bool {
        let mut failed = false;
        while calls.under_way.len() < CALLS
            && let Some(batch) = calls.waiting.pop_front()
        {
            if let Err(error) = self.access.secret.check() {
                self.failed(&batch, error);
                failed = true;
                continue;
            }
            let caller = self.access.caller.clone();
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let wait = Wait::new(self.access.timeout, None);
            calls.under_way.spawn(async move {
                let call = Call {
                    caller: &caller,
                    batch: &batch,
                    number,
                };
                let answer = call.exchange(wait).await;
                Ended { batch, answer }
            });
        }
        failed
    }

    /// Applies the result of a call. Returns whether it failed.
    fn ended(&self, ended: Result<Ended, tokio::task::JoinError>) -> bool {
        // The task has panicked, and has no answer.
        let Ok(Ended { batch, answer }) = ended else {
            return true;
        };
        match answer {
            Ok(answer) => {
                self.exchanges.fetch_add(1, Ordering::Relaxed);
                let Exchanged { now, totals } = answer.content;
                let mut failed = false;
                for (telling, totals) in batch.iter().zip(totals) {
                    match totals {
                        Ok(totals) => self.table.learn(telling, totals, answer.sent, now),
                        Err(error) => {
                            if !failed {
                                self.failures.fetch_add(1, Ordering::Relaxed);
                            }
                            failed = true;
                            if let Ok(shard) = self.access.caller.shards.of(&telling.key().tag) {
                                shard.in_flight.complain(&error);
                            }
                            self.failed(std::slice::from_ref(telling), error);
                        }
                    }
                }
                failed
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                self.failed(&batch, error);
                true
            }
        }
    }

    /// Exchanges zero units for this charge, to check that Redis accepts exchanges.
    pub(in crate::redis) async fn probe(
        &self,
        charge: &Charge<'_>,
        wait: Wait,
    ) -> Result<(), StoreError> {
        let gateway = Arc::new("probe".to_owned());
        let call = Call {
            caller: &self.access.caller,
            batch: &vec![Telling::nothing(charge, &gateway)],
            number: crate::now(),
        };
        let answer = call.exchange(wait).await?;
        let mut totals = answer.content.totals.into_iter();
        totals.next().transpose().map(drop)
    }

    fn failed(&self, batch: &[Telling], error: StoreError) {
        for telling in batch {
            self.table.failed(telling);
        }
        *self.error.lock() = Some(error);
    }

    fn sweep(&self) {
        let shards = &self.access.caller.shards;
        self.table
            .sweep(|key| shards.now(&key.tag).unwrap_or_else(crate::now));
    }
}

/// One call with the counts of some keys.
struct Call<'a> {
    caller: &'a Caller,
    batch: &'a Batch,
    number: u64,
}

impl Call<'_> {
    async fn exchange(&self, wait: Wait) -> Result<Answer<Exchanged>, StoreError> {
        let tag = self.tag();
        loop {
            let shard = self.caller.server(&tag)?;
            match shard
                .in_flight
                .call(wait, |on_clock| self.tell(on_clock))
                .await
            {
                // The late call had no effect. Its answer contains Redis's time, from which the next call computes its deadline.
                Err(StoreError::Late) if Instant::now() < wait.until => {}
                // A limit has two Redis keys per client. While they move to another node, the node may have only the first key.
                Err(error) if error.is_moving() && Instant::now() + MOVING < wait.until => {
                    tokio::time::sleep(MOVING).await;
                }
                answer => return answer,
            }
        }
    }

    /// Makes the call. Returns the time, and the totals unless the script ran too late.
    async fn tell(
        &self,
        on_clock: Option<Micros>,
    ) -> Result<(Micros, Option<Exchanged>), StoreError> {
        let mut keys = Vec::with_capacity(2 * self.batch.len());
        let mut words = vec![
            deadline(on_clock),
            Word::from(self.gateway().to_owned()),
            Word::from(self.number),
        ];
        for telling in self.batch {
            let prefix = &self.caller.key_prefix;
            let key = key_of(prefix, telling.limit_id(), telling.key());
            let notes = notes_key(&key);
            keys.extend([key, notes].map(Word::from));
            words.push(telling.quota.algorithm().into());
            let TallyCounts { current, previous } = telling.own;
            let numbers = [telling.start, count(current), count(previous)];
            words.extend(numbers.map(Word::from));
            words.extend(telling.quota.numbers(0).iter().copied().map(Word::from));
        }
        let quotas = self.batch.iter().map(|telling| &telling.quota);
        let script = script::number_of_quotas(Task::Exchange, quotas);
        let shards = &self.caller.shards;
        let reply = shards.call(&self.tag(), script, &keys, &words).await?;
        read(&reply, self.batch.len()).ok_or_else(StoreError::unknown_reply)
    }

    fn tag(&self) -> [u8; 16] {
        let first = self.batch.first();
        first.map_or([0; 16], |telling| telling.key().tag)
    }

    fn gateway(&self) -> &str {
        self.batch.first().map_or("", |telling| &telling.gateway)
    }
}

/// Returns a gateway's own count, or 0 if the count is negative.
fn count(count: i64) -> u64 {
    count.max(0).unsigned_abs()
}

/// Reads a script's reply: the time, and five numbers per key (lua/README.md). A key's first number is below 0 if the key could not be
/// read. If the call was too late, the reply has only the time.
fn read(reply: &[i64], keys: usize) -> Option<(Micros, Option<Exchanged>)> {
    let (head, rows) = reply.split_at_checked(2)?;
    let now = Micros::try_from(head[0]).ok()?;
    match head[1] {
        1 if rows.len() == keys * 5 => {}
        -1 if rows.is_empty() => return Some((now, None)),
        _ => return None,
    }
    let mut totals = Vec::with_capacity(keys);
    for row in rows.chunks_exact(5) {
        let counts = |current, previous| TallyCounts { current, previous };
        totals.push(match Micros::try_from(row[0]) {
            Ok(start) => Ok(TallyTotals {
                start,
                all: counts(row[1], row[2]),
                own: counts(row[3], row[4]),
            }),
            Err(_) => Err(StoreError::of_script(row[0])),
        });
    }
    Some((now, Some(Exchanged { now, totals })))
}

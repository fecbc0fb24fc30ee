//! Sends concurrent decisions to Redis in one call.
//!
//! A call costs the gateway and Redis several times more than a decision. So the first decision waits until all other ready requests have
//! added their decisions. While `CALLS` calls are in flight, the decision waits until a call has its answer. So a gateway with little load
//! makes a call immediately, and a busy gateway makes larger calls.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::Micros;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::client::Asking;
use super::deadline::{deadline_of, with_deadline};
use super::error::CallError;
use super::failure::Failure;
use super::shard::Shard;
use super::word::Word;

/// The most decisions of one call. They block Redis for one or two milliseconds at most.
const MOST: usize = 64;
/// The most calls of one script in flight. Redis runs calls one after another, so with more calls each call would only have fewer
/// decisions. With fewer calls, requests would wait longer if the network latency to Redis is high.
const CALLS: usize = 4;

/// The decisions that wait for their call, by script.
#[derive(Debug, Default)]
pub struct Batcher(Mutex<HashMap<usize, Line>>);

/// The waiting decisions of one script. While any decision waits, a task waits to send it.
#[derive(Debug)]
struct Line {
    waiting: VecDeque<Waiting>,
    /// Permits for calls in flight.
    room: Arc<Semaphore>,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            room: Arc::new(Semaphore::new(CALLS)),
        }
    }
}

/// The input of one decision.
#[derive(Debug)]
pub struct Question {
    /// The keys of the script.
    pub keys: Arc<[Word]>,
    /// The arguments of the script, without the deadline.
    pub words: Arc<[Word]>,
    /// The deadline on Redis's clock.
    pub deadline: Option<Micros>,
    /// The ID of the holds that the decision takes, or 0 if it takes none.
    pub hold: u64,
}

/// The indices in [`Scripts`](crate::Scripts) of the two scripts that make decisions.
#[derive(Clone, Copy, Debug)]
pub struct Batched {
    /// The script for one decision.
    pub one: usize,
    /// The script for many decisions.
    pub many: usize,
}

impl Question {
    /// Whether both inputs are equal apart from the deadline and the hold ID.
    fn is_like(&self, other: &Self) -> bool {
        self.keys == other.keys && self.words == other.words
    }
}

/// A decision that waits for its call.
#[derive(Debug)]
struct Waiting {
    question: Question,
    sender: oneshot::Sender<Result<Vec<i64>, CallError>>,
}

impl Batcher {
    /// Makes one decision, alone or in a call with others.
    pub async fn decide(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        scripts: Batched,
        question: Question,
    ) -> Result<Vec<i64>, CallError> {
        let (sender, answer) = oneshot::channel();
        let waiting = Waiting { question, sender };
        if let Some(room) = self.join(scripts, waiting) {
            let (batcher, shard) = (self.clone(), shard.clone());
            tokio::spawn(batcher.gather(shard, scripts, room));
        }
        // The channel closes without an answer if the task ends early, for example when the runtime stops.
        answer.await.unwrap_or(Err(CallError::Disconnected))
    }

    /// Adds a decision. If no other decision waits, returns the semaphore that limits calls, and the caller must start a task that runs
    /// `gather`.
    fn join(&self, scripts: Batched, waiting: Waiting) -> Option<Arc<Semaphore>> {
        let mut lines = self.0.lock();
        let line = lines.entry(scripts.one).or_default();
        line.waiting.push_back(waiting);
        (line.waiting.len() == 1).then(|| line.room.clone())
    }

    /// Takes the decisions of the next call. Returns them, and whether more decisions wait.
    fn take(&self, scripts: Batched) -> (Vec<Waiting>, bool) {
        let mut lines = self.0.lock();
        let Some(Line { waiting, .. }) = lines.get_mut(&scripts.one) else {
            return (Vec::new(), false);
        };
        let mut part = Vec::with_capacity(waiting.len().min(MOST));
        while part.len() < MOST
            && let Some(next) = waiting.pop_front()
        {
            // A decision whose request was cancelled is dropped, so Redis does not charge it.
            if !next.sender.is_closed() {
                part.push(next);
            }
        }
        (part, !waiting.is_empty())
    }

    /// Sends all waiting decisions, at most `MOST` in one call. Each call waits for a permit.
    async fn gather(self: Arc<Self>, shard: Arc<Shard>, scripts: Batched, room: Arc<Semaphore>) {
        // Lets other ready requests add their decisions first.
        tokio::task::yield_now().await;
        // The semaphore is never closed.
        while let Ok(room) = room.clone().acquire_owned().await {
            let (part, more) = self.take(scripts);
            let shard = shard.clone();
            if !more {
                return ask(shard, scripts, part, room).await;
            }
            tokio::spawn(ask(shard, scripts, part, room));
        }
    }
}

/// Sends decisions in one call. Holds the permit `room` until Redis has answered.
async fn ask(shard: Arc<Shard>, scripts: Batched, part: Vec<Waiting>, room: OwnedSemaphorePermit) {
    let part = match <[Waiting; 1]>::try_from(part) {
        Ok([waiting]) => return ask_alone(&shard, scripts.one, waiting, room).await,
        Err(part) => part,
    };
    let (keys, arguments) = joined(&part);
    let replies = match shard
        .call(scripts.many, &keys, &arguments, Asking::No)
        .await
    {
        Ok(replies) => replies,
        Err(failure) => {
            let error = failure.into_error();
            for waiting in part {
                let _ = waiting.sender.send(Err(error.clone()));
            }
            return;
        }
    };
    drop(room);
    let mut replies = &replies[..];
    for waiting in part {
        let reply = next(&mut replies).unwrap_or_else(|| Err(CallError::unknown_reply()));
        // The send fails if the request was cancelled, which needs no action.
        let _ = waiting.sender.send(reply.map(<[i64]>::to_vec));
    }
}

/// Joins the keys and arguments of all decisions for one call (lua/README.md). Consecutive decisions with equal keys and words form one
/// group.
fn joined(part: &[Waiting]) -> (Vec<Word>, Vec<Word>) {
    let same = |one: &Waiting, next: &Waiting| one.question.is_like(&next.question);
    let groups: Vec<&[Waiting]> = part.chunk_by(same).collect();
    let before = 1 + 3 * groups.len() + part.len();
    let mut keys = Vec::with_capacity(groups.len());
    let mut arguments = Vec::with_capacity(before);
    arguments.push(number(groups.len()));
    // Equal lists of words are sent once. Each group has the index of its list in `arguments`, counted from 1 as in Lua.
    let mut lists: Vec<(&[Word], usize)> = Vec::new();
    let mut next = before + 1;
    for group in groups {
        let question = &group[0].question;
        let entry = lists
            .iter()
            .rev()
            .find(|(other, _)| **other == *question.words);
        let at = entry.map_or(next, |(_, at)| *at);
        if at == next {
            lists.push((&question.words, at));
            next += question.words.len();
        }
        arguments.extend([group.len(), question.keys.len(), at].map(number));
        for one in group {
            arguments.push(deadline_of(one.question.deadline, one.question.hold));
        }
        keys.extend_from_slice(&question.keys);
    }
    for (words, _) in lists {
        arguments.extend_from_slice(words);
    }
    (keys, arguments)
}

fn number(number: usize) -> Word {
    Word::from(number as u64)
}

/// Returns the next of several replies. Each reply begins with its length. A negative number in place of the length is the number of an
/// error.
fn next<'r>(replies: &mut &'r [i64]) -> Option<Result<&'r [i64], CallError>> {
    let (length, rest) = replies.split_first()?;
    if *length < 0 {
        *replies = rest;
        return Some(Err(CallError::of_script(*length)));
    }
    let (reply, rest) = rest.split_at_checked(usize::try_from(*length).ok()?)?;
    *replies = rest;
    Some(Ok(reply))
}

/// Sends a single decision in its own call. Holds the permit until Redis has answered.
async fn ask_alone(shard: &Shard, script: usize, waiting: Waiting, _room: OwnedSemaphorePermit) {
    let Waiting { question, sender } = waiting;
    if sender.is_closed() {
        return;
    }
    let Question { keys, words, .. } = &question;
    let arguments = with_deadline(question.deadline, question.hold, words);
    let reply = shard.call(script, keys, &arguments, Asking::No).await;
    let _ = sender.send(reply.map_err(Failure::into_error));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_have_in_common_is_said_once() {
        let waiting = |keys: &[&'static str], deadline: Micros, words: &[&'static str]| Waiting {
            question: Question {
                keys: keys.iter().copied().map(Word::from).collect(),
                words: words.iter().copied().map(Word::from).collect(),
                deadline: Some(deadline),
                hold: if deadline == 69 { 0xab } else { 0 },
            },
            sender: oneshot::channel().0,
        };
        let part = [
            waiting(&["a"], 70, &["x", "1"]),
            waiting(&["a"], 69, &["x", "1"]),
            waiting(&["b", "c"], 71, &["y", "2", "3"]),
            waiting(&["d"], 72, &["x", "1"]),
            waiting(&["a"], 73, &["y", "1"]),
        ];
        let (keys, arguments) = joined(&part);
        let text = |words: &[Word]| -> Vec<String> {
            words.iter().map(|word| word.as_str().to_owned()).collect()
        };
        let (keys, arguments) = (text(&keys), text(&arguments));
        assert_eq!(keys, ["a", "b", "c", "d", "a"]);
        let expected = "4 2 1 19 70 69 ab 1 2 21 71 1 1 19 72 1 1 24 73 x 1 y 2 3 y 1";
        assert_eq!(arguments.join(" "), expected);
        assert_eq!(arguments[5], "69 ab", "one word");
        let at = |index: usize| &*arguments[index - 1];
        assert_eq!((at(19), at(21), at(24)), ("x", "y", "y"));
    }

    #[test]
    fn replies_are_told_apart() {
        let error = |number| Some(Err(CallError::of_script(number)));
        let mut replies = &[2, 7, 8, -1, -2, 1, 9][..];
        assert_eq!(next(&mut replies), Some(Ok(&[7, 8][..])));
        assert_eq!(next(&mut replies), error(-1));
        assert_eq!(next(&mut replies), error(-2));
        assert_eq!(next(&mut replies), Some(Ok(&[9][..])));
        assert_eq!(next(&mut replies), None);
        for broken in [&[3, 1, 2][..], &[i64::MAX, 1]] {
            assert_eq!(next(&mut { broken }), None, "{broken:?}");
        }
    }
}

//! Decisions that are asked for at the same moment: one call asks for all of them.
//!
//! A call costs gateway and Redis several times what a decision does. The first decision to come waits until every other
//! request that is ready has asked, and no longer: so a gateway with little to do asks at once, and a busy one seldom. This
//! module must not know what is decided.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::client::{Asking, Failure};
use super::script::Scripts;
use super::shard::Shard;
use crate::StoreError;

/// The most decisions of one call: Redis does nothing else meanwhile, for less than a millisecond.
const MOST: usize = 64;

/// The decisions that wait for their call, by their script.
#[derive(Debug, Default)]
pub(super) struct Together(Mutex<HashMap<usize, Vec<Waiting>>>);

/// A decision that waits.
#[derive(Debug)]
struct Waiting {
    keys: Vec<String>,
    arguments: Vec<String>,
    told: oneshot::Sender<Result<Vec<i64>, StoreError>>,
}

impl Together {
    /// Has the script with this index decide.
    pub(super) async fn decide(
        shard: &Arc<Shard>,
        scripts: &Arc<Scripts>,
        script: usize,
        keys: Vec<String>,
        arguments: Vec<String>,
    ) -> Result<Vec<i64>, StoreError> {
        let (told, answer) = oneshot::channel();
        let waiting = Waiting {
            keys,
            arguments,
            told,
        };
        if shard.together.join(script, waiting) {
            let (shard, scripts) = (shard.clone(), scripts.clone());
            tokio::spawn(async move {
                // Whoever is ready asks first.
                tokio::task::yield_now().await;
                let mut waiting = shard.together.take(script);
                // Whoever has left meanwhile is not charged.
                waiting.retain(|waiting| !waiting.told.is_closed());
                while waiting.len() > MOST {
                    let part = waiting.drain(..MOST).collect();
                    tokio::spawn(ask(shard.clone(), scripts.clone(), script, part));
                }
                ask(shard, scripts, script, waiting).await;
            });
        }
        // A task of ours that is gone was not answered.
        answer.await.unwrap_or(Err(StoreError::Disconnected))
    }

    /// Whether it is the first.
    fn join(&self, script: usize, waiting: Waiting) -> bool {
        let mut all = self.0.lock();
        let same = all.entry(script).or_default();
        same.push(waiting);
        same.len() == 1
    }

    fn take(&self, script: usize) -> Vec<Waiting> {
        let same = self.0.lock().get_mut(&script).map(std::mem::take);
        same.unwrap_or_default()
    }
}

/// Asks for decisions in one call.
async fn ask(shard: Arc<Shard>, scripts: Arc<Scripts>, script: usize, part: Vec<Waiting>) {
    if part.len() <= 1 {
        return ask_alone(&shard, &scripts, script, part).await;
    }
    let (keys, arguments) = joined(&part);
    let many = scripts.many(script);
    let replies = match shard.call(many, &keys, &arguments, Asking::No).await {
        Ok(replies) => replies,
        Err(failure) => {
            let error = failure.into_error();
            for waiting in part {
                let _ = waiting.told.send(Err(error.clone()));
            }
            return;
        }
    };
    let mut replies = &replies[..];
    let mut unanswered = Vec::new();
    for waiting in part {
        match next(&mut replies) {
            // Nobody may be waiting.
            Some(reply) if !reply.is_empty() => drop(waiting.told.send(Ok(reply.to_vec()))),
            _ => unanswered.push(waiting),
        }
    }
    ask_alone(&shard, &scripts, script, unanswered).await;
}

/// Keys and arguments of one call for all of these (lua/README.md).
fn joined(part: &[Waiting]) -> (Vec<String>, Vec<String>) {
    let keys = part.iter().flat_map(|waiting| waiting.keys.iter().cloned());
    let mut arguments = Vec::with_capacity(1 + 3 * part.len());
    arguments.push(part.len().to_string());
    // What stands behind the deadline is the same for most; each with its index, from 1 on as Lua counts.
    let mut told: Vec<(&[String], usize)> = Vec::new();
    let mut next = 2 + 3 * part.len();
    for waiting in part {
        let (deadline, own) = match waiting.arguments.split_first() {
            Some((deadline, own)) => (deadline.clone(), own),
            None => (String::new(), &[][..]),
        };
        let known = told.iter().rev().find(|(other, _)| *other == own);
        let at = known.map_or(next, |(_, at)| *at);
        if at == next {
            told.push((own, at));
            next += own.len();
        }
        arguments.extend([waiting.keys.len().to_string(), deadline, at.to_string()]);
    }
    let own = told.into_iter().flat_map(|(own, _)| own.iter().cloned());
    arguments.extend(own);
    (keys.collect(), arguments)
}

/// The next of several replies, each with its length before it.
fn next<'r>(replies: &mut &'r [i64]) -> Option<&'r [i64]> {
    let (length, rest) = replies.split_first()?;
    let (reply, rest) = rest.split_at_checked(usize::try_from(*length).ok()?)?;
    *replies = rest;
    Some(reply)
}

/// Asks for each decision in a call of its own.
async fn ask_alone(shard: &Shard, scripts: &Scripts, script: usize, part: Vec<Waiting>) {
    let script = scripts.at(script);
    for waiting in part {
        let Waiting {
            keys,
            arguments,
            told,
        } = waiting;
        let reply = shard.call(script, &keys, &arguments, Asking::No).await;
        let _ = told.send(reply.map_err(Failure::into_error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_have_in_common_is_said_once() {
        let waiting = |keys: &[&str], arguments: &[&str]| Waiting {
            keys: keys.iter().copied().map(str::to_owned).collect(),
            arguments: arguments.iter().copied().map(str::to_owned).collect(),
            told: oneshot::channel().0,
        };
        let part = [
            waiting(&["a"], &["70", "x", "1"]),
            waiting(&["b", "c"], &["71", "y", "2", "3"]),
            waiting(&["d"], &["72", "x", "1"]),
        ];
        let (keys, arguments) = joined(&part);
        assert_eq!(keys, ["a", "b", "c", "d"]);
        let expected = "3 1 70 11 2 71 13 1 72 11 x 1 y 2 3";
        assert_eq!(arguments.join(" "), expected);
        assert_eq!((&*arguments[11 - 1], &*arguments[13 - 1]), ("x", "y"));
    }

    #[test]
    fn replies_are_told_apart() {
        let mut replies = &[2, 7, 8, 0, 1, 9][..];
        assert_eq!(next(&mut replies), Some(&[7, 8][..]));
        assert_eq!(next(&mut replies), Some(&[][..]));
        assert_eq!(next(&mut replies), Some(&[9][..]));
        assert_eq!(next(&mut replies), None);
        for broken in [&[3, 1, 2][..], &[-1], &[i64::MAX, 1]] {
            assert_eq!(next(&mut { broken }), None, "{broken:?}");
        }
    }
}

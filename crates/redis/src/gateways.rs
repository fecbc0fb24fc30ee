//! Counts the gateways on this Redis. Each gateway sends heartbeats, and is counted until its heartbeats stop.
//!
//! - [`count`]: chooses the count in force from Redis's answers
//! - [`identity`]: the ID of this gateway
//! - [`twin`]: detects another process with this gateway's ID

mod count;
mod identity;
mod twin;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::Micros;

use super::complaints::Complaints;
use super::error::CallError;
use super::shards::Shards;
use super::word::Word;
use count::Count;
pub use identity::Identity;
use twin::Twin;

/// The time between two heartbeats of a gateway.
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// The time without a heartbeat after which a gateway is no longer counted.
const LAPSE: Duration = Duration::from_secs(7);

const SCRIPT: &str = include_str!("../../../lua/gateways.lua");

/// The number of gateways: counted, or fixed by the configuration.
#[derive(Debug)]
pub struct Gateways {
    // The number that decisions use, at least 1. During an outage the last count stays in force.
    in_force: AtomicU64,
    is_fixed: bool,
    heard: Mutex<Heard>,
    identity: Arc<Identity>,
    complaints: Complaints,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beat {
    /// The time on Redis's clock.
    now: Micros,
    /// The number of gateways that sent a heartbeat within `LAPSE`.
    count: u64,
    /// The time of this gateway's previous heartbeat according to Redis, or 0 if Redis has none.
    before: Micros,
}

impl Beat {
    /// Whether Redis answered this gateway's previous heartbeat at `last`, and received this heartbeat less than two `HEARTBEAT`s later. If
    /// not, the wait for a lower count begins anew: Redis may have lost data, or may be another server. If this gateway missed a heartbeat,
    /// other gateways may have missed heartbeats too.
    fn continues(&self, last: Option<Micros>) -> bool {
        let gap = Duration::from_micros(self.now.saturating_sub(self.before));
        last == Some(self.before) && gap < 2 * HEARTBEAT
    }
}

/// The state after the last heartbeat.
#[derive(Debug, Default)]
struct Heard {
    // The time on Redis's clock in the answer to the last heartbeat. `None` without an answer.
    last: Option<Micros>,
    count: Count,
    twin: Twin,
}

/// The result of a heartbeat, apart from the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Redis has its data, and no other process with the same ID was detected.
    Usual,
    /// Redis has lost its data.
    Lost,
    /// Another process sends heartbeats under the same ID.
    Twin {
        /// The time of the answer, on Redis's clock.
        at: Micros,
    },
}

impl Gateways {
    /// Uses `fixed` as the number of gateways. If `fixed` is `None`, counts the gateways by their heartbeats.
    pub fn new(fixed: Option<u64>, identity: Arc<Identity>) -> Self {
        Self {
            in_force: AtomicU64::new(fixed.unwrap_or(1).max(1)),
            is_fixed: fixed.is_some(),
            heard: Mutex::default(),
            identity,
            complaints: Complaints::default(),
        }
    }

    /// Returns the ID of this gateway.
    pub const fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// Returns the number of gateways, at least 1.
    pub fn count(&self) -> u64 {
        self.in_force.load(Ordering::Relaxed)
    }

    /// Whether other gateways may share this Redis. True unless `gateways: 1` is configured, because a gateway that has just started is not
    /// counted yet.
    pub fn has_others(&self) -> bool {
        !self.is_fixed || self.count() > 1
    }

    /// Sends a heartbeat, and updates the count. A higher count applies at once. A lower count applies after Redis has returned lower
    /// counts for 9 s, which is longer than a gateway may be silent.
    ///
    /// # Errors
    ///
    /// Redis does not answer within `timeout`, or returns an error.
    pub async fn heartbeat(
        &self,
        shards: &Shards,
        key_prefix: &str,
        timeout: Duration,
    ) -> Result<Finding, CallError> {
        let beat = self.beat(shards, key_prefix, timeout).await;
        match beat {
            Ok(beat) => Ok(self.answered(beat)),
            Err(error) => {
                self.unanswered();
                if shards.connected().is_ok() && self.complaints.is_due(&error) {
                    tracing::warn!(%error, "Redis does not take this gateway's heartbeat; gateways cannot be counted");
                }
                Err(error)
            }
        }
    }

    async fn beat(
        &self,
        shards: &Shards,
        key_prefix: &str,
        timeout: Duration,
    ) -> Result<Beat, CallError> {
        let keys = [Word::from(format!("{key_prefix}:gateways"))];
        let arguments = [
            Word::from(self.identity.get().to_string()),
            Word::from(LAPSE.as_micros().to_string()),
        ];
        let sent = Instant::now();
        let call = shards.eval(&keys, SCRIPT, &arguments, timeout);
        let (shard, reply) = call.await?;
        let beat = read(&reply).ok_or_else(CallError::unknown_reply)?;
        shard.in_flight.saw(beat.now, sent);
        Ok(beat)
    }

    /// Copies the state of `other`, as if this process were resumed from a snapshot of the other process. For tests.
    #[doc(hidden)]
    pub fn become_clone_of(&self, other: &Self) {
        self.identity.become_clone_of(&other.identity);
        let mut heard = self.heard.lock();
        heard.last = other.heard.lock().last;
        heard.count.answered(1, false, Instant::now());
    }

    /// Records the answer to a heartbeat, and returns the finding.
    fn answered(&self, beat: Beat) -> Finding {
        let heard = &mut *self.heard.lock();
        let last = heard.last.replace(beat.now);
        let is_continued = beat.continues(last);
        let was_missed = heard.count.is_missed();
        let was_known = heard.count.is_known;
        heard
            .count
            .answered(beat.count, is_continued, Instant::now());
        if !self.is_fixed {
            let gateways = heard.count.in_force;
            self.in_force.store(gateways, Ordering::Relaxed);
            if was_missed {
                tracing::info!(gateways, "the gateways on this Redis are counted now");
            }
        }
        if heard.twin.is_seen(last, beat.before) {
            heard.last = None;
            Finding::Twin { at: beat.now }
        } else if was_known && beat.before == 0 {
            Finding::Lost
        } else {
            Finding::Usual
        }
    }

    /// Records that a heartbeat had no answer. Redis may have received the heartbeat.
    fn unanswered(&self) {
        let heard = &mut *self.heard.lock();
        heard.last = None;
        let was_missed = heard.count.is_missed();
        heard.count.unanswered();
        if heard.count.is_missed() && !was_missed && !self.is_fixed {
            tracing::warn!(
                "Redis has not answered since this gateway started, and `gateways` is not set: how many gateways share \
                 this Redis is not known. Without Redis this gateway admits the whole quota of each limit with \
                 `on_failure: local`, as if it were the only one. `gateways: 4` sets the number"
            );
        }
    }
}

/// Reads a reply: the time, the number of gateways, and the time of this gateway's previous heartbeat.
fn read(reply: &[i64]) -> Option<Beat> {
    let [now, count, before] = *reply else {
        return None;
    };
    Some(Beat {
        now: Micros::try_from(now).ok()?,
        count: u64::try_from(count).ok()?,
        before: Micros::try_from(before).ok()?,
    })
}

#[cfg(test)]
mod tests;

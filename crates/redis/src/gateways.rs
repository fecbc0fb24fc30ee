//! How many gateways share this Redis: each sends heartbeats, and one whose heartbeats have stopped is gone.
//!
//! - [`count`]: which of the counts that Redis answers is in force
//! - [`identity`]: under which ID this gateway is known
//! - [`twin`]: whether another process has this gateway's ID

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

/// How often a gateway should send a heartbeat.
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// After so much silence a gateway is gone.
const LAPSE: Duration = Duration::from_secs(7);

const SCRIPT: &str = include_str!("../../../lua/gateways.lua");

/// How many gateways there are: as counted, or as the configuration says.
#[derive(Debug)]
pub struct Gateways {
    // What decisions read, at least 1. During an outage the last count stays.
    in_force: AtomicU64,
    is_fixed: bool,
    heard: Mutex<Heard>,
    identity: Arc<Identity>,
    complaints: Complaints,
}

/// What a heartbeat was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beat {
    /// Redis's clock.
    now: Micros,
    /// How many gateways have sent a heartbeat lately.
    count: u64,
    /// When this one had sent its last heartbeat, as far as this Redis knows; 0 if it knows of none.
    before: Micros,
}

impl Beat {
    /// Whether it goes on from the answer that came last, at `last` by Redis's clock. Any other Redis, or the same one without its
    /// data, begins to count anew. So does an answer behind which a heartbeat was left out: another gateway may have
    /// been silent for as long.
    fn continues(&self, last: Option<Micros>) -> bool {
        let gap = Duration::from_micros(self.now.saturating_sub(self.before));
        last == Some(self.before) && gap < 2 * HEARTBEAT
    }
}

/// What heartbeats were answered.
#[derive(Debug, Default)]
struct Heard {
    // By Redis's clock, when the last heartbeat was answered; none if the last one was not.
    last: Option<Micros>,
    count: Count,
    twin: Twin,
}

/// What a heartbeat shows beside the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Nothing.
    Usual,
    /// It has lost its data.
    Lost,
    /// Another process sends heartbeats under the same ID.
    Twin {
        /// The time of the answer, by Redis's clock.
        at: Micros,
    },
}

impl Gateways {
    /// `fixed` gateways, or as many as send heartbeats.
    pub fn new(fixed: Option<u64>, identity: Arc<Identity>) -> Self {
        Self {
            in_force: AtomicU64::new(fixed.unwrap_or(1).max(1)),
            is_fixed: fixed.is_some(),
            heard: Mutex::default(),
            identity,
            complaints: Complaints::default(),
        }
    }

    /// What this one calls itself.
    pub const fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// How many gateways there are, at least 1.
    pub fn count(&self) -> u64 {
        self.in_force.load(Ordering::Relaxed)
    }

    /// Whether other gateways may share this Redis: one that has just started is not counted yet.
    pub fn has_others(&self) -> bool {
        !self.is_fixed || self.count() > 1
    }

    /// Sends a heartbeat, and counts the gateways. A higher count applies at once, a lower one when Redis has answered it for
    /// longer than a gateway may be silent.
    ///
    /// # Errors
    ///
    /// Redis does not answer within `timeout`, or with an error.
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
        let asked = shards.eval(&keys, SCRIPT, &arguments, timeout);
        let (shard, reply) = asked.await?;
        let beat = read(&reply).ok_or_else(CallError::unknown_reply)?;
        shard.in_flight.saw(beat.now, sent);
        Ok(beat)
    }

    /// Makes this one what a clone of the process of `other` has in memory, after a heartbeat. For tests.
    #[doc(hidden)]
    pub fn become_clone_of(&self, other: &Self) {
        self.identity.become_clone_of(&other.identity);
        let mut heard = self.heard.lock();
        heard.last = other.heard.lock().last;
        heard.count.answered(1, false, Instant::now());
    }

    /// Takes the answer to a heartbeat.
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

    /// Takes it that a heartbeat was not answered, whether Redis had it or not.
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

/// Reads a reply: the time, the number of gateways, and the time of the previous heartbeat of this gateway.
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

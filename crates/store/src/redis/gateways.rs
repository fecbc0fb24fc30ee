//! How many gateways share this Redis: each sends heartbeats, and one whose heartbeats have stopped is gone.
//!
//! - [`count`]: which of the counts that Redis answers is in force

mod count;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::Micros;

use super::RedisStore;
use crate::StoreError;
use count::{Beat, Count};

/// How often a gateway should send a heartbeat.
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// After so much silence a gateway is gone.
const LAPSE: Duration = Duration::from_secs(7);

const SCRIPT: &str = include_str!("../../../../lua/gateways.lua");

/// How many gateways there are: as counted, or as the configuration says.
#[derive(Debug)]
pub(super) struct Gateways {
    // What decisions read, at least 1. During an outage the last count stays.
    in_force: AtomicU64,
    // None if the configuration says how many there are.
    counted: Option<Mutex<Count>>,
    id: String,
}

impl Gateways {
    /// `fixed` gateways, or as many as send heartbeats.
    pub(super) fn new(fixed: Option<u64>, id: String) -> Self {
        Self {
            in_force: AtomicU64::new(fixed.unwrap_or(1).max(1)),
            counted: fixed.is_none().then(Mutex::default),
            id,
        }
    }

    /// What this one calls itself.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn count(&self) -> u64 {
        self.in_force.load(Ordering::Relaxed)
    }

    fn answered(&self, beat: Beat) {
        let Some(counted) = &self.counted else {
            return;
        };
        let mut counted = counted.lock();
        let was_missed = counted.is_missed();
        counted.answered(beat, Instant::now());
        let gateways = counted.in_force();
        self.in_force.store(gateways, Ordering::Relaxed);
        if was_missed {
            tracing::info!(gateways, "the gateways on this Redis are counted now");
        }
    }

    fn unanswered(&self) {
        let Some(counted) = &self.counted else {
            return;
        };
        let mut counted = counted.lock();
        let was_missed = counted.is_missed();
        counted.unanswered();
        if counted.is_missed() && !was_missed {
            tracing::warn!(
                "Redis has not answered since this gateway started, and `gateways` is not set: how many gateways share \
                 this Redis is not known. Without Redis this gateway admits the whole quota of each limit with \
                 `on_failure: local`, as if it were the only one. `gateways: 4` sets the number"
            );
        }
    }
}

impl RedisStore {
    /// Whether other gateways may share this Redis: one that has just started is not counted yet.
    pub(crate) fn has_others(&self) -> bool {
        self.gateways.counted.is_some() || self.gateways.count() > 1
    }

    /// Sends a heartbeat, and counts the gateways; to be called every [`HEARTBEAT`]. Returns the count that is in force: a
    /// higher one applies at once, a lower one when Redis has answered it for longer than a gateway may be silent.
    pub async fn heartbeat(&self) -> Result<u64, StoreError> {
        let beat = self.beat().await;
        match &beat {
            Ok(beat) => self.gateways.answered(*beat),
            Err(_) => self.gateways.unanswered(),
        }
        beat.map(|_| self.gateways.count())
    }

    async fn beat(&self) -> Result<Beat, StoreError> {
        let keys = [format!("{}:gateways", self.caller.key_prefix)];
        let arguments = [self.gateways.id.clone(), LAPSE.as_micros().to_string()];
        let sent = Instant::now();
        let asked = self.caller.shards.eval(&keys, SCRIPT, &arguments);
        let answer = tokio::time::timeout(self.timeout, asked).await;
        let (shard, reply) = answer.unwrap_or(Err(StoreError::Timeout))?;
        let beat = read(&reply).ok_or_else(StoreError::unknown_reply)?;
        shard.guard.saw(beat.now, sent);
        Ok(beat)
    }
}

/// Reads a reply: the time, how many gateways there are, and when this one had called last.
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

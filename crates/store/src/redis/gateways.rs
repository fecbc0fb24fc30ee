//! How many gateways share this Redis: each calls in now and then, and one that has fallen silent is gone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::RedisStore;
use crate::StoreError;

/// How often a gateway should call in.
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// After so much silence a gateway is gone.
const LAPSE: Duration = Duration::from_secs(7);

const SCRIPT: &str = include_str!("../../../../lua/gateways.lua");

/// How many gateways there are: as counted last, or as the configuration says.
#[derive(Debug)]
pub(super) struct Gateways {
    // At least 1. During an outage the last count stands.
    count: AtomicU64,
    is_fixed: bool,
    id: String,
}

impl Gateways {
    /// `fixed` gateways, or as many as call in.
    pub(super) fn new(fixed: Option<u64>, id: String) -> Self {
        Self {
            count: AtomicU64::new(fixed.unwrap_or(1).max(1)),
            is_fixed: fixed.is_some(),
            id,
        }
    }

    /// What this one calls itself.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl RedisStore {
    /// Whether other gateways may share this Redis: one that has just started is not counted yet.
    pub(crate) fn has_others(&self) -> bool {
        !self.gateways.is_fixed || self.gateways.count() > 1
    }

    /// Calls in, and counts the gateways; to be called every [`HEARTBEAT`]. Says how many there are.
    pub async fn heartbeat(&self) -> Result<u64, StoreError> {
        let keys = [format!("{}:gateways", self.caller.key_prefix)];
        let arguments = [self.gateways.id.clone(), LAPSE.as_micros().to_string()];
        let sent = Instant::now();
        let asked = self.caller.shards.eval(&keys, SCRIPT, &arguments);
        let answer = tokio::time::timeout(self.timeout, asked).await;
        let (shard, reply) = answer.unwrap_or(Err(StoreError::Timeout))?;
        if let [now, count] = *reply
            && let (Ok(now), Ok(count)) = (u64::try_from(now), u64::try_from(count))
        {
            shard.guard.saw(now, sent);
            if !self.gateways.is_fixed {
                self.gateways.count.store(count.max(1), Ordering::Relaxed);
            }
        }
        Ok(self.gateways.count())
    }
}

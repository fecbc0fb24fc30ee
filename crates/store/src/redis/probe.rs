//! Probes: test decisions that belong to no client, to check whether Redis can decide requests.
//!
//! A probe runs the scripts of the configured limits through the calls that requests make. Its keys begin with `key_prefix`, like all keys.
//! These keys contain no hash of a client, and expire within seconds.

use std::fmt;
use std::time::{Duration, Instant};

use tidegate_core::Mode;
use tidegate_redis::{Gateways, Identity, LEAST_VERSION, Shard, Wait};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::RedisStore;
use super::leased::Lender;
use super::script::arguments::Holding;
use super::script::{self, Task};
use crate::{Charge, Key, Limit, OnFailure, StoreError};

/// The time for which the result of a probe is used without a new probe.
const HOLDS_FOR: Duration = Duration::from_secs(1);
/// The time for which the result of a successful probe is used if, on each server, the most recent call has failed.
const DOUBTED_FOR: Duration = Duration::from_millis(100);
/// The least timeout of a whole probe.
const SHORTEST: Duration = Duration::from_millis(250);
/// The lease of holds of a probe, in us.
const LEASE: u64 = 1_000_000;
/// The time to live of the text that [`RedisStore::check`] writes to Redis.
const KEPT: Duration = Duration::from_secs(1);

/// The result of the last probe, and the time at which it ended.
#[derive(Debug, Default)]
pub(super) struct LastProbe(Mutex<Option<(Instant, Result<(), StoreError>)>>);

/// The reason why a Redis cannot be used.
#[derive(Debug)]
pub struct Unfit {
    /// The address of the server in a Redis Cluster.
    node: Option<String>,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Version(String),
    Error(StoreError),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "node {node}: ")?;
        }
        match &self.cause {
            Cause::Version(version) => {
                write!(
                    f,
                    "the server is {version}, and the least version is {LEAST_VERSION}"
                )
            }
            Cause::Error(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unfit {}

impl From<StoreError> for Unfit {
    fn from(error: StoreError) -> Self {
        let cause = Cause::Error(error);
        Self { node: None, cause }
    }
}

impl RedisStore {
    /// Checks that Redis, or any node of a Redis Cluster, decides requests with these limits. Makes no probe while the result of the last
    /// probe is recent.
    ///
    /// # Errors
    ///
    /// The last probe failed, or there is no connection.
    pub async fn ready<'a>(
        &self,
        limits: impl Iterator<Item = &'a Limit>,
    ) -> Result<(), StoreError> {
        self.access.secret.check()?;
        self.connected()?;
        let mut last = self.last_probe.0.lock().await;
        if let Some((at, result)) = &*last {
            let holds_for = match result.is_ok() && self.fails() {
                true => DOUBTED_FOR,
                false => HOLDS_FOR,
            };
            if at.elapsed() < holds_for {
                return result.clone();
            }
        }
        // The caller may stop waiting during the probe. The next probe is delayed even then, because the start of this probe is recorded.
        let previous = last.take().map(|(_, result)| result);
        let previous = previous.unwrap_or(Err(StoreError::Timeout));
        *last = Some((Instant::now(), previous));
        let probes = probes(limits);
        let bound = self.access.timeout.max(SHORTEST);
        let probed = timeout(bound, self.probe_any(&probes)).await;
        let result = probed.unwrap_or(Err(StoreError::Timeout));
        *last = Some((Instant::now(), result.clone()));
        result
    }

    /// Checks that a gateway can use this Redis: its version, a decision by each server, and the data that gateways share.
    ///
    /// # Errors
    ///
    /// The first fault that the check finds.
    pub async fn check<'a>(&self, limits: impl Iterator<Item = &'a Limit>) -> Result<(), Unfit> {
        let (shards, prefix) = self.servers();
        // No timeout is needed, because each attempt to connect has one.
        shards.tried().await;
        self.connected()?;
        // If an ACL forbids INFO, the version is not checked.
        for info in self.info().await.unwrap_or_default() {
            if let Some(version) = info.info.too_old() {
                let (node, cause) = (info.node, Cause::Version(version));
                return Err(Unfit { node, cause });
            }
        }
        let (own, bound) = (format!("{prefix}:probe"), self.access.timeout);
        // The second call finds the text that the first has written.
        for _ in 0..2 {
            let shared = timeout(bound, shards.set_once(&own, "probe", KEPT)).await;
            shared.unwrap_or(Err(StoreError::Timeout))?;
        }
        let probes = probes(limits);
        for (node, shard, tags) in shards.tags()? {
            shard.client.tried().await;
            let probed = self.probe(&shard, &tags, &probes).await;
            probed.map_err(|error| Unfit {
                node,
                cause: Cause::Error(error),
            })?;
        }
        let gateways = Gateways::new(None, Identity::new().into());
        gateways.heartbeat(&shards, &own, bound).await?;
        Ok(())
    }

    /// Returns whether the last call to each server failed.
    fn fails(&self) -> bool {
        let servers = self.access.caller.shards.all().unwrap_or_default();
        servers.iter().all(|(_, shard)| shard.in_flight.fails())
    }

    /// Probes one server after the other until one decides. A server whose last call failed comes last.
    async fn probe_any(&self, probes: &[Limit]) -> Result<(), StoreError> {
        let (shards, _) = self.servers();
        let mut servers = shards.tags()?;
        servers.sort_by_key(|(_, shard, _)| shard.in_flight.fails());
        let mut result = Err(StoreError::Disconnected);
        for (_, shard, tags) in servers {
            result = self.probe(&shard, &tags, probes).await;
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Calls a server for a decision on each of these limits.
    async fn probe(
        &self,
        shard: &Shard,
        tags: &[[u8; 16]],
        probes: &[Limit],
    ) -> Result<(), StoreError> {
        let rest = [0; 16];
        for tag in tags {
            for limit in probes {
                let key = Key { tag: *tag, rest };
                let charge = Charge {
                    limit,
                    key,
                    cost: 1,
                    origin: None,
                };
                if let Err(error) = self.probe_limit(&charge).await {
                    let in_flight = &shard.in_flight;
                    if error == StoreError::NotAsked && !in_flight.is_open() && !in_flight.fails() {
                        // The probe was not sent, because this gateway has too many calls under way. The last call has not failed, so Redis
                        // decides requests.
                        return Ok(());
                    }
                    let is_open = error == StoreError::NotAsked && shard.in_flight.is_open();
                    let cause = shard.in_flight.failure().filter(|_| is_open);
                    return Err(cause.unwrap_or(error));
                }
            }
        }
        Ok(())
    }

    async fn probe_limit(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        let wait = Wait::new(self.access.timeout, None);
        match charge.limit.mode() {
            Mode::Leased => {
                let lender = Lender {
                    access: self.access.clone(),
                    identity: self.gateways.identity().clone(),
                };
                return lender.probe(charge, wait).await;
            }
            Mode::Synced => return self.modes.synced.probe(charge, wait).await,
            Mode::Exact | Mode::Local => {}
        }
        let charges = std::slice::from_ref(charge);
        let decision = self.modes.exact.ask(charges, wait).await?;
        let Some(Some(verdict)) = decision.verdicts.first() else {
            return Ok(());
        };
        if charge.limit.lease().is_some() && verdict.allowed {
            let caller = &self.access.caller;
            let call = caller.ended(charge, decision.sources[0].hold, 0);
            let sent = timeout(self.access.timeout, caller.send(&call)).await;
            sent.unwrap_or(Err(StoreError::Timeout))?;
        }
        Ok(())
    }
}

/// Makes the limits of a probe: one for each script and mode that these limits use.
fn probes<'a>(limits: impl Iterator<Item = &'a Limit>) -> Vec<Limit> {
    let mut kinds = Vec::new();
    let mut probes = Vec::new();
    for limit in limits.filter(|limit| limit.mode() != Mode::Local) {
        let Ok(quota) = limit.quota().brief() else {
            continue;
        };
        let mut probe = Limit::new("probe", quota, OnFailure::Closed).in_mode(limit.mode());
        if let Some(block) = limit.block() {
            probe = probe.blocking(block);
        }
        if limit.reserves().is_some() {
            probe = probe.reserving(LEASE);
        }
        let rest = [0; 16];
        let (tag, cost) = ([0; 16], 1);
        let charge = Charge {
            limit: &probe,
            key: Key { tag, rest },
            cost,
            origin: None,
        };
        let kind = (
            script::number(Task::Decide, &[charge], Holding::None),
            limit.mode(),
        );
        if !kinds.contains(&kind) {
            kinds.push(kind);
            probes.push(probe);
        }
    }
    probes
}

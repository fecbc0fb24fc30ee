//! The Redis store: one script call per request, a deadline on every call, and a fallback if no call is answered.
//!
//! A decision makes one call. A call that timed out may still have run, so it is not sent again. A call is sent again only if its answer
//! proves that it changed no state: the server did not have the script, the script ran too late, or another node has the slot.
//!
//! - [`script`]: the texts of scripts, and the calls that run them
//! - [`modes`]: the decisions by mode. [`exact`] calls Redis, [`leased`] spends borrowed slices, [`synced`] exchanges counts, and
//!   [`fallback`] decides without Redis
//! - [`decision_cache`]: the last answers of Redis, for repeated refusals and for outages; [`access`]: the parts that every mode needs
//! - [`probe`]: runs test decisions that belong to no client, to check whether Redis can decide requests
//!
//! Servers and connections are in `tidegate-redis`.

mod access;
mod decision_cache;
mod exact;
mod fallback;
mod leased;
mod modes;
mod probe;
mod script;
mod synced;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Micros, Verdict};
pub use tidegate_redis::{
    Agreement, Claim, Claims, HEARTBEAT, InvalidOptions, InvalidUrl, LEAST_VERSION, NodeInfo,
    RedisInfo, Tls, check_url, is_tls,
};
use tidegate_redis::{CONNECT, Finding, Gateways, Identity, Secret, Shards};

use crate::charge::LimitIds;
use crate::registry::Registry;
use crate::{
    Charge, Counts, Cursor, Decision, KeyPage, Limit, LocalView, MemoryStore, Outlook, Recall,
    StoreError,
};
use access::Access;
use decision_cache::DecisionCache;
pub(crate) use exact::Exact;
pub(crate) use fallback::Fallback;
use leased::{Leased, Lender};
use modes::Modes;
use probe::LastProbe;
pub use probe::Unfit;
use script::caller::Caller;
use script::caller::compensation::LONGEST;
pub use script::{ScriptExample, examples};
use synced::Synced;
pub use synced::{Overshoot, SyncedUse};

/// Settings of the Redis store.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// `redis://[user:password@]host:port[/database]`, or another form of docs/sharing.md.
    pub url: String,
    /// The trusted authorities if the URL asks for TLS. `None` for the authorities of the system.
    pub tls: Option<Tls>,
    /// The longest time that a decision waits for Redis.
    pub timeout: Duration,
    /// The prefix of all keys.
    pub key_prefix: String,
    /// The number of gateways that share this Redis. `None` if the gateways count each other.
    pub gateways: Option<u64>,
    /// The time between two exchanges of counts of [`Mode::Synced`](crate::Mode::Synced): a millisecond at least.
    pub sync_every: Duration,
    /// Whether this process repeats a refusal of Redis for up to a second without another call. Set it to false only to compare every
    /// decision of Redis with another result.
    pub remember_refusals: bool,
}

/// Limiter state in Redis: the parts that all modes share, and the modes.
#[derive(Debug)]
pub struct RedisStore {
    access: Access,
    gateways: Arc<Gateways>,
    modes: Modes,
    last_probe: LastProbe,
}

impl RedisStore {
    /// Connects in the background. Waits for the first attempt, but no longer than the timeout of one connection, so that a gateway also
    /// starts while Redis is down. Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// The URL, a certificate or a key is invalid.
    pub async fn connect(options: RedisOptions) -> Result<Self, InvalidOptions> {
        let timeout = options.timeout;
        let shards = Shards::start(&options.url, options.tls, timeout, script::all())?;
        // The result is ignored, because the first decision detects whether Redis is up.
        let _ = tokio::time::timeout(CONNECT, shards.tried()).await;
        let identity = Arc::new(Identity::new());
        let access = Access {
            caller: Caller::new(shards, &options.key_prefix),
            secret: Arc::<Secret>::default(),
            cache: Arc::<DecisionCache>::default(),
            timeout,
        };
        let memory = Arc::<MemoryStore>::default();
        let gateways = Arc::new(Gateways::new(options.gateways, identity.clone()));
        let lender = Lender {
            access: access.clone(),
            identity: identity.clone(),
        };
        let modes = Modes {
            exact: Exact::new(access.clone(), memory.clone(), options.remember_refusals),
            leased: Leased::start(lender),
            synced: Synced::new(
                access.clone(),
                gateways.clone(),
                options.sync_every,
                &identity.get(),
            ),
            fallback: Fallback {
                memory,
                cache: access.cache.clone(),
                gateways: gateways.clone(),
            },
            timeout,
        };
        Ok(Self {
            access,
            gateways,
            modes,
            last_probe: LastProbe::default(),
        })
    }

    /// Decides one request within the timeout: by the state in this process, by a cached refusal, by Redis, or by each limit's
    /// [`OnFailure`](crate::OnFailure).
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Decision {
        self.decide_within(charges, None).await
    }

    /// Decides one request like [`decide`](Self::decide), and waits for Redis for at most `within` if that is shorter than the timeout.
    ///
    /// A call that such a shorter wait ends does not count as a failure of Redis. One read of Redis's clock in the background, with the
    /// whole timeout, counts in its place. So the circuit breaker opens only if Redis does not answer within the timeout.
    pub async fn decide_within(
        &self,
        charges: &[Charge<'_>],
        within: Option<Duration>,
    ) -> Decision {
        self.modes.decide(charges, within).await
    }

    /// Returns the outlook of each charge alone. Redis computes the outlook. For limits of [`Mode::Local`](crate::Mode::Local), this
    /// process computes it, because it counts them itself.
    pub async fn peek(&self, charges: &[Charge<'_>]) -> Result<Vec<Outlook>, StoreError> {
        self.modes.peek(charges).await
    }

    /// Returns the counts of a charge's key in Redis. Units that another gateway has spent of a slice count once it has settled them.
    pub(crate) async fn counts(&self, charge: &Charge<'_>) -> Result<Counts, StoreError> {
        let Access {
            caller, timeout, ..
        } = &self.access;
        let now = caller.shards.now(&charge.key.tag);
        let now = now.unwrap_or_else(crate::now);
        caller.counts(charge, now, (*timeout).max(LONGEST)).await
    }

    /// Returns some keys of these limits in Redis.
    pub(crate) async fn keys(
        &self,
        limits: &[Arc<Limit>],
        from: Cursor,
    ) -> Result<KeyPage, StoreError> {
        let Access {
            caller, timeout, ..
        } = &self.access;
        let name = limits.first().map_or("", |limit| limit.name());
        let ids = LimitIds::of(limits);
        let page = caller.limit_keys(&ids, name, from, (*timeout).max(LONGEST));
        page.await
    }

    /// Returns the state of a charge in this process.
    pub(crate) fn peek_here(&self, charge: &Charge<'_>) -> LocalView {
        self.modes.peek_here(charge)
    }

    /// Returns the verdict on a charge of a synced limit by the counts in this process.
    pub(crate) fn peek_counted(&self, charge: &Charge<'_>) -> Option<Verdict> {
        self.modes.synced.look_beside(charge)
    }

    /// Drops the used units of these keys, first in Redis and then in this process. After an error, some of the keys may be reset in Redis.
    /// It is safe to repeat the call.
    ///
    /// Other gateways may repeat a cached refusal, for a second at most. If an outage begins before their next call, they decide by Redis's
    /// last answer, which is from before the reset. Other gateways keep their slices, and the units that they spend still count, so a reset
    /// never makes room for more than the limit. Other gateways also keep their counts of limits of [`Mode::Local`](crate::Mode::Local),
    /// because such a limit is reset in this process alone.
    pub async fn reset(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        self.modes.reset(charges).await
    }

    /// Drops the cached refusals of these clients, and returns their slices to Redis in the background.
    pub fn recall(&self, recall: Recall) {
        self.modes.fallback.cache.forget_refusals(&recall);
        self.modes.leased.recall(recall);
    }

    /// From now on borrows slices only of the leased limits in `limits`, and returns the slices of all other limits to Redis. So Redis
    /// counts all units that were spent of a limit that leaves [`Mode::Leased`](crate::Mode::Leased).
    ///
    /// The result is true if Redis got all these slices back within a second. Otherwise, the remaining slices are returned later, or lapse
    /// within 5 s. After a lapse, the limit's new mode does not count the units spent of the slice.
    pub async fn keep_leased<'a>(&self, limits: impl Iterator<Item = &'a Limit>) -> bool {
        let leased = limits.filter(|limit| limit.mode() == crate::Mode::Leased);
        self.modes
            .keep_leased(leased.map(Limit::id_hash).collect())
            .await
    }

    /// Returns the servers, and the prefix of all keys.
    pub fn servers(&self) -> (Arc<Shards>, &str) {
        let caller = &self.access.caller;
        (caller.shards.clone(), &caller.key_prefix)
    }

    /// Reads the counts of the synced limits in `limits` from Redis: of 50,000 keys at most, for at most a second. Call it before the first
    /// decision, while [`keep_synced`](Self::keep_synced) runs. The first request of a key is then decided by the counts of all gateways.
    /// If there is no time or place for a key, this gateway's own count decides its first requests.
    ///
    /// # Errors
    ///
    /// Redis does not list its keys, for example because the ACL forbids `SCAN`.
    pub async fn load_synced(&self, limits: &[Arc<Limit>]) -> Result<(), StoreError> {
        let limits: Vec<_> = limits
            .iter()
            .filter(|limit| limit.mode() == crate::Mode::Synced)
            .cloned()
            .collect();
        if limits.is_empty() {
            return Ok(());
        }
        self.access.secret.check()?;
        let (caller, ids) = (&self.access.caller, LimitIds::of(&limits));
        let loading = async {
            let mut next = Some(Cursor::default());
            while let Some(from) = next
                && self.modes.synced.may_load()
            {
                let page = caller.limit_keys(&ids, "", from, LONGEST).await?;
                for (limit, key) in &page.keys {
                    self.modes.synced.load(&Charge {
                        limit,
                        key: *key,
                        cost: 1,
                        origin: None,
                    });
                }
                next = page.next;
            }
            self.modes.synced.loaded().await;
            Ok(())
        };
        tokio::time::timeout(LONGEST, loading)
            .await
            .unwrap_or(Ok(()))
    }

    /// Exchanges the counts of synced limits while the future is polled. A gateway with such limits must run this function once. Otherwise
    /// these limits work like local limits.
    pub async fn keep_synced(&self) {
        self.modes.synced.keep().await;
    }

    /// Returns the keys, the calls and the overshoot of synced limits.
    pub fn synced_usage(&self) -> SyncedUse {
        self.modes.synced.usage()
    }

    /// Takes up to a second to send Redis the state that only this gateway has. The state that is not sent by then is lost, or lapses. Call
    /// it when decisions have ended, and no other task of this store runs.
    pub async fn close(&self) {
        self.modes.close().await;
    }

    /// Returns a refusal of these charges that needs no call, if there is one. Changes no state.
    pub(crate) fn known_refusal(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        self.modes.exact.known_refusal(charges)
    }

    /// Checks that this process has a connection to Redis, or to any node of a Redis Cluster. Makes no call.
    pub fn connected(&self) -> Result<(), StoreError> {
        self.access.caller.shards.connected()
    }

    /// Returns the state of the Redis server, or of each primary of a Redis Cluster that answers.
    ///
    /// # Errors
    ///
    /// No server answers in time, or the ACL forbids `INFO`.
    pub async fn info(&self) -> Result<Vec<NodeInfo>, StoreError> {
        self.access.caller.shards.info(self.access.timeout).await
    }

    /// Returns the secret that all gateways share, from Redis under `<key_prefix>:secret`. Stores `own` if there is none. The secret
    /// expires 64 days after the last call.
    pub async fn shared_secret(&self, own: &str) -> Result<String, StoreError> {
        let Caller {
            shards, key_prefix, ..
        } = &self.access.caller;
        self.access
            .secret
            .shared(shards, key_prefix, own, self.access.timeout)
            .await
    }

    /// Sets whether Redis may decide. A new store starts as [agreed](Agreement::Agreed).
    pub fn set_agreement(&self, agreement: Agreement) {
        self.access.secret.set(agreement);
    }

    /// Whether other gateways may share this Redis. If gateways count each other, this is always true, because a new gateway is not counted
    /// at once.
    pub(crate) fn has_others(&self) -> bool {
        self.gateways.has_others()
    }

    /// Sends a heartbeat, and counts the gateways. Call it every [`HEARTBEAT`]. Returns the count that is in force. A higher count applies
    /// at once. A lower count applies after Redis has returned it for longer than a gateway may be silent.
    ///
    /// If Redis has lost its data, the counts of synced limits are sent again. If another process uses the ID of this gateway, because both
    /// were resumed from one snapshot of a machine, this gateway takes a new ID.
    pub async fn heartbeat(&self) -> Result<u64, StoreError> {
        let Caller {
            shards, key_prefix, ..
        } = &self.access.caller;
        let beat = self
            .gateways
            .heartbeat(shards, key_prefix, self.access.timeout);
        match beat.await? {
            Finding::Usual => {}
            Finding::Lost => self.modes.synced.tell_again(),
            Finding::Twin { at } => self.leave_twin(at),
        }
        Ok(self.gateways.count())
    }

    /// Takes a new ID, because the data in Redis under the old ID belongs to the other process.
    fn leave_twin(&self, at: Micros) {
        tracing::warn!(
            "another process sends heartbeats under this gateway's ID, as two clones of one running machine do; this gateway \
             goes on under a new ID"
        );
        self.gateways.identity().renew(at);
        crate::charge::renew_hold_ids(at);
        self.modes
            .synced
            .leave_told(&self.gateways.identity().get());
        self.modes.leased.recall(Recall::All);
    }

    /// Returns the holds of running requests.
    pub(crate) fn registry(&self) -> &Registry {
        self.fallback().registry()
    }

    /// Returns the part that calls Redis for decisions, and that ends and renews holds in Redis.
    pub(crate) const fn exact(&self) -> &Exact {
        &self.modes.exact
    }

    /// Returns the part that decides without Redis.
    pub(crate) const fn outage(&self) -> &Fallback {
        &self.modes.fallback
    }

    /// Returns the state of limits that this process alone counts, and the state that outages left in this process.
    pub fn fallback(&self) -> &MemoryStore {
        &self.modes.fallback.memory
    }
}

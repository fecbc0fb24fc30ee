//! The Redis store: one script call per request, a deadline on every call, and a fallback if no call is answered.
//!
//! A decision makes one call. A call that timed out may still have run, so it is not sent again. A call is sent again only if its answer
//! proves that it changed no state. Then the server did not have the script, the script ran too late, or another node has the slot.
//!
//! - [`script`]: the texts of scripts, and the calls that run them
//! - [`modes`]: which mode decides what: [`exact`] calls Redis; [`leased`] and [`synced`] keep limits in this process, by slices and by
//!   differences; [`fallback`] decides without Redis
//! - [`decision_cache`]: the last answers of Redis, for repeated refusals and for outages; [`access`]: the parts that every mode needs
//! - [`probe`]: checks whether Redis decides, without a request
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

use tidegate_core::Micros;
pub use tidegate_redis::{
    Agreement, HEARTBEAT, InvalidOptions, InvalidUrl, LEAST_VERSION, NodeInfo, RedisInfo, Tls,
    check_url, is_tls,
};
use tidegate_redis::{CONNECT, Finding, Gateways, Identity, Secret, Shards};

use crate::registry::Registry;
use crate::{Charge, Decision, Limit, LocalView, MemoryStore, Outlook, Recall, StoreError};
use access::Access;
use decision_cache::DecisionCache;
pub(crate) use exact::Exact;
pub(crate) use fallback::Fallback;
use leased::{Leased, Lender};
use modes::Modes;
use probe::LastProbe;
pub use probe::Unfit;
use script::caller::Caller;
use synced::Synced;
pub use synced::{Overshoot, SyncedUse};

/// Settings of the Redis store.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// `redis://[user:password@]host:port[/database]`, or another form of docs/sharing.md.
    pub url: String,
    /// The trusted authorities if the URL asks for TLS. None: the authorities of the system.
    pub tls: Option<Tls>,
    /// The longest time that a decision waits for Redis.
    pub timeout: Duration,
    /// The prefix of all keys.
    pub key_prefix: String,
    /// The number of gateways that share this Redis. None: gateways count each other.
    pub gateways: Option<u64>,
    /// The time between two exchanges of counts of [`Mode::Synced`](crate::Mode::Synced): a millisecond at least.
    pub sync_every: Duration,
    /// Whether a refusal is repeated for a second without a call. Only a comparison of every answer with another result needs this off.
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
    /// Starts connecting in the background, and waits for it at most the time that one connection may take. A Redis that is down does not
    /// keep a gateway from starting. Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// The URL, a certificate or a key is invalid.
    pub async fn connect(options: RedisOptions) -> Result<Self, InvalidOptions> {
        let timeout = options.timeout;
        let shards = Shards::start(&options.url, options.tls, timeout, script::all())?;
        // The first decision detects whether Redis is up.
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

    /// Decides one request within the timeout: by the state in this process, by a refusal that still holds, by Redis, or by each limit's
    /// [`OnFailure`](crate::OnFailure).
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Decision {
        self.modes.decide(charges).await
    }

    /// Returns the outlook of each charge alone, as Redis answers it. Limits of [`Mode::Local`](crate::Mode::Local) are answered by this
    /// process, which counts them itself.
    pub async fn peek(&self, charges: &[Charge<'_>]) -> Result<Vec<Outlook>, StoreError> {
        self.modes.peek(charges).await
    }

    /// Returns the state of a charge in this process.
    pub(crate) fn peek_here(&self, charge: &Charge<'_>) -> LocalView {
        self.modes.peek_here(charge)
    }

    /// Clears the use of these keys: in Redis, and then in this process. After an error a part of it may be cleared in Redis, and a
    /// repetition is safe.
    ///
    /// Other gateways may repeat a remembered refusal, for a second at most. If an outage begins before they have called Redis again, they
    /// go on from the last state that they received. Their slices stay lent, and the units spent of them count, so a reset never makes room
    /// for more than the limit. Their counts of limits of [`Mode::Local`](crate::Mode::Local) stay: such a limit is reset in this process
    /// alone.
    pub async fn reset(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        self.modes.reset(charges).await
    }

    /// Drops the remembered refusals of these clients, and returns their slices in the background.
    pub fn recall(&self, recall: Recall) {
        self.modes.fallback.cache.forget_refusals(&recall);
        self.modes.leased.recall(recall);
    }

    /// Borrows slices of the leased limits among these only from now on, and returns the slices of all others. So Redis counts all units
    /// spent of a limit that leaves [`Mode::Leased`](crate::Mode::Leased).
    ///
    /// Returns whether all slices were returned within a second. The rest is returned later or lapses within 5 s. The other modes do not
    /// count a slice that has lapsed.
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

    /// Exchanges the counts of synced limits while the future is polled. A gateway with such limits needs it running, once. Without it
    /// these limits work like local ones.
    pub async fn keep_synced(&self) {
        self.modes.synced.keep().await;
    }

    /// Returns the cost of synced limits, and their overshoot.
    pub fn synced_usage(&self) -> SyncedUse {
        self.modes.synced.usage()
    }

    /// Sends Redis the state that only this gateway has, for a second at most; the rest is lost, or lapses. Call it when decisions have
    /// ended, and no other task of this store runs.
    pub async fn close(&self) {
        self.modes.close().await;
    }

    /// Returns the refusal of these charges that needs no call, if there is one. Changes no state.
    pub(crate) fn known_refusal(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        self.modes.exact.known_refusal(charges)
    }

    /// Whether this process has a connection to Redis now; in a Redis Cluster, to one of its nodes at least. Makes no call.
    pub fn connected(&self) -> Result<(), StoreError> {
        self.access.caller.shards.connected()
    }

    /// Reads the state of every server: of the one server, or of each primary of a Redis Cluster that answers.
    ///
    /// # Errors
    ///
    /// No server answers in time, or the ACL forbids `INFO`.
    pub async fn info(&self) -> Result<Vec<NodeInfo>, StoreError> {
        self.access.caller.shards.info(self.access.timeout).await
    }

    /// Returns the secret that all gateways share, from Redis under `<key_prefix>:secret`. Stores `own` if there is none. It expires 64
    /// days after the last call.
    pub async fn shared_secret(&self, own: &str) -> Result<String, StoreError> {
        let Caller {
            shards, key_prefix, ..
        } = &self.access.caller;
        self.access
            .secret
            .shared(shards, key_prefix, own, self.access.timeout)
            .await
    }

    /// Sets whether Redis may decide. A store begins [agreed](Agreement::Agreed).
    pub fn set_agreement(&self, agreement: Agreement) {
        self.access.secret.set(agreement);
    }

    /// Whether other gateways may share this Redis: a gateway that has just started is not counted yet.
    pub(crate) fn has_others(&self) -> bool {
        self.gateways.has_others()
    }

    /// Sends a heartbeat, and counts the gateways; to be called every [`HEARTBEAT`]. Returns the count that is in force. A higher count
    /// applies at once. A lower count applies when Redis has answered it for longer than a gateway may be silent.
    ///
    /// A Redis that has lost its data gets the counts of synced limits again. A gateway that finds another process under its own ID, both
    /// resumed from one snapshot, goes on under another ID.
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

    /// Goes on under another ID, since the data in Redis under the old ID belongs to the other process.
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

    /// Returns the part that has Redis decide, and that ends and renews holds there.
    pub(crate) const fn exact(&self) -> &Exact {
        &self.modes.exact
    }

    /// Returns the part that decides without Redis.
    pub(crate) const fn outage(&self) -> &Fallback {
        &self.modes.fallback
    }

    /// Returns the state of limits that this process alone counts, and the state that outages left here.
    pub fn fallback(&self) -> &MemoryStore {
        &self.modes.fallback.memory
    }
}

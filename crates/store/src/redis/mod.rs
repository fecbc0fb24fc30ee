//! The Redis store: one script call per request, a deadline on every call, and what decides when none answers.
//!
//! A decision asks once. A call that timed out may still have run, so it is not sent a second time. A call is sent again only after
//! an answer that says that nothing ran. Then the server did not know the script, the script found itself too late, or the slot is
//! another node's.
//!
//! - [`script`]: the texts of scripts, and the calls that run them
//! - [`modes`]: which of them decides what: [`exact`] asks Redis; [`leased`] and [`synced`] keep limits in this process, by
//!   slices and by differences; [`fallback`] decides without Redis
//! - [`decision_cache`]: what Redis last said, given again or gone on from in an outage; [`access`]: what every mode needs
//! - [`probe`]: whether Redis decides, without a request
//!
//! Servers and connections are those of `tidegate-redis`.

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

/// How to reach Redis, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// `redis://[user:password@]host:port[/database]`, or one of the other forms of docs/sharing.md.
    pub url: String,
    /// Whom to trust if the URL asks for TLS. Without it: the authorities of the system.
    pub tls: Option<Tls>,
    /// The longest that a decision waits.
    pub timeout: Duration,
    /// What all keys start with.
    pub key_prefix: String,
    /// How many gateways share this Redis, if they are not to be counted.
    pub gateways: Option<u64>,
    /// How often counts of [`Mode::Synced`](crate::Mode::Synced) are exchanged: a millisecond at least.
    pub sync_every: Duration,
    /// Whether a refusal is given again for a second without asking. Only what compares every answer with something
    /// else wants to do without.
    pub remember_refusals: bool,
}

/// Limiter state in Redis: what all modes share, and each mode with its own.
#[derive(Debug)]
pub struct RedisStore {
    access: Access,
    gateways: Arc<Gateways>,
    modes: Modes,
    last_probe: LastProbe,
}

impl RedisStore {
    /// Starts connecting in the background, and gives that as long as one connection may take. A Redis that is down does not keep a
    /// gateway from starting. Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// The URL, or a certificate or key.
    pub async fn connect(options: RedisOptions) -> Result<Self, InvalidOptions> {
        let timeout = options.timeout;
        let shards = Shards::start(&options.url, options.tls, timeout, script::all())?;
        // Whether it came up is seen by the first decision.
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

    /// Decides one request within the timeout: by what this process keeps, by a refusal that still holds, by Redis, or by
    /// each limit's [`OnFailure`].
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Decision {
        self.modes.decide(charges).await
    }

    /// What would be said to each of these charges, if it came alone. Redis says it. For limits of
    /// [`Mode::Local`](crate::Mode::Local) this process says it, which knows what it has counted itself.
    pub async fn peek(&self, charges: &[Charge<'_>]) -> Result<Vec<Outlook>, StoreError> {
        self.modes.peek(charges).await
    }

    /// What this process knows of a charge by itself.
    pub(crate) fn peek_here(&self, charge: &Charge<'_>) -> LocalView {
        self.modes.peek_here(charge)
    }

    /// Forgets what was used under these keys: in Redis, and then what this process remembers of it. After an error Redis
    /// may have forgotten a part of it, and doing it again is safe.
    ///
    /// Other gateways may go on giving a refusal that they remember, for a second at most. If an outage begins before they have
    /// asked Redis again, they go on from what they saw last. What they have borrowed stays lent, and what they spend of it counts,
    /// so that a reset never makes room for more than the limit. What they have counted of limits of
    /// [`Mode::Local`](crate::Mode::Local) is theirs, and stays: such a limit is reset in this process alone.
    pub async fn reset(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        self.modes.reset(charges).await
    }

    /// Gives no remembered refusal to these clients again, and returns what was borrowed for them, in the background.
    pub fn recall(&self, recall: Recall) {
        self.modes.fallback.cache.forget_refusals(&recall);
        self.modes.leased.recall(recall);
    }

    /// Lends slices of the leased limits among these only from now on, and returns the slices of all others. So Redis counts all that is
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

    /// The servers, and what all keys start with.
    pub fn servers(&self) -> (Arc<Shards>, &str) {
        let caller = &self.access.caller;
        (caller.shards.clone(), &caller.key_prefix)
    }

    /// Exchanges the counts of synced limits, for as long as the future is polled. A gateway with such limits needs it
    /// running, once; without it they are as good as local.
    pub async fn keep_synced(&self) {
        self.modes.synced.keep().await;
    }

    /// What synced limits cost and what they let through.
    pub fn synced_usage(&self) -> SyncedUse {
        self.modes.synced.usage()
    }

    /// Tells Redis what only this gateway knows, for a second at most; what cannot be told by then is lost, or lapses. To be
    /// called when nothing is decided any more, and nothing else of this store runs.
    pub async fn close(&self) {
        self.modes.close().await;
    }

    /// The refusal of these charges that a request would be given without asking Redis, if there is one. Looks only.
    pub(crate) fn known_refusal(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        self.modes.exact.known_refusal(charges)
    }

    /// Whether this process has a connection to Redis now; in a Redis Cluster, to one of its nodes at least. Asks nobody.
    pub fn connected(&self) -> Result<(), StoreError> {
        self.access.caller.shards.connected()
    }

    /// Asks every server how it is: one, or each primary of a Redis Cluster that answers.
    ///
    /// # Errors
    ///
    /// No server answers in time, or the ACL forbids `INFO`.
    pub async fn info(&self) -> Result<Vec<NodeInfo>, StoreError> {
        self.access.caller.shards.info(self.access.timeout).await
    }

    /// What stands in Redis for all gateways under `<key_prefix>:secret`: `own`, if nothing did. It stays there for 64
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

    /// Lets Redis decide, or not. A store begins [agreed](Agreement::Agreed).
    pub fn set_agreement(&self, agreement: Agreement) {
        self.access.secret.set(agreement);
    }

    /// Whether other gateways may share this Redis: one that has just started is not counted yet.
    pub(crate) fn has_others(&self) -> bool {
        self.gateways.has_others()
    }

    /// Sends a heartbeat, and counts the gateways; to be called every [`HEARTBEAT`]. Returns the count that is in force. A higher
    /// count applies at once, a lower one when Redis has answered it for longer than a gateway may be silent.
    ///
    /// A Redis that has lost its data is told again what was counted of synced limits.
    /// A gateway that finds another process under its own ID, both resumed from one snapshot, goes on under another ID.
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

    /// Goes on under another ID: what stands in Redis under the old one belongs to the other process.
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

    /// What requests hold that are under way.
    pub(crate) fn registry(&self) -> &Registry {
        self.fallback().registry()
    }

    /// What Redis decides on, and what becomes of its charges.
    pub(crate) const fn exact(&self) -> &Exact {
        &self.modes.exact
    }

    /// What decides without Redis.
    pub(crate) const fn outage(&self) -> &Fallback {
        &self.modes.fallback
    }

    /// The state of limits that this process alone counts, and what outages left here.
    pub fn fallback(&self) -> &MemoryStore {
        &self.modes.fallback.memory
    }
}

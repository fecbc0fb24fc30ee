//! The Redis store: one script call per request, a deadline on every call, and what decides when none answers.
//!
//! A decision asks once: a call that timed out may still have run, so nothing is sent a second time, except after an
//! answer that says that nothing ran: the server did not know the script, the script found
//! itself too late, or the slot is another node's.
//!
//! - [`script`]: the texts of scripts, and the calls that run them
//! - [`exactly`], [`modes`]: what decides; [`leases`], [`synced`]: limits that are kept in this process, by slices, by differences
//! - [`recent`]: what Redis last said, given again or gone on from in an outage
//! - [`settlements`], [`places`]: what becomes of a charge; what running requests hold
//! - [`budgets`]: for operators
//!
//! Servers and connections are those of `tidegate-redis`.

mod budgets;
mod exactly;
mod leases;
mod modes;
mod places;
mod recent;
mod script;
mod settlements;
mod synced;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{Micros, Quota};

use crate::registry::Registry;
use crate::table::Terms;
use crate::{
    Charge, Decision, Limit, MemoryStore, Mode, OnFailure, Outcome, PerCharge, Sources, StoreCall,
    StoreError, Verdicts, Via,
};
use leases::{Leases, Lender};
pub(crate) use places::Server;
use recent::Recent;
use script::caller::cross_slot::Decided;
use script::caller::{Caller, call_of};
use synced::Synced;
pub use synced::{Overshoot, SyncedUse};
pub(crate) use tidegate_redis::Confirmed;
pub use tidegate_redis::{Agreement, HEARTBEAT, InvalidTls, InvalidUrl, NodeInfo, RedisInfo, Tls};
use tidegate_redis::{CONNECT, Finding, Gateways, Identity, Secret, Shards, Target};

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
    /// How often counts of [`Mode::Synced`] are exchanged: a millisecond at least.
    pub sync_every: Duration,
    /// Whether a refusal is given again for a second without asking. Only what compares every answer with something
    /// else wants to do without.
    pub remember_refusals: bool,
}

/// Why a store cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOptions {
    /// The URL.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// Certificates or keys.
    #[error(transparent)]
    Tls(#[from] InvalidTls),
}

/// Says whether `url` can be understood, without connecting.
pub fn check_url(url: &str) -> Result<(), InvalidUrl> {
    Target::parse(url).map(drop)
}

/// Whether `url` asks for TLS.
pub fn is_tls(url: &str) -> bool {
    Target::parse(url).is_ok_and(|target| target.is_tls())
}

/// Limiter state in Redis.
#[derive(Debug)]
pub struct RedisStore {
    caller: Caller,
    recent: Arc<Recent>,
    remember_refusals: bool,
    fallback: MemoryStore,
    leases: Leases,
    synced: Synced,
    gateways: Gateways,
    timeout: Duration,
    secret: Arc<Secret>,
}

impl RedisStore {
    /// Starts connecting in the background, and gives that as long as one connection may take; a Redis that is down
    /// does not keep a gateway from starting. Must be called inside a tokio runtime.
    pub async fn connect(options: RedisOptions) -> Result<Self, InvalidOptions> {
        let target = Target::parse(&options.url)?;
        let tls = match options.tls {
            None if target.is_tls() => Some(Tls::new(None, None)?),
            given => given,
        };
        let shards = Shards::start(target, tls, options.timeout, script::all());
        // Whether it came up is seen by the first decision.
        let _ = tokio::time::timeout(CONNECT, shards.tried()).await;
        let identity = Arc::new(Identity::new());
        let caller = Caller::new(shards, &options.key_prefix);
        let (recent, secret) = (Arc::<Recent>::default(), Arc::<Secret>::default());
        let lender = Lender {
            caller: caller.clone(),
            secret: secret.clone(),
            recent: recent.clone(),
            identity: identity.clone(),
            timeout: options.timeout,
        };
        Ok(Self {
            caller,
            recent,
            remember_refusals: options.remember_refusals,
            fallback: MemoryStore::default(),
            leases: Leases::start(lender),
            synced: Synced::new(options.sync_every, &identity.get()),
            gateways: Gateways::new(options.gateways, identity),
            timeout: options.timeout,
            secret,
        })
    }

    /// Decides one request within the timeout: by what this process keeps, by a refusal that still holds, by Redis, or by
    /// each limit's [`OnFailure`].
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Decision {
        let asked = Instant::now();
        if charges
            .iter()
            .all(|charge| charge.limit.mode() == Mode::Exact)
        {
            self.decide_exactly(charges, asked).await
        } else {
            self.decide_in_modes(charges, asked).await
        }
    }

    async fn ask_or_fall_back(&self, charges: &[Charge<'_>], asked: Instant) -> Decision {
        // Boxed: whoever is decided without Redis need not make room for asking it.
        let answer = Box::pin(self.ask(charges, asked + self.timeout)).await;
        let took = asked.elapsed();
        match answer {
            Ok(mut decision) => {
                decision.call = Some(StoreCall { took, error: None });
                decision
            }
            Err(error) => {
                // A key that cannot be read says nothing of those that others are refused by.
                let is_theirs = |charge: &&Charge<'_>| charge.limit.is_shared();
                for charge in charges {
                    if !(error.is_about_keys() && is_theirs(&charge)) {
                        self.recent.unanswered(charge);
                    }
                }
                let mut decision = self.fall_back(charges);
                let error = Some(error);
                decision.call = Some(StoreCall { took, error });
                decision
            }
        }
    }

    /// Whether decisions can be had: Redis answers within the timeout, and gateways count under the same keys.
    pub async fn ready(&self) -> Result<(), StoreError> {
        let answer = tokio::time::timeout(self.timeout, self.caller.shards.ping()).await;
        answer.unwrap_or(Err(StoreError::Timeout))?;
        self.secret.check()
    }

    /// Whether this process has a connection to Redis now; in a Redis Cluster, to one of its nodes at least. Asks nobody.
    pub fn connected(&self) -> Result<(), StoreError> {
        let mut why = StoreError::Disconnected;
        for (_, shard) in self.caller.shards.all()? {
            match shard.client.connected() {
                Ok(()) => return Ok(()),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Whether Redis answers within this time. Says nothing of the secret that gateways share.
    pub async fn answers(&self, within: Duration) -> Result<(), StoreError> {
        let answer = tokio::time::timeout(within, self.caller.shards.ping()).await;
        answer.unwrap_or(Err(StoreError::Timeout))
    }

    /// Asks every server how it is: one, or each primary of a Redis Cluster that answers.
    ///
    /// # Errors
    ///
    /// No server answers in time, or the ACL forbids `INFO`.
    pub async fn info(&self) -> Result<Vec<NodeInfo>, StoreError> {
        self.caller.shards.info(self.timeout).await
    }

    /// What stands in Redis for all gateways under `<key_prefix>:secret`: `own`, if nothing did. It stays there for 64
    /// days after the last call.
    pub async fn shared_secret(&self, own: &str) -> Result<String, StoreError> {
        let Caller {
            shards, key_prefix, ..
        } = &self.caller;
        self.secret
            .shared(shards, key_prefix, own, self.timeout)
            .await
    }

    /// Lets Redis decide, or not. A store begins [agreed](Agreement::Agreed).
    pub fn set_agreement(&self, agreement: Agreement) {
        self.secret.set(agreement);
    }

    /// Whether other gateways may share this Redis: one that has just started is not counted yet.
    pub(crate) fn has_others(&self) -> bool {
        self.gateways.has_others()
    }

    /// Sends a heartbeat, and counts the gateways; to be called every [`HEARTBEAT`]. Returns the count that is in force: a
    /// higher one applies at once, a lower one when Redis has answered it for longer than a gateway may be silent.
    ///
    /// A Redis that has lost its data is told again what was counted of synced limits.
    /// A gateway that finds another process under its own ID, both resumed from one snapshot, goes on under another ID.
    pub async fn heartbeat(&self) -> Result<u64, StoreError> {
        let Caller {
            shards, key_prefix, ..
        } = &self.caller;
        let beat = self.gateways.heartbeat(shards, key_prefix, self.timeout);
        match beat.await? {
            Finding::Usual => {}
            Finding::Lost => self.synced.tell_again(),
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
        self.synced.leave_told(&self.gateways.identity().get());
        self.leases.return_all();
    }

    /// What requests hold that are under way.
    pub(crate) const fn registry(&self) -> &Registry {
        self.fallback.registry()
    }

    /// What this gateway gives away of a limit in an outage.
    pub(crate) fn share(&self, limit: &Limit) -> Quota {
        limit.quota().divided(self.gateways.count())
    }

    /// The state of limits that this process alone counts, and what outages left here.
    pub const fn fallback(&self) -> &MemoryStore {
        &self.fallback
    }

    async fn ask(&self, charges: &[Charge<'_>], until: Instant) -> Result<Decision, StoreError> {
        self.secret.check()?;
        if charges.iter().any(|charge| charge.limit.has_places()) {
            Box::pin(self.confirmed(charges, until)).await?;
        }
        let Some(answer) = self.caller.decide_at_once(charges, until).await else {
            return Box::pin(self.ask_split(charges, until)).await;
        };
        let answer = answer?;
        let call = call_of(&answer);
        for (charge, verdict) in charges.iter().zip(&answer.content.verdicts) {
            if let Some(verdict) = verdict {
                self.recent.note(charge, verdict, call);
            }
        }
        Ok(answer.content)
    }

    /// Asks about charges that no script can decide at once.
    async fn ask_split(
        &self,
        charges: &[Charge<'_>],
        until: Instant,
    ) -> Result<Decision, StoreError> {
        let Decided { decision, calls } = self.caller.decide(charges, until, &self.recent).await?;
        for ((charge, verdict), call) in charges.iter().zip(&decision.verdicts).zip(calls) {
            if let (Some(verdict), Some(call)) = (verdict, call) {
                self.recent.note(charge, verdict, call);
            }
        }
        Ok(decision)
    }

    /// What each limit's `on_failure` says: one closed one makes the request wait for better times, the local ones
    /// decide together, the open ones say nothing.
    fn fall_back(&self, charges: &[Charge<'_>]) -> Decision {
        let policy =
            |wanted: OnFailure| move |charge: &&Charge<'_>| charge.limit.on_failure() == wanted;
        let mut enforced = charges.iter().filter(|charge| !charge.limit.is_observed());
        let mut decision = if enforced.any(|charge| policy(OnFailure::Closed)(&charge)) {
            Decision {
                outcome: Outcome::Unavailable,
                via: Via::Fallback,
                now: crate::now(),
                verdicts: Verdicts::new(),
                sources: Sources::new(),
                call: None,
            }
        } else {
            let local: PerCharge<Charge<'_>> = charges
                .iter()
                .filter(policy(OnFailure::Local))
                .copied()
                .collect();
            self.decide_alone(&local)
        };
        let mut local = std::mem::take(&mut decision.verdicts).into_iter();
        decision.verdicts = charges
            .iter()
            .map(|charge| {
                let decided = charge.limit.on_failure() == OnFailure::Local;
                decided.then(|| local.next().flatten()).flatten()
            })
            .collect();
        let hold = decision.sources.first().map_or(0, |source| source.hold);
        decision.sources = Decision::sources(charges.len(), decision.now, true, hold);
        decision.via = Via::Fallback;
        decision
    }

    /// Decides here, by this gateway's share of each quota, and from what Redis last said of each key.
    fn decide_alone(&self, charges: &[Charge<'_>]) -> Decision {
        let (now, gateways) = (crate::now(), self.gateways.count());
        if charges.iter().any(|charge| charge.limit.has_places()) {
            let share = |limit: &Limit| self.share(limit);
            self.registry()
                .count_here(self.fallback.table(), share, now);
        }
        self.fallback.decide_by(charges, now, |charge| {
            let quota = charge.limit.quota().divided(gateways);
            // No other gateway has places.
            let is_known = charge.limit.has_places() && gateways == 1;
            let used = || self.recent.state(charge, &quota, now);
            Terms {
                used: (!is_known).then(used).flatten(),
                blocked_until: self.recent.blocked_until(charge, now),
                quota,
            }
        })
    }
}

//! The Redis store: one script call per request, a deadline on every call, and what decides when none answers.
//!
//! fred's types stay in [`client`]. A decision asks once: a call that timed out may still have run, so nothing is sent
//! a second time, except to a Redis that answered that it did not know the script.

mod client;
mod script;
mod secret;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use tidegate_core::{Micros, Verdict};

use crate::{
    Charge, Decision, MAX_CHARGES, MemoryStore, OnFailure, Outcome, StoreCall, StoreError,
    Verdicts, Via,
};
use client::Client;
pub use client::InvalidUrl;
use script::Scripts;
pub use secret::Agreement;
use secret::SecretState;

/// How to reach Redis, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// `redis://[user:password@]host:port[/database]`.
    pub url: String,
    /// The longest that a decision waits.
    pub timeout: Duration,
    /// What all keys start with.
    pub key_prefix: String,
}

/// Says whether `url` can be understood, without connecting.
pub fn check_url(url: &str) -> Result<(), InvalidUrl> {
    client::parse(url).map(drop)
}

/// Limiter state in Redis.
#[derive(Debug)]
pub struct RedisStore {
    client: Client,
    scripts: Scripts,
    fallback: MemoryStore,
    timeout: Duration,
    key_prefix: String,
    answering: AtomicBool,
    secret: SecretState,
}

impl RedisStore {
    /// Starts connecting in the background, and gives that as long as one connection may take; a Redis that is down
    /// does not keep a gateway from starting. Must be called inside a tokio runtime.
    pub async fn connect(options: RedisOptions) -> Result<Self, InvalidUrl> {
        let client = Client::start(&options.url, options.timeout)?;
        client.wait_for_connect().await;
        Ok(Self {
            client,
            scripts: Scripts::default(),
            fallback: MemoryStore::default(),
            timeout: options.timeout,
            key_prefix: options.key_prefix,
            answering: AtomicBool::new(true),
            secret: SecretState::default(),
        })
    }

    /// Decides one request within the timeout, by Redis or by each limit's [`OnFailure`].
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Decision {
        let asked = Instant::now();
        let answer = tokio::time::timeout(self.timeout, self.ask(charges)).await;
        let answer = answer.unwrap_or(Err(StoreError::Timeout));
        let took = asked.elapsed();
        self.note(answer.as_ref().err());
        match answer {
            Ok(mut decision) => {
                decision.call = Some(StoreCall { took, error: None });
                decision
            }
            Err(error) => {
                let mut decision = self.fall_back(charges);
                let error = Some(error);
                decision.call = Some(StoreCall { took, error });
                decision
            }
        }
    }

    /// Whether decisions can be had: Redis answers within the timeout, and gateways count under the same keys.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.secret.check()?;
        let answer = tokio::time::timeout(self.timeout, self.client.ping()).await;
        answer.unwrap_or(Err(StoreError::Timeout))
    }

    /// The state that outages left in this process.
    pub const fn fallback(&self) -> &MemoryStore {
        &self.fallback
    }

    async fn ask(&self, charges: &[Charge<'_>]) -> Result<Decision, StoreError> {
        self.secret.check()?;
        let script = self.scripts.of(charges);
        let keys = charges
            .iter()
            .map(|charge| charge.key(&self.key_prefix))
            .collect();
        let arguments = script::arguments(charges);
        let reply = script.call(&self.client, keys, arguments).await?;
        read(&reply, charges.len()).ok_or_else(|| StoreError::Refused("an unknown reply".into()))
    }

    /// What each limit's `on_failure` says: one closed one makes the request wait for better times, the local ones
    /// decide together, the open ones say nothing.
    fn fall_back(&self, charges: &[Charge<'_>]) -> Decision {
        let policy =
            |wanted: OnFailure| move |charge: &&Charge<'_>| charge.limit.on_failure() == wanted;
        let mut decision = if charges.iter().any(|c| policy(OnFailure::Closed)(&c)) {
            Decision {
                outcome: Outcome::Unavailable,
                via: Via::Fallback,
                now: crate::now(),
                verdicts: Verdicts::new(),
                call: None,
            }
        } else {
            let local: ArrayVec<Charge<'_>, MAX_CHARGES> = charges
                .iter()
                .filter(policy(OnFailure::Local))
                .copied()
                .collect();
            self.fallback.decide(&local)
        };
        let mut local = std::mem::take(&mut decision.verdicts).into_iter();
        decision.verdicts = charges
            .iter()
            .map(|charge| {
                let decided = charge.limit.on_failure() == OnFailure::Local;
                decided.then(|| local.next().flatten()).flatten()
            })
            .collect();
        decision.via = Via::Fallback;
        decision
    }

    /// Logs when Redis stops and starts deciding; not once per request.
    fn note(&self, error: Option<&StoreError>) {
        let answering = error.is_none();
        if self.answering.swap(answering, Ordering::Relaxed) == answering {
            return;
        }
        match error {
            Some(error) => {
                tracing::warn!(%error, "Redis does not decide; each limit follows its on_failure");
            }
            None => tracing::info!("Redis decides again"),
        }
    }
}

/// Reads a script's reply: the time, whether all were admitted, and five numbers per limit (lua/README.md).
fn read(reply: &[i64], charges: usize) -> Option<Decision> {
    let (head, rows) = reply.split_at_checked(2)?;
    if rows.len() != charges * 5 {
        return None;
    }
    let number = |value: i64| u64::try_from(value).ok();
    let mut verdicts = Verdicts::new();
    for row in rows.chunks_exact(5) {
        verdicts.push(Some(Verdict {
            allowed: row[0] == 1,
            remaining: number(row[1])?,
            reset: number(row[2])?,
            retry_after: number(row[3])?,
            delay: number(row[4])?,
        }));
    }
    let now: Micros = number(head[0])?;
    let outcome = if head[1] == 1 {
        Outcome::Admitted
    } else {
        Outcome::Refused
    };
    Some(Decision {
        outcome,
        via: Via::Store,
        now,
        verdicts,
        call: None,
    })
}

//! `tidegate check --connect`: tries to connect to the servers that a configuration names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::redis::RedisOptions;
use tidegate_store::{Limit, RedisStore, StoreError};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Failure, run};
use crate::keys::jwks::Jwks;
use tidegate_config::{Settings, StoreSettings};
use tidegate_upstream::{ServerSettings, reach};

/// The longest time for one decision of Redis, not counting the time to connect.
const REDIS: Duration = Duration::from_secs(2);
/// The longest time for all decisions of Redis together.
const ALL_OF_REDIS: Duration = Duration::from_secs(10);
/// The most servers that are tried at the same time.
const AT_ONCE: usize = 32;

/// An attempt to connect to Redis, a server or a key set.
#[derive(Debug)]
pub(super) struct Tried {
    what: String,
    outcome: Result<(), String>,
}

impl Tried {
    pub(super) const fn is_reached(&self) -> bool {
        self.outcome.is_ok()
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Ok(()) => write!(f, "ok: {}", self.what),
            Err(error) => write!(f, "failed: {}: {error}", self.what),
        }
    }
}

/// Tries Redis, each server of each upstream, and each key set. Takes the key sets out of the settings.
pub(super) fn try_all(settings: &mut Settings) -> Result<Vec<Tried>, Failure> {
    let mut tried = Vec::new();
    run::run_all(async {
        if let StoreSettings::Redis(options) = &settings.store {
            let what = "Redis".to_owned();
            let outcome = redis(options.clone(), &settings.limits).await;
            tried.push(Tried { what, outcome });
        }
        tried.extend(servers(settings).await);
        for set in std::mem::take(&mut settings.jwks) {
            let set = Jwks::new(set, &[]).map_err(Failure::failed)?;
            let what = format!("key set {}", set.name());
            let outcome = set.check().await;
            tried.push(Tried { what, outcome });
        }
        Ok(())
    })?;
    Ok(tried)
}

/// Makes Redis decide once for each kind of limit, on keys that no client uses.
async fn redis(options: RedisOptions, limits: &[Arc<Limit>]) -> Result<(), String> {
    let options = RedisOptions {
        timeout: REDIS,
        ..options
    };
    let store = RedisStore::connect(options).await;
    let store = store.map_err(|error| error.to_string())?;
    let checked = timeout(
        ALL_OF_REDIS,
        store.check(limits.iter().map(|limit| &**limit)),
    )
    .await;
    match checked {
        Ok(checked) => checked.map_err(|error| error.to_string()),
        Err(_) => Err(StoreError::Timeout.to_string()),
    }
}

/// Tries each server of each upstream once.
async fn servers(settings: &Settings) -> Vec<Tried> {
    let mut servers: BTreeMap<String, (ServerSettings, Duration)> = BTreeMap::new();
    for route in &settings.routes {
        let Some(upstream) = &route.upstream else {
            continue;
        };
        for server in &upstream.servers {
            let url = server.to_string();
            let what = match *upstream.name == *url {
                true => format!("upstream {url}"),
                false => format!("upstream {}: {url}", upstream.name),
            };
            servers
                .entry(what)
                .or_insert_with(|| (server.clone(), route.forward.timeouts.upstream.connect));
        }
    }
    let mut waiting = servers.into_iter();
    let (mut trying, mut tried) = (JoinSet::new(), Vec::new());
    loop {
        while trying.len() < AT_ONCE
            && let Some((what, (server, timeout))) = waiting.next()
        {
            trying.spawn(async move {
                let outcome = reach(&server, timeout).await;
                Tried { what, outcome }
            });
        }
        match trying.join_next().await {
            // If a task panics, its message is already printed, so the task is left out here.
            Some(one) => tried.extend(one),
            None => break,
        }
    }
    tried.sort_by(|one, other| one.what.cmp(&other.what));
    tried
}

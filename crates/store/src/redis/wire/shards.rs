//! Which server keeps which keys: one server for all of them, or the nodes of a Redis Cluster.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Micros;
use tokio::sync::Notify;

use super::client::{Asking, By};
use super::cluster::Cluster;
use super::failure::Failure;
use super::route::Route;
use super::script::Script;
use super::shard::{Named, Shard};
use super::slots::{slot_of, slot_of_tag};
use super::tls::Tls;
use super::url::{Target, Topology};
use crate::StoreError;

/// All servers of a store.
#[derive(Debug)]
pub(in crate::redis) enum Shards {
    /// One, wherever it is at the moment.
    One(Arc<Shard>),
    /// Many, by slot.
    Cluster(Cluster),
}

impl Shards {
    /// Starts connecting to all of them, for ever.
    pub(in crate::redis) fn start(target: Target, tls: Option<Tls>, timeout: Duration) -> Self {
        let route = Route {
            to: target.topology,
            login: target.login,
            database: target.database,
            tls: tls.filter(|_| target.tls),
            tls_name: None,
            timeout,
        };
        match &route.to {
            Topology::Cluster(seeds) => Self::Cluster(Cluster::start(seeds.clone(), route)),
            _ => Self::One(Arc::new(Shard::start(route, Arc::new(Notify::new())))),
        }
    }

    /// Waits until the first attempts to connect are over, whatever came of them.
    pub(in crate::redis) async fn tried(&self) {
        match self {
            Self::One(shard) => shard.client.tried().await,
            Self::Cluster(cluster) => cluster.tried().await,
        }
    }

    /// Whether two clients' keys may be in two places.
    pub(in crate::redis) const fn are_many(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// All servers that are known, each with its address in a Redis Cluster.
    pub(in crate::redis) fn all(&self) -> Result<Vec<Named>, StoreError> {
        match self {
            Self::One(shard) => Ok(vec![(None, shard.clone())]),
            Self::Cluster(cluster) => cluster.all(),
        }
    }

    /// The server of a client's keys, as far as is known.
    pub(in crate::redis) fn of(&self, tag: &[u8; 16]) -> Result<Arc<Shard>, StoreError> {
        match self {
            Self::One(shard) => Ok(shard.clone()),
            Self::Cluster(cluster) => cluster.of(slot_of_tag(tag)),
        }
    }

    /// The server of a key that is no client's, as far as is known.
    pub(in crate::redis) fn of_key(&self, key: &str) -> Result<Arc<Shard>, StoreError> {
        match self {
            Self::One(shard) => Ok(shard.clone()),
            Self::Cluster(cluster) => cluster.of(slot_of(key)),
        }
    }

    /// The time by the clock of the server of a client's keys, as far as is known.
    pub(in crate::redis) fn now(&self, tag: &[u8; 16]) -> Option<Micros> {
        match self {
            Self::One(shard) => shard.guard.now(),
            Self::Cluster(_) => self.of(tag).ok()?.guard.now(),
        }
    }

    /// Whether the server of a client's keys failed to answer last, or is not known.
    pub(in crate::redis) fn fails(&self, tag: &[u8; 16]) -> bool {
        self.of(tag).map_or(true, |shard| shard.guard.fails())
    }

    /// Runs a script where the keys of this client are.
    pub(in crate::redis) async fn call(
        &self,
        tag: &[u8; 16],
        script: &Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<Vec<i64>, StoreError> {
        let shard = self.of(tag)?;
        let answer = match (shard.call(script, keys, arguments, Asking::No).await, self) {
            (Err(failure), Self::Cluster(cluster)) => {
                match cluster.redirected(&shard, &failure).await {
                    Some((shard, asking)) => shard.call(script, keys, arguments, asking).await,
                    None => Err(failure),
                }
            }
            (answer, _) => answer,
        };
        answer.map_err(Failure::into_error)
    }

    /// Runs a script whose text is sent each time where these keys are, which share a slot; which server that was.
    pub(in crate::redis) async fn eval(
        &self,
        keys: &[String],
        text: &str,
        arguments: &[String],
    ) -> Result<(Arc<Shard>, Vec<i64>), StoreError> {
        let shard = self.of_key(keys.first().map_or("", String::as_str))?;
        let run = async |shard: Arc<Shard>, asking| {
            let reply = shard.client.run(By::Text(text), keys, arguments, asking);
            reply.await.map(|reply| (shard.clone(), reply))
        };
        let answer = match (run(shard.clone(), Asking::No).await, self) {
            (Err(failure), Self::Cluster(cluster)) => {
                match cluster.redirected(&shard, &failure).await {
                    Some((shard, asking)) => run(shard, asking).await,
                    None => Err(failure),
                }
            }
            (answer, _) => answer,
        };
        answer.map_err(Failure::into_error)
    }

    /// What stands under `key`: `value`, if nothing did. It expires `kept` from now.
    pub(in crate::redis) async fn set_once(
        &self,
        key: &str,
        value: &str,
        kept: Duration,
    ) -> Result<String, StoreError> {
        let shard = self.of_key(key)?;
        let answer = match (shard.client.set_once(key, value, kept).await, self) {
            // While the slot moves, its caller asks again.
            (Err(failure @ Failure::Moved(_)), Self::Cluster(cluster)) => {
                match cluster.redirected(&shard, &failure).await {
                    Some((shard, _)) => shard.client.set_once(key, value, kept).await,
                    None => Err(failure),
                }
            }
            (answer, _) => answer,
        };
        answer.map_err(Failure::into_error)
    }

    /// Whether a server answers; of a cluster it is enough if one does, since the others' clients have their own policy.
    pub(in crate::redis) async fn ping(&self) -> Result<(), StoreError> {
        match self {
            Self::One(shard) => shard.ping().await,
            Self::Cluster(cluster) => cluster.ping().await,
        }
    }
}

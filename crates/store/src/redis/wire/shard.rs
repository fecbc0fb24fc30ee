//! One Redis server that keeps a part of the keys, or all of them: its connection, and which scripts it knows.
//!
//! What is judged per server (whether to ask it at all, how many calls may wait for it) belongs here: a server of a
//! cluster that is down or slow must concern nobody whose keys are elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, Notify};

use super::client::{Asking, By, Client};
use super::confirmation::Confirmation;
use super::failure::Failure;
use super::guard::Guard;
use super::route::Route;
use super::script::{SCRIPTS, Script};
use crate::StoreError;

/// One server.
#[derive(Debug)]
pub(in crate::redis) struct Shard {
    pub(in crate::redis) client: Client,
    /// Whether decisions may ask it.
    pub(in crate::redis) guard: Guard,
    /// Whether it has all places of this process.
    pub(in crate::redis) confirmation: Confirmation,
    // Per script, by its index.
    loaders: Box<[Loader]>,
}

/// A server, with its address if it is a node of a Redis Cluster.
pub(in crate::redis) type Named = (Option<String>, Arc<Shard>);

/// How often a script was loaded here; whoever holds the lock loads.
#[derive(Debug, Default)]
struct Loader {
    loads: AtomicU64,
    loading: Mutex<()>,
}

impl Shard {
    /// Starts connecting, for ever. `changed` is told whenever the connection comes up or breaks.
    pub(in crate::redis) fn start(route: Route, changed: Arc<Notify>) -> Self {
        Self {
            guard: Guard::default(),
            confirmation: Confirmation::default(),
            client: Client::start(route, changed),
            loaders: (0..SCRIPTS).map(|_| Loader::default()).collect(),
        }
    }

    /// Whether it answers; then decisions may ask it again.
    pub(in crate::redis) async fn ping(&self) -> Result<(), StoreError> {
        self.client.ping().await?;
        self.guard.answered();
        Ok(())
    }

    /// Runs a script. If the server lost it, one caller brings it back by running it from its text, and those that found
    /// it missing meanwhile wait for that one, then try again: nothing has run, so nothing is charged twice.
    pub(in crate::redis) async fn call(
        &self,
        script: &Script,
        keys: &[String],
        arguments: &[String],
        asking: Asking,
    ) -> Result<Vec<i64>, Failure> {
        let loader = &self.loaders[script.index()];
        loop {
            let loads = loader.loads.load(Ordering::Acquire);
            match self
                .client
                .run(By::Sha(script.sha()), keys, arguments, asking)
                .await
            {
                Err(Failure::NoScript) => {}
                answer => return answer,
            }
            let _loader = loader.loading.lock().await;
            if loader.loads.load(Ordering::Acquire) != loads {
                continue;
            }
            let answer = self
                .client
                .run(By::Text(script.text()), keys, arguments, asking)
                .await;
            loader.loads.fetch_add(1, Ordering::Release);
            return answer;
        }
    }
}

//! One Redis server, which has all keys or a part of them: its connection, and its scripts.
//!
//! Each server has its own circuit breaker and its own bound on waiting calls. So a slow or dead node of a cluster does not affect clients
//! with keys on other nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};

use super::client::{Asking, By, Client};
use super::confirmation::Confirmation;
use super::error::CallError;
use super::failure::Failure;
use super::in_flight::InFlightLimit;
use super::route::Route;
use super::script::Scripts;
use super::task::Task;
use super::word::Word;

/// One server.
#[derive(Debug)]
pub struct Shard {
    /// The connection to the server.
    pub client: Arc<Client>,
    /// The bounds on calls to the server.
    pub in_flight: Arc<InFlightLimit>,
    /// Whether the server has all `concurrency` holds of this process.
    pub confirmation: Confirmation,
    scripts: Arc<Scripts>,
    // The loader of each script, by the script's number.
    loaders: Box<[Loader]>,
    #[expect(dead_code, reason = "ends the task when it is dropped")]
    watcher: Task<()>,
}

/// A server, with its address if it is a node of a Redis Cluster.
pub type Named = (Option<String>, Arc<Shard>);

/// A [`Named`] server, with hash tags whose keys it has.
pub type Tagged = (Option<String>, Arc<Shard>, Vec<[u8; 16]>);

/// The number of times that a script was loaded on this server, and the lock of the call that loads it.
#[derive(Debug, Default)]
struct Loader {
    loads: AtomicU64,
    loading: Mutex<()>,
}

impl Shard {
    /// Starts to connect, and reconnects until the shard is dropped. Notifies `changed` when the connection comes up or breaks.
    pub(crate) fn start(route: Route, scripts: Arc<Scripts>, changed: Arc<Notify>) -> Self {
        let timeout = route.timeout;
        let client = Arc::new(Client::start(route, changed));
        let in_flight = Arc::<InFlightLimit>::default();
        let watching = resolve_doubts(client.clone(), in_flight.clone(), timeout);
        Self {
            watcher: Task(tokio::spawn(watching)),
            in_flight,
            confirmation: Confirmation::default(),
            client,
            loaders: (0..scripts.count()).map(|_| Loader::default()).collect(),
            scripts,
        }
    }

    /// Runs the script with this number. If the server does not have the script, one caller sends the script's text, which Redis runs and
    /// stores. Other callers that found the script missing wait for that call, and then try again. A missing script did not run, so no
    /// charge is made twice.
    pub(crate) async fn call(
        &self,
        script: usize,
        keys: &[Word],
        arguments: &[Word],
        asking: Asking,
    ) -> Result<Vec<i64>, Failure> {
        let loader = &self.loaders[script];
        let script = self.scripts.at(script);
        loop {
            let loads = loader.loads.load(Ordering::Acquire);
            match self
                .client
                .run(By::Sha(&script.sha), keys, arguments, asking)
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
                .run(By::Text(&script.text), keys, arguments, asking)
                .await;
            loader.loads.fetch_add(1, Ordering::Release);
            return answer;
        }
    }
}

/// Resolves each doubt that short waits raise: reads the server's clock with the whole timeout of a decision. An answer shows that the
/// server works. A timeout counts as one failure of the server.
///
/// So short waits never open the circuit breaker of a server that answers within the timeout. If the server hangs and all waits are short,
/// the breaker opens after a few timeouts. There is one read at a time, because a slow server must get little load.
async fn resolve_doubts(client: Arc<Client>, in_flight: Arc<InFlightLimit>, timeout: Duration) {
    loop {
        in_flight.doubt().await;
        match client.time(timeout).await.map_err(Failure::into_error) {
            Ok(_) => in_flight.answered(),
            Err(error @ CallError::Timeout) => in_flight.failed(&error),
            // The calls themselves get this error, too.
            Err(_) => {}
        }
    }
}

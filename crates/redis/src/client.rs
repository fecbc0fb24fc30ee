//! One connection to Redis, which reconnects whenever it ends.
//!
//! A client of fred makes and serves one connection. When the connection ends, a new client replaces the old one. The new client connects
//! at once if the old connection lasted for at least a second. With a new client for each connection, no client gets stuck, and the reason
//! for a missing connection is always available.

mod cause;
mod commands;
mod sentinels;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use fred::clients::Client as Fred;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike as _, EventInterface as _};
use fred::types::{Builder, ConnectHandle};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::alive;
use super::error::CallError;
use super::route::Route;
use super::settings::{CONNECT, config, connection, performance};
use super::task::Task;
use super::url::Address;
use cause::cause;
pub use commands::sha1;
pub(crate) use commands::{Asking, By};
use sentinels::Sentinels;

/// The least pause after a failed attempt to connect, or after a connection that lasted less than `STABLE`.
const RECONNECT: Duration = Duration::from_millis(100);
/// The bound of the random time that is added to the pause, in ms, so that gateways do not reconnect at the same moment.
const JITTER_MS: u64 = 100;
/// After a connection that lasted at least this time, the next attempt is made at once.
const STABLE: Duration = Duration::from_secs(1);

/// The number that the next connection gets.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// One server, with a connection that reconnects until the `Client` is dropped.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    #[expect(dead_code, reason = "ends the tasks when it is dropped")]
    tasks: (Task<()>, Option<Task<()>>),
}

#[derive(Debug)]
struct Shared {
    fred: ArcSwapOption<Fred>,
    // Whether there is a connection, or why there is none. `None` before the first attempt to connect has ended.
    status: watch::Sender<Option<Result<(), CallError>>>,
    // The number of the current connection, or 0 without a connection.
    connection: AtomicU64,
    // The address of the connected server.
    at: Mutex<Option<Address>>,
}

impl Client {
    /// Starts to connect, and reconnects until the client is dropped. Notifies `changed` when the connection comes up or breaks.
    pub(crate) fn start(route: Route, changed: Arc<Notify>) -> Self {
        let shared = Arc::new(Shared {
            fred: ArcSwapOption::empty(),
            status: watch::Sender::new(None),
            connection: AtomicU64::new(0),
            at: Mutex::default(),
        });
        let leave = Arc::new(Notify::new());
        let sentinels = Sentinels::start(&route).map(Arc::new);
        let watcher = sentinels.clone().map(|sentinels| {
            let (shared, leave) = (shared.clone(), leave.clone());
            let connected = move || shared.at.lock().clone();
            let watching = async move { sentinels.watch(connected, leave).await };
            spawn(Box::pin(watching))
        });
        let keeping = keep(route, shared.clone(), leave, changed, sentinels);
        let keeper = spawn(Box::pin(keeping));
        Self {
            shared,
            tasks: (keeper, watcher),
        }
    }

    /// Returns the client of fred if it is connected, or the reason why it is not.
    ///
    /// Without a connection fred would queue a command until the timeout, and the decision would wait in vain.
    pub(crate) fn fred(&self) -> Result<Arc<Fred>, CallError> {
        self.shared
            .fred
            .load_full()
            .ok_or_else(|| match &*self.shared.status.borrow() {
                Some(Err(why)) => why.clone(),
                _ => CallError::Disconnected,
            })
    }

    /// Returns an error with the reason if there is no connection.
    pub fn connected(&self) -> Result<(), CallError> {
        self.fred().map(drop)
    }

    /// Whether there is a connection now.
    pub fn is_up(&self) -> bool {
        self.shared.fred.load().is_some()
    }

    /// Returns the number of the current connection, unique in this process, or 0 without a connection.
    pub fn connection(&self) -> u64 {
        self.shared.connection.load(Ordering::Relaxed)
    }

    /// Waits until the first attempt to connect has ended, whatever its result.
    pub async fn tried(&self) {
        // `self` owns the sender, so the wait cannot fail.
        let mut status = self.shared.status.subscribe();
        let _ = status.wait_for(Option::is_some).await;
    }
}

/// Spawns a boxed task. Without the box the future's type would contain itself, because each sentinel has a `Client` too.
fn spawn(task: Pin<Box<dyn Future<Output = ()> + Send>>) -> Task<()> {
    Task(tokio::spawn(task))
}

/// Connects, and reconnects whenever the connection ends.
async fn keep(
    route: Route,
    shared: Arc<Shared>,
    leave: Arc<Notify>,
    changed: Arc<Notify>,
    sentinels: Option<Arc<Sentinels>>,
) {
    for attempt in 0.. {
        let start = Instant::now();
        let ended = connect(&route, attempt, &shared, &leave, &changed).await;
        shared.connection.store(0, Ordering::Relaxed);
        let was_up = shared.fred.swap(None).is_some();
        *shared.at.lock() = None;
        if let Some(sentinels) = &sentinels {
            sentinels.tried().await;
        }
        let why = cause(&ended, &route, sentinels.as_deref());
        let before = shared.status.send_replace(Some(Err(why.clone())));
        // Only an operator can correct errors of the login and of TLS, so these errors are logged here. Failed decisions log all other
        // errors.
        if let CallError::Login(_) | CallError::Tls(_) = why
            && before.as_ref().and_then(|before| before.as_ref().err()) != Some(&why)
        {
            tracing::warn!(error = %why, "no connection to Redis");
        }
        if was_up {
            changed.notify_one();
        }
        if !was_up || start.elapsed() < STABLE {
            tokio::time::sleep(RECONNECT + jitter()).await;
        }
    }
}

/// Makes one connection. Returns when the connection has ended, when it is dead, or when `leave` is notified.
async fn connect(
    route: &Route,
    attempt: usize,
    shared: &Shared,
    leave: &Notify,
    changed: &Notify,
) -> Error {
    let built = Builder::from_config(config(route, attempt))
        .set_connection_config(connection())
        .set_performance_config(performance(route.timeout))
        // fred gets no reconnect policy, because `keep` reconnects.
        .build();
    let fred = match built {
        Ok(fred) => fred,
        Err(error) => return error,
    };
    let mut comes_up = fred.reconnect_rx();
    let mut task = Task(fred.connect());
    let server = tokio::select! {
        ended = &mut task.0 => return outcome(ended),
        server = comes_up.recv() => server,
    };
    *shared.at.lock() = server.ok().map(|server| Address {
        host: server.host.to_string(),
        port: server.port,
    });
    let fred = Arc::new(fred);
    let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
    // The number is set before the first command is sent over the connection.
    shared.connection.store(number, Ordering::Relaxed);
    shared.fred.store(Some(fred.clone()));
    shared.status.send_replace(Some(Ok(())));
    changed.notify_one();
    // A PING may take twice the timeout of decisions, so that a slow server does not count as dead.
    let patience = CONNECT.max(2 * route.timeout);
    tokio::select! {
        ended = &mut task.0 => outcome(ended),
        () = leave.notified() => Error::new(ErrorKind::Canceled, ""),
        () = alive::until_silent(&fred, patience) => Error::new(ErrorKind::Canceled, ""),
    }
}

fn outcome(ended: <ConnectHandle as Future>::Output) -> Error {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) | Err(_) => Error::new(ErrorKind::Canceled, ""),
    }
}

fn jitter() -> Duration {
    use std::hash::{BuildHasher as _, RandomState};
    Duration::from_millis(RandomState::new().hash_one(0) % JITTER_MS)
}

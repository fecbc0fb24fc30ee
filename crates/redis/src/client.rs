//! One connection to Redis that is made again whenever it ends.
//!
//! The fred client makes one connection and drives it. When it ends, for whatever reason, a new client takes its place here, at
//! once if the old one was good for a while. So there is no client that is stuck, and why there is no connection is always known.

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
pub(crate) use commands::{Asking, By, sha1};
use sentinels::Sentinels;

/// How long to wait between attempts, and how much longer at random, so that gateways do not come in step.
const RECONNECT: Duration = Duration::from_millis(100);
const JITTER_MS: u64 = 100;
/// After a connection that held for so long, the next attempt is made at once.
const STABLE: Duration = Duration::from_secs(1);

/// The number of the next connection.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// One server, asked over a connection that comes back by itself until this is dropped.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    #[expect(dead_code, reason = "ends the tasks when it is dropped")]
    tasks: (Task<()>, Option<Task<()>>),
}

#[derive(Debug)]
struct Shared {
    fred: ArcSwapOption<Fred>,
    // None until the first attempt is over.
    status: watch::Sender<Option<Result<(), CallError>>>,
    // The number of the connection; 0: there is none.
    connection: AtomicU64,
    // Where the connection goes.
    at: Mutex<Option<Address>>,
}

impl Client {
    /// Starts connecting, for ever. `changed` is told whenever the connection comes up or breaks.
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

    /// The client, if it is connected; if not, why.
    ///
    /// Without a connection fred would queue a command until its timeout; a decision has better things to do.
    pub(crate) fn fred(&self) -> Result<Arc<Fred>, CallError> {
        self.shared
            .fred
            .load_full()
            .ok_or_else(|| match &*self.shared.status.borrow() {
                Some(Err(why)) => why.clone(),
                _ => CallError::Disconnected,
            })
    }

    /// Whether there is a connection; if not, why.
    pub fn connected(&self) -> Result<(), CallError> {
        self.fred().map(drop)
    }

    /// Whether there is a connection now.
    pub fn is_up(&self) -> bool {
        self.shared.fred.load().is_some()
    }

    /// The number of the connection: no two of this process have the same; 0: there is none.
    pub fn connection(&self) -> u64 {
        self.shared.connection.load(Ordering::Relaxed)
    }

    /// Waits until the first attempt is over, whatever came of it.
    pub async fn tried(&self) {
        // The sender lives as long as this.
        let mut status = self.shared.status.subscribe();
        let _ = status.wait_for(Option::is_some).await;
    }
}

/// Spawns a boxed task: sentinels are connections too, whose futures would otherwise contain themselves.
fn spawn(task: Pin<Box<dyn Future<Output = ()> + Send>>) -> Task<()> {
    Task(tokio::spawn(task))
}

/// Connects again and again.
async fn keep(
    route: Route,
    shared: Arc<Shared>,
    leave: Arc<Notify>,
    changed: Arc<Notify>,
    sentinels: Option<Arc<Sentinels>>,
) {
    for attempt in 0.. {
        let asked = Instant::now();
        let ended = connect(&route, attempt, &shared, &leave, &changed).await;
        shared.connection.store(0, Ordering::Relaxed);
        let was_up = shared.fred.swap(None).is_some();
        *shared.at.lock() = None;
        if let Some(sentinels) = &sentinels {
            sentinels.tried().await;
        }
        let why = cause(&ended, &route, sentinels.as_deref());
        let before = shared.status.send_replace(Some(Err(why.clone())));
        // Waiting does not help against these. Whatever comes and goes by itself is told by the decisions that it costs.
        if let CallError::Login(_) | CallError::Tls(_) = why
            && before.as_ref().and_then(|before| before.as_ref().err()) != Some(&why)
        {
            tracing::warn!(error = %why, "no connection to Redis");
        }
        if was_up {
            changed.notify_one();
        }
        if !was_up || asked.elapsed() < STABLE {
            tokio::time::sleep(RECONNECT + jitter()).await;
        }
    }
}

/// Makes one connection and stays until it ends or is to be left.
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
        // Whether to connect again is decided here.
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
    // Before anything is asked over it.
    shared.connection.store(number, Ordering::Relaxed);
    shared.fred.store(Some(fred.clone()));
    shared.status.send_replace(Some(Ok(())));
    changed.notify_one();
    // Well after the last decision that waits for an answer has given up.
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

//! Times at which this machine or a server was too busy for a trial. At such times, an answer may be late without a fault.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;

use crate::RedisConnection;

/// The pause between two tests of the machine and the servers.
const EVERY: Duration = Duration::from_millis(5);

/// The shortest delay that counts as a stall.
const LATE: Duration = Duration::from_millis(30);

/// A callback that records a stall: its kind, its start and its end.
type Note = dyn Fn(&'static str, SystemTime, SystemTime) + Send + Sync;

/// Watches the machine and these servers until it is dropped.
pub async fn watch(servers: Vec<SocketAddr>, note: Arc<Note>) {
    let mut watching = JoinSet::new();
    for server in servers {
        let note = Arc::clone(&note);
        watching.spawn(async move { answers(&*note, server).await });
    }
    timers(&*note).await;
}

async fn timers(note: &Note) {
    loop {
        let begin = SystemTime::now();
        tokio::time::sleep(EVERY).await;
        since(begin, "stall", note);
    }
}

async fn answers(note: &Note, server: SocketAddr) {
    loop {
        let mut begin = SystemTime::now();
        if let Ok(mut connection) = RedisConnection::open(server).await {
            while connection.command(&["PING"]).await.is_ok() {
                since(begin, "slow Redis", note);
                tokio::time::sleep(4 * EVERY).await;
                begin = SystemTime::now();
            }
        }
        tokio::time::sleep(EVERY).await;
        since(begin, "no Redis", note);
    }
}

/// Records a stall from `begin` until now, if this time is long enough.
fn since(begin: SystemTime, kind: &'static str, note: &Note) {
    let end = SystemTime::now();
    if end.duration_since(begin).is_ok_and(|took| took > LATE) {
        note(kind, begin, end);
    }
}

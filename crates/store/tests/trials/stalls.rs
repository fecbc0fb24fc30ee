//! Notes when this machine, or Redis, has no time for a trial: then nothing can be in time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Micros;
use tidegate_testkit::RedisConnection;
use tokio::task::JoinSet;

use crate::history::{Span, Trouble};
use crate::machine::{Log, now};

/// How often that is tried.
const EVERY: Duration = Duration::from_millis(5);

/// What takes longer than that is noted.
const LATE: Micros = 30_000;

/// Watches until it is dropped.
pub(crate) async fn watch(log: Arc<Log>, servers: Vec<SocketAddr>) {
    let mut watching = JoinSet::new();
    for server in servers {
        let log = log.clone();
        watching.spawn(async move { answers(&log, server).await });
    }
    timers(&log).await;
}

async fn timers(log: &Log) {
    loop {
        let begin = now();
        tokio::time::sleep(EVERY).await;
        note(log, "stall", begin);
    }
}

async fn answers(log: &Log, redis: SocketAddr) {
    loop {
        let mut begin = now();
        if let Ok(mut connection) = RedisConnection::open(redis).await {
            while connection.command(&["PING"]).await.is_ok() {
                note(log, "slow Redis", begin);
                tokio::time::sleep(4 * EVERY).await;
                begin = now();
            }
        }
        tokio::time::sleep(EVERY).await;
        note(log, "no Redis", begin);
    }
}

/// Notes what took from then until now, if that was long.
fn note(log: &Log, kind: &'static str, begin: Micros) {
    let end = now();
    if end - begin > LATE {
        let gateway = None;
        let span = Span { begin, end };
        let trouble = Trouble {
            gateway,
            kind,
            span,
        };
        log.troubles.lock().unwrap().push(trouble);
    }
}

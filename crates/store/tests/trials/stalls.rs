//! Notes when this machine, or Redis, has no time for a trial: then nothing can be in time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Micros;
use tidegate_testkit::RedisConnection;

use crate::history::{Span, Trouble};
use crate::machine::{Log, now};

/// How often that is tried.
const EVERY: Duration = Duration::from_millis(5);

/// What takes longer than that is noted.
const LATE: Micros = 30_000;

/// Watches until it is dropped.
pub(crate) async fn watch(log: Arc<Log>, redis: Option<SocketAddr>) {
    tokio::join!(timers(&log), async {
        if let Some(redis) = redis {
            answers(&log, redis).await;
        }
    });
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

//! Makes the faults of a trial happen, and notes when they did.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Micros;

use crate::case::{Fault, Mishap};
use crate::gateway::Life;
use crate::history::Span;
use crate::machine::{Trial, now};

/// Makes one fault happen.
pub(crate) async fn run(trial: Arc<Trial>, fault: Fault) {
    trial.until(fault.at).await;
    let begin = now();
    let gateway = trial.gateway(fault.gateway);
    let name = fault.what.name();
    if fault.what.is_of_server() {
        of_server(&trial, fault.what, begin).await;
        return trial.trouble(None, name, begin);
    }
    match fault.what {
        Mishap::Calls { fault, skip, times } => {
            let Some(proxy) = &gateway.proxy else { return };
            for nth in 0..times {
                proxy.strike(skip + nth, fault);
            }
            // When they strike is noted by the proxy.
            return;
        }
        Mishap::Cut => gateway.proxy.iter().for_each(|proxy| proxy.reset()),
        Mishap::Paused(time) => {
            gateway.pause(true);
            wait(time).await;
            gateway.pause(false);
        }
        Mishap::GatewayKilled | Mishap::GatewayEnded => {
            if *gateway.life.borrow() != Life::Runs {
                return;
            }
            if fault.what == Mishap::GatewayKilled {
                gateway.kill(&trial.log).await;
            } else {
                gateway.end(&trial.log).await;
            }
            trial.replace(fault.gateway).await;
        }
        _ => {}
    }
    trial.trouble(Some(gateway.number), name, begin);
}

/// Lets Redis, which is away since then, come back after so many ms.
pub(crate) async fn away(trial: Arc<Trial>, time: u64, since: Micros) {
    let Some(redis) = &trial.fleet.server else {
        return;
    };
    let _one = trial.server_fault.lock().await;
    wait(time).await;
    redis.restart().await;
    trial.trouble(None, "away at the start", since);
}

async fn of_server(trial: &Trial, what: Mishap, begin: Micros) {
    let Some(redis) = &trial.fleet.server else {
        return;
    };
    // One at a time: a server that is stopped cannot be killed as well.
    let _one = trial.server_fault.lock().await;
    match what {
        Mishap::Frozen(time) => {
            redis.pause().await;
            wait(time).await;
            redis.resume();
        }
        Mishap::ClientsPaused(time) => {
            let time = time.to_string();
            redis.command(&["CLIENT", "PAUSE", &time, "ALL"]).await;
            redis.command(&["PING"]).await;
        }
        Mishap::Killed(time) | Mishap::Emptied(time) => {
            redis.stop();
            if matches!(what, Mishap::Emptied(_)) {
                let _ = std::fs::remove_dir_all(redis.dir().join("appendonlydir"));
            }
            wait(time).await;
            redis.restart().await;
            if matches!(what, Mishap::Emptied(_)) {
                let end = now();
                trial.log.losses.lock().unwrap().push(Span { begin, end });
            }
        }
        Mishap::ScriptsFlushed => drop(redis.command(&["SCRIPT", "FLUSH"]).await),
        Mishap::ClientsKilled => drop(redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).await),
        _ => {}
    }
}

async fn wait(time: u64) {
    tokio::time::sleep(Duration::from_millis(time)).await;
}

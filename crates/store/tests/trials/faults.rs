//! Makes the faults of a trial happen, and notes their times.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Micros;
use tidegate_testkit::{RedisCluster, RedisSentinels};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::case::{Fault, Mishap};
use crate::gateway::Life;
use crate::history::{Loss, Span, Step};
use crate::machine::{Trial, key_of, now};

/// Makes one fault happen.
pub(crate) async fn run(trial: Arc<Trial>, fault: Fault) {
    trial.until(fault.at).await;
    let begin = now();
    let gateway = trial.gateway(fault.gateway);
    let name = fault.what.name();
    if fault.what.is_of_cluster() {
        of_cluster(&trial, fault.what, begin).await;
        return trial.trouble(None, name, begin);
    }
    if fault.what.is_of_sentinels() {
        of_sentinels(&trial, fault.what, begin).await;
        return trial.trouble(None, name, begin);
    }
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
            // The proxy notes the times of these faults.
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

/// Lets Redis come back after this number of ms. Redis has been away since `since`.
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
    // Only one fault at a time is possible: for example, a stopped server cannot be killed.
    let _one = trial.server_fault.lock().await;
    match what {
        Mishap::Frozen(time) => {
            redis.pause().await;
            let begin = now();
            wait(time).await;
            let span = Span { begin, end: now() };
            redis.resume();
            trial.log.outages.lock().unwrap().push(span);
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
                let span = Span { begin, end };
                let is_whole = true;
                let loss = Loss { span, is_whole };
                trial.log.losses.lock().unwrap().push(loss);
            }
        }
        Mishap::ClockStepped(by) => {
            let begin = now();
            let ahead = trial.clock_ahead() + by * 1_000;
            redis.step_clock(ahead / 1_000);
            let end = now();
            let span = Span { begin, end };
            trial.log.steps.lock().unwrap().push(Step { span, ahead });
        }
        Mishap::ScriptsFlushed => drop(redis.command(&["SCRIPT", "FLUSH"]).await),
        Mishap::ClientsKilled => drop(redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).await),
        _ => {}
    }
}

async fn of_sentinels(trial: &Trial, what: Mishap, begin: Micros) {
    let Some(sentinels) = trial.fleet.sentinels.clone() else {
        return;
    };
    let _one = trial.server_fault.lock().await;
    // The wait for sentinels must stay on one thread.
    let runtime = Handle::current();
    let done = spawn_blocking(move || runtime.block_on(on_sentinels(&sentinels, what)));
    let loses = done.await.unwrap();
    if loses {
        let (end, is_whole) = (now(), false);
        let span = Span { begin, end };
        let loss = Loss { span, is_whole };
        trial.log.losses.lock().unwrap().push(loss);
    }
}

/// Makes the fault happen. Returns whether writes of this time may be lost.
async fn on_sentinels(sentinels: &RedisSentinels, what: Mishap) -> bool {
    let primary = sentinels.primary().await;
    let mut servers = 0..3;
    let index = servers.find(|nth| sentinels.server(*nth).port() == primary.port());
    match what {
        Mishap::SentinelsAsked => sentinels.fail_over().await,
        Mishap::SentinelsBehind(time) => {
            let behind = Duration::from_millis(time);
            sentinels.fail_over_behind(behind).await;
        }
        Mishap::PrimaryKilled => sentinels.kill_primary().await,
        Mishap::PrimaryFrozen(time) => {
            primary.pause().await;
            wait(time).await;
            primary.resume();
            sentinels.in_order().await;
            // The sentinels may have taken the frozen primary for dead.
            return sentinels.primary().await.port() != primary.port();
        }
        _ => {
            primary.command(&["SCRIPT", "FLUSH"]).await;
            return false;
        }
    }
    sentinels.demote(index.unwrap()).await;
    true
}

async fn of_cluster(trial: &Trial, what: Mishap, begin: Micros) {
    let Some(cluster) = trial.fleet.cluster.clone() else {
        return;
    };
    let _one = trial.server_fault.lock().await;
    // The wait for a cluster must stay on one thread.
    let runtime = Handle::current();
    let done = spawn_blocking(move || runtime.block_on(on_cluster(&cluster, what)));
    done.await.unwrap();
    if matches!(what, Mishap::Promoted(..)) {
        let (end, is_whole) = (now(), false);
        let span = Span { begin, end };
        let loss = Loss { span, is_whole };
        trial.log.losses.lock().unwrap().push(loss);
    }
}

async fn on_cluster(cluster: &RedisCluster, what: Mishap) {
    let (Mishap::SlotMoved(key)
    | Mishap::FailedOver(key)
    | Mishap::Promoted(key, _)
    | Mishap::NodeFlushed(key)
    | Mishap::NodeFrozen(key, _)) = what
    else {
        return;
    };
    let tag = u128::from_be_bytes(key_of(key).tag);
    let Some((node, slot)) = cluster.home(&format!("{{{tag:032x}}}")).await else {
        return;
    };
    match what {
        Mishap::SlotMoved(_) => {
            let others = cluster.primaries().await;
            let Some(to) = others.into_iter().find(|other| *other != node) else {
                return;
            };
            cluster.move_slots(node, to, slot..slot + 1).await;
        }
        Mishap::FailedOver(_) => cluster.fail_over(node).await,
        Mishap::Promoted(_, time) => {
            let behind = Duration::from_millis(time);
            cluster.promote_behind(node, behind).await;
        }
        Mishap::NodeFlushed(_) => {
            cluster.node(node).command(&["SCRIPT", "FLUSH"]).await;
        }
        Mishap::NodeFrozen(_, time) => {
            cluster.node(node).pause().await;
            wait(time).await;
            cluster.node(node).resume();
        }
        _ => {}
    }
}

async fn wait(time: u64) {
    tokio::time::sleep(Duration::from_millis(time)).await;
}

//! Makes the faults of a trial happen, and notes when they did.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Micros;
use tidegate_testkit::RedisSentinels;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::case::{Fault, Mishap};
use crate::gateway::Gateway;
use crate::history::{Span, Step};
use crate::machine::{Trial, now};

/// The folder of a server's data.
const DATA: &str = "appendonlydir";

/// Makes one fault happen.
pub(crate) async fn run(trial: Arc<Trial>, fault: Fault) {
    trial.until(fault.at).await;
    let begin = now();
    let name = fault.mishap.name();
    if fault.mishap.is_of_sentinels() {
        of_sentinels(&trial, fault.mishap).await;
        return trial.trouble(None, name, begin);
    }
    if fault.mishap.is_of_server() {
        of_server(&trial, fault.mishap).await;
        return trial.trouble(None, name, begin);
    }
    let gateway = trial.gateway(fault.gateway);
    of_gateway(&trial, &gateway, &fault).await;
    trial.trouble(Some(gateway.number), name, begin);
}

async fn of_gateway(trial: &Trial, gateway: &Gateway, fault: &Fault) {
    let proxy = gateway.proxy.as_ref();
    match fault.mishap {
        Mishap::Calls { fault, skip, times } => {
            for nth in 0..times {
                proxy.unwrap().strike(skip + nth, fault);
            }
        }
        Mishap::Reset => proxy.unwrap().reset(),
        Mishap::CutOff(time) => {
            proxy.unwrap().refuse().await;
            proxy.unwrap().reset();
            wait(time).await;
            proxy.unwrap().accept();
        }
        Mishap::Stalled(time) => {
            proxy.unwrap().hold(true);
            wait(time).await;
            proxy.unwrap().hold(false);
        }
        Mishap::Paused(time) => {
            gateway.is_paused.send_replace(true);
            wait(time).await;
            gateway.is_paused.send_replace(false);
        }
        Mishap::PausedAndCutOff(time) => {
            gateway.is_paused.send_replace(true);
            proxy.unwrap().refuse().await;
            proxy.unwrap().reset();
            wait(time).await;
            proxy.unwrap().accept();
            gateway.is_paused.send_replace(false);
        }
        Mishap::Killed(time) => {
            trial.end(gateway).await;
            wait(time).await;
            trial.replace(fault.gateway).await;
        }
        _ => {}
    }
}

/// Lets Redis come back, which is away since the start.
pub(crate) async fn away(trial: Arc<Trial>, time: u64, since: Micros) {
    let Some(redis) = &trial.fleet.server else {
        return;
    };
    let _one = trial.server_fault.lock().await;
    wait(time).await;
    redis.restart().await;
    trial.trouble(None, "away at the start", since);
}

async fn of_server(trial: &Trial, mishap: Mishap) {
    let Some(redis) = &trial.fleet.server else {
        return;
    };
    // One at a time: a server that is stopped cannot be killed as well.
    let _one = trial.server_fault.lock().await;
    let begin = now();
    let data = redis.dir().join(DATA);
    match mishap {
        Mishap::RedisFrozen(time) => {
            redis.pause().await;
            wait(time).await;
            redis.resume();
        }
        Mishap::RedisKilled(time) => {
            redis.stop();
            wait(time).await;
            redis.restart().await;
        }
        Mishap::RedisEmptied(time) => {
            redis.stop();
            let _ = std::fs::remove_dir_all(&data);
            wait(time).await;
            redis.restart().await;
            trial.lost(begin);
        }
        Mishap::RedisOlder(time) => {
            let older = redis.dir().join("older");
            copy(&data, &older);
            wait(time).await;
            redis.stop();
            copy(&older, &data);
            redis.restart().await;
            trial.lost(begin);
        }
        Mishap::ClockStepped(by) => {
            let ahead = trial.clock_ahead() + by * 1_000;
            redis.step_clock(ahead / 1_000);
            let end = now();
            let span = Span { begin, end };
            trial.log.lock().unwrap().steps.push(Step { span, ahead });
        }
        _ => {}
    }
}

/// Makes one folder of files a copy of another.
fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).unwrap();
    let Ok(files) = std::fs::read_dir(from) else {
        return;
    };
    for file in files {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

async fn of_sentinels(trial: &Trial, mishap: Mishap) {
    let Some(sentinels) = trial.fleet.sentinels.clone() else {
        return;
    };
    let _one = trial.server_fault.lock().await;
    let begin = now();
    // The futures of sentinels stay on one thread.
    let runtime = Handle::current();
    let done = spawn_blocking(move || runtime.block_on(on_sentinels(&sentinels, mishap)));
    done.await.unwrap();
    trial.lost(begin);
}

async fn on_sentinels(sentinels: &RedisSentinels, mishap: Mishap) {
    let primary = sentinels.primary().await.port();
    let mut servers = 0..3;
    let index = servers.find(|nth| sentinels.server(*nth).port() == primary);
    match mishap {
        Mishap::FailedOver => sentinels.fail_over().await,
        Mishap::FailedOverBehind(time) => {
            let behind = Duration::from_millis(time);
            sentinels.fail_over_behind(behind).await;
        }
        _ => sentinels.kill_primary().await,
    }
    sentinels.demote(index.unwrap()).await;
}

async fn wait(time: u64) {
    tokio::time::sleep(Duration::from_millis(time)).await;
}

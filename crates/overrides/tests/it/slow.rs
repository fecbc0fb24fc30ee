//! A Redis that takes its time.

use std::time::Duration;

use tidegate_overrides::Action;
use tidegate_testkit::{CallFault, RedisProxy, RedisServer};

use crate::support::{action, change, clear, connect, plan, set};

/// Several times what decisions wait for.
const LATE: Duration = Duration::from_millis(300);

/// No request waits for these scripts, so they have a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_may_come_later_than_decisions_wait() {
    let server = RedisServer::start().await;
    let proxy = RedisProxy::start(server.addr());
    let (one, _) = connect(&format!("redis://{}", proxy.addr())).await;
    let late = || proxy.strike(0, CallFault::AnsweredLate(LATE));
    late();
    set(&one, "user_id:1", plan("gold")).await;
    late();
    change(&one, clear("user_id:1")).await;
    set(&one, "user_id:2", Action::Block).await;
    server.command(&["FLUSHALL"]).await;
    // What changed, all of it, and the two calls that restore.
    for _ in 0..3 {
        late();
    }
    one.sync().await.unwrap();
    assert_eq!(proxy.struck().len(), 5);
    let (other, _) = connect(&server.url()).await;
    other.sync().await.unwrap();
    assert_eq!(action(&other, "user_id:2"), Some(Action::Block));
}

//! Users, sockets and sentinels: where else a Redis may be, and who may ask it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_store::{Limit, OnFailure, Outcome, RedisStore, Via};
use tidegate_testkit::{RedisSentinels, RedisServer};

use crate::support::{
    PATIENCE, charge, code_of, connect, counts_exactly, decides, error_of, every_algorithm,
    options, quiet_window, ready, wait_for,
};
use crate::synced_cluster::counts_meet;

const TIMEOUT: Duration = Duration::from_millis(500);

/// All that a gateway asks of one Redis; lua/README.md tells users.
pub(crate) const COMMANDS: &str = "-@all +ping +client|id +info +evalsha +eval +set +expire +get +getrange +time \
    +rpush +llen +lindex +ltrim +del +unlink +pexpire +zadd +zcard +zcount +zrange +zrangebyscore \
    +zscore +zincrby +zrem +zremrangebyrank +hget +hgetall +hlen +hrandfield +hset +hdel +scan";

/// Makes the user `gate` with the password `hunter2`, who may do this and no more.
pub(crate) async fn allow(server: &RedisServer, commands: &str) {
    let rule = format!("ACL SETUSER gate on >hunter2 ~tidegate:* {commands}");
    let words: Vec<&str> = rule.split_whitespace().collect();
    let reply = server.command(&words).await;
    assert!(!reply.is_error(), "{reply:?}");
}

#[tokio::test]
async fn a_unix_socket() {
    let server = RedisServer::start_with(&["--unixsocket", "redis.sock"]).await;
    let path = server.dir().join("redis.sock");
    let store = connect(&format!("unix://{}?db=3", path.display()), TIMEOUT).await;
    decides(&store, 0).await;
    counts_exactly(&store, 1..4).await;
    let keys = server.command(&["INFO", "keyspace"]).await;
    assert!(keys.as_str().contains("db3:keys=16"), "{keys:?}");
    server.stop();
    wait_for("an outage", async || {
        (!is_ready(&store).await).then_some(())
    })
    .await;
    server.restart().await;
    decides(&store, 0).await;
}

#[tokio::test]
async fn a_user_with_no_more_than_these_commands() {
    let server = RedisServer::start().await;
    allow(&server, COMMANDS).await;
    let url = |user: &str, password: &str| format!("redis://{user}:{password}@{}/0", server.addr());
    let store = connect(&url("gate", "hunter2"), TIMEOUT).await;
    decides(&store, 0).await;
    counts_exactly(&store, 1..4).await;
    assert_eq!(ready(&store).await, Ok(()));
    assert_eq!(store.shared_secret("one").await, Ok("one".into()));
    assert_eq!(store.shared_secret("two").await, Ok("one".into()));
    assert_eq!(store.heartbeat().await, Ok(1));
    counts_meet(&url("gate", "hunter2")).await;
    // Nothing was tried in vain that the log of refusals would show.
    let refused = server.command(&["ACL", "LOG"]).await;
    assert!(refused.as_array().is_empty(), "{refused:?}");

    // A password that changes is seen at once on new connections, and the right one heals by itself.
    for (user, password) in [("gate", "wrong-hunter2"), ("nobody", "hunter2")] {
        let store = connect(&url(user, password), TIMEOUT).await;
        let error = ready(&store).await.unwrap_err();
        assert_eq!(code_of(&error), Some("WRONGPASS"));
        let shown = format!("{error} {error:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("nobody"),
            "{shown}"
        );
        let closed = Limit::new(
            "closed",
            every_algorithm(5, quiet_window())[0],
            OnFailure::Closed,
        );
        let decision = store.decide(&[charge(&closed, 1, 1)]).await;
        assert_eq!(decision.outcome, Outcome::Unavailable);
        assert_eq!(error_of(&decision), Some(error));
        let right = format!("ACL SETUSER {user} on >{password} ~* +@all");
        let words: Vec<&str> = right.split_whitespace().collect();
        assert!(!server.command(&words).await.is_error());
        decides(&store, 0).await;
    }
}

#[tokio::test]
async fn a_server_without_the_password_that_is_given() {
    let server = RedisServer::start_with(&["--requirepass", "other"]).await;
    let store = connect(&format!("redis://{}", server.addr()), TIMEOUT).await;
    let error = ready(&store).await.unwrap_err();
    assert_eq!(code_of(&error), Some("NOAUTH"));
    let store = connect(&format!("redis://:other@{}", server.addr()), TIMEOUT).await;
    assert_eq!(ready(&store).await, Ok(()));
    let server = RedisServer::start().await;
    let store = connect(&format!("redis://gate:hunter2@{}", server.addr()), TIMEOUT).await;
    let error = ready(&store).await.unwrap_err();
    assert_eq!(code_of(&error), Some("WRONGPASS"));
}

#[test]
fn a_store_without_authorities_or_with_a_bad_url_is_refused() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let refused = runtime.block_on(RedisStore::connect(options("redis://", TIMEOUT)));
    assert!(refused.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_lead_to_the_primary_whoever_it_is() {
    let all = RedisSentinels::start().await;
    for nth in 0..3 {
        // Not enough to see who the primary is.
        allow(all.server(nth), COMMANDS).await;
        let asked =
            "-@all +ping +client|id +info +sentinel|get-master-addr-by-name +sentinel|sentinels";
        allow(all.sentinel(nth), asked).await;
    }
    let url = all.url(0).replace("://", "://gate:hunter2@");
    let url = format!("{url}&sentinelUsername=gate&sentinelPassword=hunter2");
    let store = Arc::new(connect(&url, TIMEOUT).await);
    let error = ready(&store).await.unwrap_err();
    assert_eq!(code_of(&error), Some("NOPERM"));
    assert!(error.to_string().contains("`+role`"), "{error}");
    for nth in 0..3 {
        allow(all.server(nth), "+role").await;
    }
    decides(&store, 0).await;
    counts_exactly(&store, 1..4).await;
    let refused = all.sentinel(0).command(&["ACL", "LOG"]).await;
    assert!(refused.as_array().is_empty(), "{refused:?}");

    // By accident, and with the first sentinel hung, which the store asks first.
    all.sentinel(0).pause().await;
    let watch = tokio::spawn(worst_gap(store.clone()));
    all.primary().await.stop();
    let gap = watch.await.unwrap();
    eprintln!("kill -9: {gap:?} without Redis");
    assert!(gap < Duration::from_secs(10), "{gap:?}");
    counts_exactly(&store, 20..24).await;
    all.sentinel(0).resume();

    // In order: the old primary goes on taking writes for ten seconds, all of them lost, and is left long before.
    let before = all.primary().await.port();
    all.fail_over().await;
    let now = all.primary().await;
    assert_ne!(now.port(), before);
    let began = Instant::now();
    let local = Limit::new(
        "local",
        every_algorithm(5, quiet_window())[2],
        OnFailure::Local,
    );
    let key = charge(&local, 8, 1).redis_key("tidegate");
    wait_for("decisions by the new primary", async || {
        let decision = store.decide(&[charge(&local, 8, 1)]).await;
        assert_ne!(decision.outcome, Outcome::Unavailable);
        let known = now.command(&["EXISTS", &key]).await.as_int();
        (known == 1).then_some(())
    })
    .await;
    let took = began.elapsed();
    eprintln!("SENTINEL FAILOVER: the new primary decides after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    decides(&store, 0).await;
    counts_exactly(&store, 10..14).await;
}

/// Decides under `local` for as long as it takes for Redis to be lost and to decide again, all of it without an error. Returns how
/// long Redis did not decide.
async fn worst_gap(store: Arc<RedisStore>) -> Duration {
    let local = Limit::new(
        "local",
        every_algorithm(1_000_000, quiet_window())[2],
        OnFailure::Local,
    );
    let (began, mut lost) = (Instant::now(), None::<Instant>);
    loop {
        assert!(
            began.elapsed() < PATIENCE,
            "lost since {lost:?}: {:?}",
            ready(&store).await
        );
        let decision = store.decide(&[charge(&local, 7, 1)]).await;
        assert_eq!(decision.outcome, Outcome::Admitted, "{decision:?}");
        match (decision.via, lost) {
            (Via::Fallback, None) => lost = Some(Instant::now()),
            (Via::Store, Some(since)) => return since.elapsed(),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn is_ready(store: &RedisStore) -> bool {
    ready(store).await.is_ok()
}

//! A Redis that is reached and cannot decide, or is not reached for a reason: the log, `/readyz` and `check --connect` have the
//! cause in Redis's own words, and how to end it.

use tidegate_testkit::{
    Authority, Client, OldRedis, Port, RedisCluster, RedisSentinels, RedisServer, Silent, TlsRedis,
    Upstream,
};

use crate::kit::{LONG, get_each, ready};
use crate::redis_unreachable::check;
use crate::support::GatewayProcess;

/// All that a gateway asks of one Redis.
const COMMANDS: &str = "-@all +ping +client|id +info +evalsha +eval +set +expire +get +getrange +time +rpush +llen \
    +lindex +ltrim +del +unlink +pexpire +zadd +zcard +zcount +zrange +zrangebyscore +zscore +zincrby +zrem \
    +zremrangebyrank +hget +hgetall +hlen +hrandfield +hset +hdel +scan";

fn yaml(redis: &str, upstream: &str) -> String {
    format!(
        "
store: {{ redis: {{ url: \"{redis}\", timeout: 1s, on_failure: closed }} }}
limits: {{ it: {{ fixed_window: {{ limit: 1000, window: 31d }} }} }}
routes: [{{ path: /**, upstream: \"{upstream}\", limits: [it] }}]
"
    )
}

/// The line of `check --connect` about this Redis, which must have failed.
async fn failed(redis: &str) -> String {
    let upstream = Upstream::ok();
    let (status, out, _) = check(&yaml(redis, &upstream.url()), &["--connect"]).await;
    let line = out.lines().find(|line| line.contains(": Redis"));
    let line = line.unwrap_or_else(|| panic!("{out}")).to_owned();
    assert_eq!(status, Some(1), "{line}");
    assert!(line.starts_with("failed: Redis: "), "{line}");
    line
}

/// Starts a gateway whose requests fail. `/readyz` and exactly one line of the log must have these words.
async fn told_once(redis: &str, words: &str) -> GatewayProcess {
    let upstream = Upstream::ok();
    let mut gateway = GatewayProcess::start(&yaml(redis, &upstream.url())).await;
    let client = Client::new(gateway.address);
    get_each(&client, 20, "/", &[], 503).await;
    let reason = ready(gateway.admin, 503).await;
    assert!(reason.contains(words), "{reason}");
    gateway.process.wait_for_line(words, LONG).await;
    gateway.process.signal("TERM");
    gateway.process.wait(LONG).await;
    let lines = gateway.process.output();
    let warnings = lines
        .iter()
        .filter(|line| line.contains("\"WARN\"") && line.contains(words));
    let warnings: Vec<_> = warnings.collect();
    let one_of_each: std::collections::HashSet<_> =
        warnings.iter().map(|line| message(line)).collect();
    assert_eq!(warnings.len(), one_of_each.len(), "{warnings:#?}");
    gateway
}

fn message(line: &str) -> String {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line["message"].to_string()
}

#[tokio::test]
async fn an_old_server_is_named_with_its_version() {
    let redis = OldRedis::start();
    let gateway = told_once(&redis.url(), "syntax error").await;
    let lines = gateway.process.output();
    let is_old =
        |line: &&String| line.contains("Redis 6.2.14") && line.contains("Redis 7.0 or Valkey 7.2");
    assert_eq!(lines.iter().filter(is_old).count(), 1, "{lines:#?}");
    let line = failed(&redis.url()).await;
    assert!(
        line.ends_with(
            "the server is Redis 6.2.14, and the least version is Redis 7.0 or Valkey 7.2"
        ),
        "{line}"
    );
}

#[tokio::test]
async fn a_user_that_lacks_something_gets_the_remedy() {
    let redis = RedisServer::start().await;
    for (nth, (rule, remedy)) in [
        ("~tidegate:* -evalsha", "grant the user `+evalsha`"),
        ("~tidegate:* -set", "grant the user `+set`"),
        (
            "~tidegate:* -time",
            "grant the user the commands that lua/README.md lists",
        ),
        ("~other:*", "grant the user the keys `~<key_prefix>:*`"),
    ]
    .into_iter()
    .enumerate()
    {
        let user = format!("gate{nth}");
        let rule = format!("ACL SETUSER {user} on >hunter2 {COMMANDS} {rule}");
        let words: Vec<&str> = rule.split_whitespace().collect();
        let reply = redis.command(&words).await;
        assert!(!reply.is_error(), "{reply:?}");
        let url = format!("redis://{user}:hunter2@{}", redis.addr());
        let line = failed(&url).await;
        assert!(
            line.contains(remedy) && line.contains("Redis answered "),
            "{line}"
        );
        let gateway = told_once(&url, remedy).await;
        let lines = gateway.process.output();
        assert!(
            lines.iter().all(|line| !line.contains("hunter2")),
            "{lines:#?}"
        );
    }
}

#[tokio::test]
async fn a_renamed_command_is_named_without_its_arguments() {
    let redis = RedisServer::start_with(&["--rename-command", "SET", "hidden"]).await;
    let line = failed(&redis.url()).await;
    assert!(line.contains("command"), "{line}");
    let gateway = told_once(&redis.url(), "ERR unknown command").await;
    let lines = gateway.process.output();
    let is_told = |line: &&String| line.contains("with args") || line.contains("'secret ");
    assert_eq!(lines.iter().find(is_told), None);
}

#[tokio::test]
async fn a_cluster_is_neither_a_single_server_nor_elsewhere() {
    let cluster = RedisCluster::start().await;
    let single = cluster.node(cluster.primaries().await[0]).url();
    let line = failed(&single).await;
    assert!(
        line.contains("MOVED") && line.contains("redis-cluster://"),
        "{line}"
    );
    let nowhere = Port::reserve();
    for nth in cluster.primaries().await {
        let port = nowhere.number().to_string();
        let reply = cluster
            .node(nth)
            .command(&["CONFIG", "SET", "cluster-announce-port", &port])
            .await;
        assert!(!reply.is_error(), "{reply:?}");
    }
    let line = failed(&cluster.url()).await;
    let address = format!(
        "{}, an address that the cluster announces: connection refused",
        nowhere.addr()
    );
    assert!(line.contains(&address), "{line}");
}

#[tokio::test]
async fn a_failed_connection_has_its_cause() {
    let redis = RedisServer::start_with(&["--databases", "2"]).await;
    let (closed, silent, http) = (Port::reserve(), Silent::start(), Upstream::ok());
    let at = redis.addr();
    let (closed, silent, http) = (closed.addr(), silent.addr(), http.addr());
    for (url, words) in [
        (
            format!("redis://{closed}"),
            format!("{closed}: connection refused"),
        ),
        (
            "redis://nobody.invalid:6379".into(),
            "nobody.invalid:6379: the name is not resolved".into(),
        ),
        (
            format!("redis://{at}/9"),
            "ERR DB index is out of range".into(),
        ),
        (
            format!("redis-cluster://{at}"),
            "ERR This instance has cluster support disabled".into(),
        ),
        (
            format!("redis://gate:@{at}"),
            "WRONGPASS invalid username-password pair".into(),
        ),
        (
            format!("redis://{silent}"),
            format!("{silent}: no answer in time"),
        ),
        (
            format!("redis://{http}"),
            "the answer is none of Redis".into(),
        ),
        (
            format!("redis-sentinel://{closed}?sentinelServiceName=main"),
            format!("no sentinel answers: {closed}: connection refused"),
        ),
    ] {
        let line = failed(&url).await;
        assert!(line.contains(&words), "{url}: {line}");
    }
    redis.command(&["CONFIG", "SET", "maxclients", "1"]).await;
    let _only = redis.connect().await;
    let line = failed(&redis.url()).await;
    assert!(line.contains("ERR max number of clients reached"), "{line}");
}

#[tokio::test]
async fn sentinels_that_know_no_such_primary_and_ports_of_another_kind() {
    let all = RedisSentinels::start().await;
    let url = all.url(0);
    let name = url.rsplit_once('=').unwrap().1;
    let line = failed(&url.replace(&format!("={name}"), "=mian")).await;
    assert!(
        line.contains("the sentinels know no primary called `mian`"),
        "{line}"
    );
    let authority = Authority::new();
    let redis = TlsRedis::start(&authority, &authority.issue(&["localhost"]), false).await;
    let tls = redis.url("", "localhost");
    let line = failed(&tls.replace("rediss://", "redis://")).await;
    assert!(
        line.contains("there is no connection to Redis: localhost:"),
        "{line}"
    );
}

//! A primary with two replicas, and three Redis Sentinels that watch over them.

use std::time::Duration;

use crate::{RedisServer, redis::eventually};

/// The name of the primary in the configuration of the sentinels.
const SERVICE: &str = "main";

/// Three servers and three sentinels, which all end when this is dropped.
#[derive(Debug)]
pub struct RedisSentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl RedisSentinels {
    /// Starts the servers and the sentinels, and waits until each sentinel has found all servers and the other sentinels. A primary counts
    /// as down after a second without an answer.
    pub async fn start() -> Self {
        let mut servers = Vec::new();
        for _ in 0..3 {
            servers.push(RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]).await);
        }
        let primary = servers[0].port().to_string();
        for replica in &servers[1..] {
            let reply = replica.command(&["REPLICAOF", "127.0.0.1", &primary]).await;
            assert!(!reply.is_error(), "{reply:?}");
        }
        let config = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds {SERVICE} 1000\n\
             sentinel failover-timeout {SERVICE} 4000\n"
        );
        eventually("replicas in sync", async || has_replicas(&servers[0]).await).await;
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(RedisServer::start_sentinel(&config).await);
        }
        let all = Self { servers, sentinels };
        eventually("sentinels that know each other", async || {
            all.know_all().await
        })
        .await;
        all
    }

    /// Returns `redis-sentinel://…` with all sentinels, and with sentinel `first` at the front.
    pub fn url(&self, first: usize) -> String {
        let count = self.sentinels.len();
        let hosts: Vec<String> = (0..count)
            .map(|nth| self.sentinels[(first + nth) % count].addr().to_string())
            .collect();
        format!(
            "redis-sentinel://{}?sentinelServiceName={SERVICE}",
            hosts.join(",")
        )
    }

    /// Returns a server by its index, whatever its role.
    pub fn server(&self, index: usize) -> &RedisServer {
        &self.servers[index]
    }

    /// Returns a sentinel by its index.
    pub fn sentinel(&self, index: usize) -> &RedisServer {
        &self.sentinels[index]
    }

    /// Returns the primary that the last sentinel names.
    pub async fn primary(&self) -> &RedisServer {
        named_by(&self.sentinels[2], &self.servers).await
    }

    /// Waits until all sentinels name the same primary, both other servers follow it in sync, and no failover is under way.
    pub async fn in_order(&self) {
        eventually("sentinels and replicas in order", async || {
            self.is_in_order().await
        })
        .await;
    }

    async fn is_in_order(&self) -> bool {
        // Sentinels may make another server the primary at any time, so each call looks up the primary again.
        let primary = self.primary().await;
        for sentinel in &self.sentinels {
            if named_by(sentinel, &self.servers).await.port() != primary.port() {
                return false;
            }
        }
        has_replicas(primary).await && self.failover_has_ended().await
    }

    /// Whether no sentinel leads a failover any more. A leader continues for a while after it names the new primary. If the new primary
    /// dies before the leader stops, the leader waits for this primary's return without a timeout.
    async fn failover_has_ended(&self) -> bool {
        for sentinel in &self.sentinels {
            if has_field(sentinel, "flags", |flags| flags.contains("failover")).await {
                return false;
            }
        }
        true
    }

    /// Whether [`in_order`](Self::in_order) has no reason to wait, and each sentinel has found all replicas and the other sentinels.
    pub async fn know_all(&self) -> bool {
        for sentinel in &self.sentinels {
            for others in ["num-slaves", "num-other-sentinels"] {
                if !has_field(sentinel, others, |number| number == "2").await {
                    return false;
                }
            }
        }
        self.is_in_order().await
    }

    /// Sets the time without an answer after which a primary counts as down, in ms.
    pub async fn down_after(&self, time: u64) {
        let time = time.to_string();
        for sentinel in &self.sentinels {
            let words = ["SENTINEL", "SET", SERVICE, "down-after-milliseconds", &time];
            let reply = sentinel.command(&words).await;
            assert!(!reply.is_error(), "{reply:?}");
        }
    }

    /// Makes a replica the primary while the old primary still runs. Waits until the sentinels name the new primary. The old primary
    /// accepts writes for some seconds more, and these writes are lost.
    pub async fn fail_over(&self) {
        let before = self.primary().await.port();
        eventually("a failover", async || {
            // If a failover does not end, it is requested again.
            let words = ["SENTINEL", "FAILOVER", SERVICE];
            self.sentinels[2].command(&words).await;
            for _ in 0..100 {
                if self.primary().await.port() != before {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            false
        })
        .await;
        self.another_than(before).await;
    }

    /// Fails over like [`fail_over`](Self::fail_over), to a replica that has missed all writes for the time `behind`.
    pub async fn fail_over_behind(&self, behind: Duration) {
        let primary = self.primary().await;
        let others = || {
            let others = self.servers.iter();
            others.filter(|server| server.port() != primary.port())
        };
        // With a wrong login, the replicas' links to the primary stay down.
        for other in others() {
            for [name, value] in [["masteruser", "nobody"], ["masterauth", "wrong"]] {
                let reply = other.command(&["CONFIG", "SET", name, value]).await;
                assert!(!reply.is_error(), "{reply:?}");
            }
        }
        primary
            .command(&["CLIENT", "KILL", "TYPE", "replica"])
            .await;
        tokio::time::sleep(behind).await;
        self.fail_over().await;
        for other in others() {
            for name in ["masteruser", "masterauth"] {
                let reply = other.command(&["CONFIG", "SET", name, ""]).await;
                assert!(!reply.is_error(), "{reply:?}");
            }
        }
    }

    /// Kills the primary, and waits until the sentinels have made a replica the primary, and the old primary runs again.
    pub async fn kill_primary(&self) {
        eventually("the end of a failover", async || {
            self.failover_has_ended().await
        })
        .await;
        let primary = self.primary().await;
        primary.stop();
        self.another_than(primary.port()).await;
        primary.restart().await;
    }

    /// Makes a former primary follow the current primary at once. Sentinels would do this some seconds later.
    pub async fn demote(&self, index: usize) {
        let (primary, old) = (self.primary().await, &self.servers[index]);
        if primary.port() != old.port() {
            let primary = primary.port().to_string();
            let reply = old.command(&["REPLICAOF", "127.0.0.1", &primary]).await;
            assert!(!reply.is_error(), "{reply:?}");
        }
        self.in_order().await;
    }

    async fn another_than(&self, port: u16) {
        for sentinel in &self.sentinels {
            eventually("another primary", async || {
                named_by(sentinel, &self.servers).await.port() != port
            })
            .await;
        }
    }
}

/// Returns the primary that this sentinel names.
async fn named_by<'a>(sentinel: &RedisServer, servers: &'a [RedisServer]) -> &'a RedisServer {
    let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
    let reply = sentinel.command(&words).await;
    let port = reply.as_array()[1].as_int();
    let primary = servers.iter().find(|s| i64::from(s.port()) == port);
    primary.expect("the sentinels know another primary")
}

/// Whether a sentinel's data on the primary has the field `name`, with a value for which `is_so` returns true.
async fn has_field(sentinel: &RedisServer, name: &str, is_so: impl Fn(&str) -> bool) -> bool {
    let reply = sentinel.command(&["SENTINEL", "MASTER", SERVICE]).await;
    let mut fields = reply.as_array().chunks(2);
    fields.any(|pair| pair[0].as_str() == name && is_so(pair[1].as_str()))
}

async fn has_replicas(primary: &RedisServer) -> bool {
    let info = primary.command(&["INFO", "replication"]).await;
    info.as_str().matches("state=online").count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failover_makes_another_server_the_primary() {
        let all = RedisSentinels::start().await;
        let before = all.primary().await.port();
        all.fail_over().await;
        let primary = all.primary().await;
        assert_ne!(primary.port(), before);
        eventually("a primary that takes writes", async || {
            !primary.command(&["SET", "key", "1"]).await.is_error()
        })
        .await;
    }

    #[tokio::test]
    async fn a_replica_that_was_behind_has_missed_what_was_written() {
        let all = RedisSentinels::start().await;
        let set = async |server: &RedisServer, value| {
            let reply = server.command(&["SET", "key", value]).await;
            assert!(!reply.is_error(), "{reply:?}");
        };
        let index_of = |server: &RedisServer| {
            let mut all = (0..3).map(|index| (index, all.server(index).port()));
            all.find(|(_, port)| *port == server.port()).unwrap().0
        };
        let before = index_of(all.primary().await);
        set(all.server(before), "one").await;
        let replies = all.server(before).command(&["WAIT", "2", "0"]).await;
        assert_eq!(replies.as_int(), 2);
        tokio::join!(all.fail_over_behind(Duration::from_millis(300)), async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            set(all.server(before), "two").await;
        });
        all.demote(before).await;
        let value = all.primary().await.command(&["GET", "key"]).await;
        assert_eq!(value.as_str(), "one");

        let before = index_of(all.primary().await);
        all.kill_primary().await;
        all.demote(before).await;
        // The killed server is empty after its restart, and must not become the source of the data. (It may be the primary again, because
        // sentinels soon take a new primary for dead.)
        let value = all.primary().await.command(&["GET", "key"]).await;
        assert_eq!(value.as_str(), "one");
    }
}

//! A primary with two replicas, and three Redis Sentinels that watch over them.

use crate::{RedisServer, redis::eventually};

/// The name under which the sentinels know the primary.
const SERVICE: &str = "main";

/// Three servers and three sentinels, which all end when this is dropped.
#[derive(Debug)]
pub struct RedisSentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl RedisSentinels {
    /// Starts them, and waits until all know of all. A primary counts as down after a second.
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
        eventually("replicas in sync", async || {
            let info = servers[0].command(&["INFO", "replication"]).await;
            info.as_str().matches("state=online").count() == 2
        })
        .await;
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(RedisServer::start_sentinel(&config).await);
        }
        let all = Self { servers, sentinels };
        for sentinel in &all.sentinels {
            eventually("sentinels that know each other", async || {
                let reply = sentinel.command(&["SENTINEL", "MASTER", SERVICE]).await;
                let fields: Vec<&str> = reply.as_array().iter().map(|r| r.as_str()).collect();
                let has = |name, value| fields.chunks(2).any(|pair| pair == [name, value]);
                has("num-slaves", "2") && has("num-other-sentinels", "2")
            })
            .await;
        }
        all
    }

    /// `redis-sentinel://…` with all sentinels, the given one first.
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

    /// One of the three servers, whatever its role.
    pub fn server(&self, index: usize) -> &RedisServer {
        &self.servers[index]
    }

    /// One of the three sentinels.
    pub fn sentinel(&self, index: usize) -> &RedisServer {
        &self.sentinels[index]
    }

    /// The primary, by the word of the last sentinel.
    pub async fn primary(&self) -> &RedisServer {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
        let reply = self.sentinels[2].command(&words).await;
        let port = reply.as_array()[1].as_int();
        let primary = self.servers.iter().find(|s| i64::from(s.port()) == port);
        primary.expect("the sentinels know another primary")
    }

    /// Makes a replica the primary while the old one is well, and waits until the sentinels say so.
    pub async fn fail_over(&self) {
        let before = self.primary().await.port();
        eventually("a failover", async || {
            let words = ["SENTINEL", "FAILOVER", SERVICE];
            !self.sentinels[2].command(&words).await.is_error()
        })
        .await;
        eventually("another primary", async || {
            self.primary().await.port() != before
        })
        .await;
    }
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
}

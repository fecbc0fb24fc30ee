//! A Redis Cluster of three primaries and three replicas.

use std::ops::Range;
use std::time::Duration;

use crate::{Port, RedisConnection, RedisServer, Reply, redis::eventually};

/// The number of slots of a cluster.
const SLOTS: u16 = 16384;
const PRIMARIES: usize = 3;

/// Six nodes, which all end when this is dropped. Nodes 0 to 2 start as primaries. Node 3 is the replica of node 0, and so on.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    // The ports of the cluster bus, by which the nodes communicate.
    buses: Vec<Port>,
    ids: Vec<String>,
}

impl RedisCluster {
    /// Starts the nodes, and waits until each reports the cluster as complete. A node counts as down after two seconds. If a slot has no
    /// primary, the other slots stay available.
    pub async fn start() -> Self {
        let buses: Vec<Port> = (0..2 * PRIMARIES).map(|_| Port::reserve()).collect();
        let (mut nodes, mut ids) = (Vec::new(), Vec::new());
        for bus in &buses {
            let port = bus.number().to_string();
            let node = RedisServer::start_with(&[
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &port,
                "--cluster-node-timeout",
                "2000",
                "--cluster-require-full-coverage",
                "no",
                // A primary that has given its last slot away stays a primary, so that it can redirect clients to the slot's new node.
                "--cluster-allow-replica-migration",
                "no",
                "--repl-diskless-sync-delay",
                "0",
            ])
            .await;
            ids.push(node.command(&["CLUSTER", "MYID"]).await.as_str().to_owned());
            nodes.push(node);
        }
        let cluster = Self { nodes, buses, ids };
        cluster.form().await;
        cluster
    }

    async fn form(&self) {
        // Sets epochs and slots before the nodes meet.
        for (index, node) in self.nodes.iter().enumerate() {
            let epoch = (index + 1).to_string();
            done(node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await);
            if index < PRIMARIES {
                let Range { start, end } = Self::first_slots(index);
                let (start, end) = (start.to_string(), (end - 1).to_string());
                done(
                    node.command(&["CLUSTER", "ADDSLOTSRANGE", &start, &end])
                        .await,
                );
            }
        }
        for node in &self.nodes {
            for (other, bus) in self.nodes.iter().zip(&self.buses) {
                let (port, bus) = (other.port().to_string(), bus.number().to_string());
                done(
                    node.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])
                        .await,
                );
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            eventually("nodes that know each other", async || {
                let reply = node.command(&["CLUSTER", "NODES"]).await;
                let nodes = reply.as_str();
                nodes.lines().count() == 2 * PRIMARIES && !nodes.contains("handshake")
            })
            .await;
            if index >= PRIMARIES {
                let primary = &self.ids[index - PRIMARIES];
                eventually("a replica", async || {
                    !node
                        .command(&["CLUSTER", "REPLICATE", primary])
                        .await
                        .is_error()
                })
                .await;
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            eventually("a cluster in order", async || {
                let info = node.command(&["CLUSTER", "INFO"]).await;
                let in_order = info.as_str().contains("cluster_state:ok")
                    && info.as_str().contains("cluster_slots_ok:16384");
                let info = node.command(&["INFO", "replication"]).await;
                let has_replica = info.as_str().contains("state=online");
                let follows = info.as_str().contains("master_link_status:up");
                in_order
                    && if index < PRIMARIES {
                        has_replica
                    } else {
                        follows
                    }
            })
            .await;
        }
    }

    /// Returns the slots that a primary starts with.
    pub fn first_slots(primary: usize) -> Range<u16> {
        let share = SLOTS / 3;
        let start = share * u16::try_from(primary).unwrap();
        start..if primary + 1 == PRIMARIES {
            SLOTS
        } else {
            start + share
        }
    }

    /// Returns `redis-cluster://…` with all nodes.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .map(|node| node.addr().to_string())
            .collect();
        format!("redis-cluster://{}", hosts.join(","))
    }

    /// Returns a node by its index.
    pub fn node(&self, index: usize) -> &RedisServer {
        &self.nodes[index]
    }

    /// Returns the number of nodes.
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Always false: the cluster has six nodes.
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the nodes that are primaries now.
    pub async fn primaries(&self) -> Vec<usize> {
        let mut primaries = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if role(node).await.0 == "master" {
                primaries.push(index);
            }
        }
        primaries
    }

    /// Returns the index of the primary that serves a key, and the key's slot. `None` while the slot is being moved.
    pub async fn home(&self, key: &str) -> Option<(usize, u16)> {
        let reply = self.nodes[0].command(&["CLUSTER", "KEYSLOT", key]).await;
        let slot = u16::try_from(reply.as_int()).ok()?;
        for index in self.primaries().await {
            if !self.nodes[index].command(&["GET", key]).await.is_error() {
                return Some((index, slot));
            }
        }
        None
    }

    /// Makes the replica of a primary take over without a loss of data. Waits until the old primary follows the new one.
    pub async fn fail_over(&self, primary: usize) {
        let replica = &self.nodes[Self::partner(primary)];
        eventually("a replica that takes over", async || {
            // Other nodes do not vote for a replica with an older view of the slots, so the command is repeated. A replica that got votes
            // shortly before counts them again. Then it takes over with an old epoch, and follows its primary again at once.
            replica.command(&["CLUSTER", "FAILOVER"]).await;
            for _ in 0..50 {
                if self.follows(primary).await {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            false
        })
        .await;
        self.agrees().await;
    }

    /// Makes the replica of a primary take over after the replica has missed all writes for the time `behind`. Waits until the old primary
    /// follows the new one.
    pub async fn promote_behind(&self, primary: usize, behind: Duration) {
        let replica = &self.nodes[Self::partner(primary)];
        // With a wrong login, the replica's link to its primary stays down.
        let login = |user, password| [["masteruser", user], ["masterauth", password]];
        for [name, value] in login("nobody", "wrong") {
            done(replica.command(&["CONFIG", "SET", name, value]).await);
        }
        let words = ["CLIENT", "KILL", "TYPE", "replica"];
        self.nodes[primary].command(&words).await;
        tokio::time::sleep(behind).await;
        done(replica.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]).await);
        for [name, value] in login("", "") {
            done(replica.command(&["CONFIG", "SET", name, value]).await);
        }
        eventually("a primary that follows its replica", async || {
            self.follows(primary).await
        })
        .await;
        self.agrees().await;
    }

    const fn partner(index: usize) -> usize {
        (index + PRIMARIES) % (2 * PRIMARIES)
    }

    /// Whether a node follows another node, and is in sync.
    async fn follows(&self, index: usize) -> bool {
        role(&self.nodes[index]).await == ("slave".to_owned(), true)
    }

    /// Waits until all nodes agree on the owners of the slots. Before that, a replica that takes over may claim slots that its primary has
    /// given away, and the primary does not follow the replica. A node also gives no slots to a node that it takes for a replica.
    async fn agrees(&self) {
        eventually("nodes that agree about slots", async || {
            let first = self.owners(0).await;
            for index in 1..self.nodes.len() {
                if self.owners(index).await != first {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// Returns ranges of slots, each with its primary, from the view of a node.
    async fn owners(&self, index: usize) -> Vec<(i64, i64, String)> {
        let slots = self.nodes[index].command(&["CLUSTER", "SLOTS"]).await;
        let ranges = slots.as_array().iter().map(|range| {
            let range = range.as_array();
            let primary = range[2].as_array()[2].as_str().to_owned();
            (range[0].as_int(), range[1].as_int(), primary)
        });
        let mut owners: Vec<_> = ranges.collect();
        owners.sort_unstable();
        owners
    }

    /// Moves slots with their keys from one primary to another. Like redis-cli, it moves one slot at a time.
    pub async fn move_slots(&self, from: usize, to: usize, slots: Range<u16>) {
        let mut primaries: Vec<RedisConnection> = Vec::new();
        let mut others = self.primaries().await;
        others.retain(|index| ![from, to].contains(index));
        for index in [to, from].into_iter().chain(others) {
            primaries.push(self.nodes[index].connect().await);
        }
        let port = self.nodes[to].port().to_string();
        for slot in slots {
            let slot = slot.to_string();
            self.open_slot(&slot, from, to).await;
            loop {
                let words = ["CLUSTER", "GETKEYSINSLOT", &slot, "100"];
                let keys = primaries[1].command(&words).await.unwrap();
                if keys.as_array().is_empty() {
                    break;
                }
                let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
                words.extend(keys.as_array().iter().map(Reply::as_str));
                done(primaries[1].command(&words).await.unwrap());
            }
            let words = ["CLUSTER", "SETSLOT", &slot, "NODE", &self.ids[to]];
            for primary in &mut primaries {
                done(primary.command(&words).await.unwrap());
            }
        }
        self.agrees().await;
    }

    /// Begins to move a slot, and leaves its keys where they are.
    pub async fn open_slot(&self, slot: &str, from: usize, to: usize) {
        let importing = ["CLUSTER", "SETSLOT", slot, "IMPORTING", &self.ids[from]];
        done(self.nodes[to].command(&importing).await);
        let migrating = ["CLUSTER", "SETSLOT", slot, "MIGRATING", &self.ids[to]];
        done(self.nodes[from].command(&migrating).await);
    }
}

/// Returns the role of a node in Redis's words, `master` or `slave`, and whether a slave is in sync.
async fn role(node: &RedisServer) -> (String, bool) {
    let reply = node.command(&["ROLE"]).await;
    let role = reply.as_array();
    let is_slave = role[0].as_str() == "slave";
    let in_sync = is_slave && role[3].as_str() == "connected";
    (role[0].as_str().to_owned(), in_sync)
}

fn done(reply: Reply) {
    assert!(!reply.is_error(), "{reply:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slots_move_with_their_keys_and_a_replica_takes_over() {
        let cluster = RedisCluster::start().await;
        // CRC16 puts `{1}` into slot 9842, which the second primary starts with.
        done(cluster.node(1).command(&["SET", "{1}", "one"]).await);
        cluster.move_slots(1, 2, 9842..9843).await;
        let moved = cluster.node(1).command(&["GET", "{1}"]).await;
        assert!(
            matches!(&moved, Reply::Error(error) if error.starts_with("MOVED 9842")),
            "{moved:?}"
        );
        assert_eq!(
            cluster.node(2).command(&["GET", "{1}"]).await.as_str(),
            "one"
        );

        // A replica that is behind lacks the latest writes.
        let (home, _) = cluster.home("{2}").await.unwrap();
        done(cluster.node(home).command(&["SET", "{2}", "two"]).await);
        cluster.fail_over(home).await;
        let (next, _) = cluster.home("{2}").await.unwrap();
        assert_ne!(next, home);
        let value = cluster.node(next).command(&["GET", "{2}"]).await;
        assert_eq!(value.as_str(), "two");
        tokio::join!(
            cluster.promote_behind(next, Duration::from_millis(300)),
            async {
                tokio::time::sleep(Duration::from_millis(150)).await;
                done(cluster.node(next).command(&["SET", "{2}", "three"]).await);
            }
        );
        let value = cluster.node(home).command(&["GET", "{2}"]).await;
        assert_eq!(value.as_str(), "two");

        cluster.node(0).stop();
        eventually("a replica that takes over", async || {
            let role = cluster.node(3).command(&["ROLE"]).await;
            role.as_array()[0].as_str() == "master"
        })
        .await;
    }
}

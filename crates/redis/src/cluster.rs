//! A Redis Cluster: one connection per primary, and a map from slots to nodes. A background task keeps the map up to date.
//!
//! The cluster client of fred has one task for all nodes and reconnects inside this task, so a dead node would delay the calls to all other
//! nodes. In this module each node has its own task.
//!
//! Any node can return the map. The gateway reads the map at the start, after a connection comes up or breaks, and after MOVED. It also
//! reads the map every few seconds, and more often while a node is away. The map of a node that reports CLUSTERDOWN is ignored. While all
//! nodes report CLUSTERDOWN, the gateway sends no decisions, because fred closes a connection if the node answers CLUSTERDOWN.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::client::Asking;
use super::error::CallError;
use super::failure::Failure;
use super::route::Route;
use super::script::Scripts;
use super::settings::CONNECT;
use super::shard::{Named, Shard, Tagged};
use super::slots::{Owner, SLOTS, owners, slot_of_tag};
use super::task::Task;
use super::url::{Address, Topology};

/// The longest time between two reads of the map while all nodes are connected.
const EVERY: Duration = Duration::from_secs(3);
/// The longest time between two reads of the map while a node has no connection, because another node may take over its slots.
const WHILE_AWAY: Duration = Duration::from_millis(200);
/// The least time between two reads of the map.
const AT_MOST: Duration = Duration::from_millis(100);
/// The most hash tags that `Cluster::tags` tries to find one in each node's slots.
const TAGS: u128 = 4_096;
/// While nodes report CLUSTERDOWN, only every fifth read also requests the map from the seeds, the addresses in the URL.
const SEEDS_EVERY: usize = 5;
/// The error code of a node that cannot serve because the cluster is down.
const DOWN: &str = "CLUSTERDOWN";
/// The error for keys of a slot that no node has.
const NO_OWNER: &str = "CLUSTERDOWN no node has the slot of the key";

/// The nodes of a cluster, and the node of each slot.
#[derive(Debug)]
pub(crate) struct Cluster {
    nodes: Arc<Nodes>,
    #[expect(dead_code, reason = "ends the task when it is dropped")]
    task: Task<()>,
}

#[derive(Debug)]
struct Nodes {
    seeds: Vec<Address>,
    // The login, TLS and timeout for every node. The route of a node has the node's own address.
    route: Route,
    scripts: Arc<Scripts>,
    map: ArcSwap<Map>,
    // Notified when a connection comes up or breaks, or when a slot has moved.
    changed: Arc<Notify>,
    // The result of the last read of the map. `None` before the first read has ended.
    result: watch::Sender<Option<Result<(), CallError>>>,
    // Locked while the map is changed.
    changing: Mutex<()>,
}

#[derive(Debug)]
struct Node {
    address: Address,
    shard: Arc<Shard>,
}

/// The nodes, and for each slot the index of its node in `nodes`.
#[derive(Debug, Default)]
struct Map {
    slots: Vec<Option<u16>>,
    nodes: Vec<Arc<Node>>,
}

impl Map {
    fn node(&self, address: &Address) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| node.address == *address)
    }
}

impl Cluster {
    /// Starts a task that reads the map, at first from the seeds. The task ends when the `Cluster` is dropped.
    pub(crate) fn start(seeds: Vec<Address>, route: Route, scripts: Arc<Scripts>) -> Self {
        let nodes = Arc::new(Nodes {
            seeds,
            route,
            scripts,
            map: ArcSwap::default(),
            changed: Arc::new(Notify::new()),
            result: watch::Sender::new(None),
            changing: Mutex::new(()),
        });
        let task = Task(tokio::spawn(keep(nodes.clone())));
        Self { nodes, task }
    }

    /// Waits until the first read of the map and the first attempt to connect to each node have ended.
    pub(crate) async fn tried(&self) {
        // `self` owns the sender, so the wait cannot fail.
        let _ = self
            .nodes
            .result
            .subscribe()
            .wait_for(Option::is_some)
            .await;
        for node in &self.nodes.map.load_full().nodes {
            node.shard.client.tried().await;
        }
    }

    /// Returns the nodes of the current map, each with its address.
    pub(crate) fn all(&self) -> Result<Vec<Named>, CallError> {
        let map = self.nodes.map.load();
        if map.nodes.is_empty() {
            return Err(match &*self.nodes.result.borrow() {
                Some(Err(why)) => why.clone(),
                _ => CallError::Disconnected,
            });
        }
        let named = map.nodes.iter().map(|node| {
            let Address { host, port } = &node.address;
            (Some(format!("{host}:{port}")), node.shard.clone())
        });
        Ok(named.collect())
    }

    /// Returns the node that owns a slot according to the current map.
    pub(crate) fn of(&self, slot: u16) -> Result<Arc<Shard>, CallError> {
        let result = self.nodes.result.borrow();
        if let Some(Err(why)) = &*result
            && is_down(why)
        {
            return Err(why.clone());
        }
        let map = self.nodes.map.load();
        let place = map.slots.get(usize::from(slot)).copied().flatten();
        if let Some(node) = place.and_then(|place| map.nodes.get(usize::from(place))) {
            return Ok(node.shard.clone());
        }
        Err(match &*result {
            // The map was read, but no node has this slot.
            Some(Ok(())) => CallError::refused(NO_OWNER),
            Some(Err(why)) => why.clone(),
            None => CallError::Disconnected,
        })
    }

    /// Returns the node to which `source` redirected a call, for a second attempt. After MOVED, stores the slot's new node in the map.
    pub(crate) async fn redirected(
        &self,
        source: &Arc<Shard>,
        failure: &Failure,
    ) -> Option<(Arc<Shard>, Asking)> {
        let (to, asking) = match failure {
            Failure::Moved(to) => (to, Asking::No),
            Failure::Ask(to) => (to, Asking::Yes),
            _ => return None,
        };
        let map = self.nodes.map.load_full();
        let from = map
            .nodes
            .iter()
            .find(|node| Arc::ptr_eq(&node.shard, source));
        let address = to.address(&from?.address);
        let slot = (asking == Asking::No).then_some(to.slot);
        let shard = self.nodes.learn(address, slot);
        // Waits, because the connection to a new node takes time.
        shard.client.tried().await;
        Some((shard, asking))
    }

    /// Returns the nodes that own slots, each with a tag in the node's slots. A node with few slots may be missing, because the function
    /// tries at most `TAGS` tags.
    pub(crate) fn tags(&self) -> Result<Vec<Tagged>, CallError> {
        let all = self.all()?;
        let mut tags: Vec<Tagged> = Vec::new();
        let mut error = CallError::Disconnected;
        for number in 0..TAGS {
            let tag = number.to_be_bytes();
            let shard = match self.of(slot_of_tag(&tag)) {
                Ok(shard) => shard,
                Err(why) => {
                    error = why;
                    continue;
                }
            };
            if tags.iter().any(|(_, other, _)| Arc::ptr_eq(other, &shard)) {
                continue;
            }
            let named = all.iter().find(|(_, other)| Arc::ptr_eq(other, &shard));
            tags.push((named.and_then(|(name, _)| name.clone()), shard, vec![tag]));
            if tags.len() == all.len() {
                break;
            }
        }
        if tags.is_empty() {
            return Err(error);
        }
        Ok(tags)
    }
}

impl Nodes {
    /// Starts to connect to a seed, or to a node that another node announced.
    fn start(&self, address: Address, name: Option<String>) -> Arc<Node> {
        let route = Route {
            to: Topology::Server(address.clone()),
            tls_name: name,
            is_announced: !self.seeds.contains(&address),
            ..self.route.clone()
        };
        Arc::new(Node {
            address,
            shard: Arc::new(Shard::start(
                route,
                self.scripts.clone(),
                self.changed.clone(),
            )),
        })
    }

    /// Returns the node at this address, and connects to it if it is new. If `slot` is given, assigns it to the node.
    fn learn(&self, address: Address, slot: Option<u16>) -> Arc<Shard> {
        let _changing = self.changing.lock();
        let map = self.map.load();
        let current = map.node(&address).cloned();
        if slot.is_none()
            && let Some(node) = &current
        {
            return node.shard.clone();
        }
        let mut next = Map {
            slots: map.slots.clone(),
            nodes: map.nodes.clone(),
        };
        let node = current.unwrap_or_else(|| {
            let node = self.start(address, None);
            next.nodes.push(node.clone());
            node
        });
        if let Some(slot) = slot {
            let place = next
                .nodes
                .iter()
                .position(|other| Arc::ptr_eq(other, &node));
            next.slots.resize(usize::from(SLOTS), None);
            next.slots[usize::from(slot)] = place.and_then(|place| u16::try_from(place).ok());
            self.changed.notify_one();
        }
        self.map.store(Arc::new(next));
        node.shard.clone()
    }

    /// Replaces the map by the owners of slots in a node's answer. Keeps the connections to nodes that are in the old and the new map.
    fn learn_all(&self, owners: Vec<Owner>) {
        let _changing = self.changing.lock();
        let map = self.map.load();
        let mut next = Map {
            slots: vec![None; usize::from(SLOTS)],
            nodes: Vec::new(),
        };
        for (place, owner) in (0_u16..).zip(owners) {
            for (first, last) in owner.slots {
                next.slots[usize::from(first)..=usize::from(last)].fill(Some(place));
            }
            let current = map.node(&owner.address).cloned();
            next.nodes
                .push(current.unwrap_or_else(|| self.start(owner.address, owner.name)));
        }
        self.map.store(Arc::new(next));
    }

    /// Requests the map from one connected node after another, then from the seeds, until a node returns the map. Each read begins with
    /// another node.
    async fn ask(&self, turn: usize) -> Result<(), CallError> {
        let mut nodes: Vec<Arc<Node>> = self.map.load().nodes.clone();
        nodes.retain(|node| node.shard.client.is_up());
        let first = turn % nodes.len().max(1);
        nodes.rotate_left(first);
        let mut why = CallError::Disconnected;
        for node in &nodes {
            match self.learn_from(node).await {
                Ok(()) => return Ok(()),
                Err(error) => why = worse(why, error),
            }
        }
        if is_down(&why) && !turn.is_multiple_of(SEEDS_EVERY) {
            return Err(why);
        }
        let is_asked = |seed: &&Address| nodes.iter().any(|node| node.address == **seed);
        for seed in self.seeds.iter().filter(|seed| !is_asked(seed)) {
            let node = self.start(seed.clone(), None);
            node.shard.client.tried().await;
            match self.learn_from(&node).await {
                Ok(()) => return Ok(()),
                Err(error) => why = worse(why, error),
            }
        }
        Err(why)
    }

    async fn learn_from(&self, node: &Node) -> Result<(), CallError> {
        let answer = tokio::time::timeout(CONNECT, node.shard.client.cluster_slots()).await;
        let answer = answer.unwrap_or(Err(CallError::Timeout))?;
        let owners = owners(answer, &node.address);
        self.learn_all(owners.ok_or_else(CallError::unknown_reply)?);
        Ok(())
    }
}

/// Returns `previous` if it is CLUSTERDOWN, else the newer `error`.
fn worse(previous: CallError, error: CallError) -> CallError {
    if is_down(&previous) { previous } else { error }
}

fn is_down(error: &CallError) -> bool {
    error.code() == Some(DOWN)
}

/// Reads the map periodically, and after each change of a connection or a slot.
async fn keep(nodes: Arc<Nodes>) {
    for turn in 0.. {
        let answer = nodes.ask(turn).await;
        let is_away = |node: &Arc<Node>| !node.shard.client.is_up();
        let wait = match &answer {
            Ok(()) if nodes.map.load().nodes.iter().any(is_away) => WHILE_AWAY,
            Ok(()) => EVERY,
            Err(_) => AT_MOST,
        };
        let before = nodes.result.send_replace(Some(answer.clone()));
        match (before, answer) {
            (None | Some(Ok(())), Err(error)) => {
                tracing::warn!(%error, "no cluster node reports the slots of all keys; each limit follows its on_failure");
            }
            (Some(Err(_)), Ok(())) => {
                tracing::info!("the cluster nodes report the slots of all keys again")
            }
            _ => {}
        }
        tokio::time::sleep(AT_MOST).await;
        // Waits until a connection or a slot changes, for at most `wait`.
        let _ = tokio::time::timeout(wait, nodes.changed.notified()).await;
    }
}

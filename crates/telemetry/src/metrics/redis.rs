//! Metrics of Redis: whether the gateway has a connection, and the figures from the last `INFO` of each Redis server. Figures that `INFO`
//! lacks are left out.

use std::fmt;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tidegate_store::redis::{NodeInfo, RedisInfo};

/// Whether Redis is connected, and the last `INFO` of each Redis server. There are no figures while no server answers.
#[derive(Debug, Default)]
pub struct RedisMetrics {
    nodes: Mutex<Vec<NodeInfo>>,
    // Whether Redis is connected. `None` if the store is not Redis.
    connected: Mutex<Option<bool>>,
}

/// The label of a server of a Redis Cluster: its address.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NodeLabels {
    node: String,
}

impl RedisMetrics {
    /// Replaces the figures of all servers.
    pub fn show(&self, nodes: Vec<NodeInfo>) {
        *self.nodes.lock() = nodes;
    }

    /// Returns the last figures of the servers.
    pub fn nodes(&self) -> Vec<NodeInfo> {
        self.nodes.lock().clone()
    }

    /// Whether Redis is connected. `None` if the store is not Redis.
    pub fn is_up(&self) -> Option<bool> {
        *self.connected.lock()
    }

    /// Sets whether Redis is connected.
    pub fn connected(&self, connected: bool) {
        *self.connected.lock() = Some(connected);
    }
}

impl Collector for RedisMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let connected = *self.connected.lock();
        if let Some(connected) = connected {
            let gauge = ConstGauge::new(u64::from(connected));
            let help = "1: there is a connection to Redis, of a Redis Cluster to one node at least; 0: there is none";
            let encoder = encoder.encode_descriptor("redis_up", help, None, gauge.metric_type())?;
            gauge.encode(encoder)?;
        }
        let nodes = self.nodes.lock().clone();
        let mut page = Page { encoder, nodes };
        page.add(
            "redis_memory",
            Some(Unit::Bytes),
            "Memory that Redis uses",
            |info| info.memory.map(ConstGauge::new),
        )?;
        page.add(
            "redis_memory_max",
            Some(Unit::Bytes),
            "Memory that Redis may use; 0: as much as there is",
            |info| info.memory_max.map(ConstGauge::new),
        )?;
        page.add(
            "redis_evicted_keys",
            None,
            "Keys that Redis dropped because it was full",
            |info| info.evicted_keys.map(ConstCounter::new),
        )?;
        page.add(
            "redis_expired_keys",
            None,
            "Keys in Redis whose time was over",
            |info| info.expired_keys.map(ConstCounter::new),
        )?;
        page.add(
            "redis_operations_per_second",
            None,
            "Commands a second that Redis runs, for all who use it",
            |info| info.operations_per_second.map(ConstGauge::new),
        )?;
        page.add(
            "redis_script_calls",
            None,
            "Scripts that Redis has run, for all who use it",
            |info| info.script_calls.map(ConstCounter::new),
        )?;
        page.add(
            "redis_script",
            Some(Unit::Seconds),
            "Time that Redis was busy with scripts",
            |info| Some(ConstCounter::new(info.script_time?.as_secs_f64())),
        )?;
        page.add(
            "redis_cpu",
            Some(Unit::Seconds),
            "Processor time of the main thread of Redis, in which scripts run",
            |info| Some(ConstCounter::new(info.cpu?.as_secs_f64())),
        )?;
        page.add(
            "redis_uptime",
            Some(Unit::Seconds),
            "Time since Redis started",
            |info| Some(ConstGauge::new(info.uptime?.as_secs())),
        )?;
        page.add(
            "redis_received",
            Some(Unit::Bytes),
            "Bytes that Redis has read, of all who use it",
            |info| info.received.map(ConstCounter::new),
        )?;
        page.add(
            "redis_sent",
            Some(Unit::Bytes),
            "Bytes that Redis has sent, to all who use it",
            |info| info.sent.map(ConstCounter::new),
        )
    }
}

struct Page<'a> {
    encoder: DescriptorEncoder<'a>,
    nodes: Vec<NodeInfo>,
}

impl Page<'_> {
    /// Adds one metric. In a Redis Cluster the metric has the label `node`. With a single Redis server it has no label.
    fn add<M: EncodeMetric>(
        &mut self,
        name: &str,
        unit: Option<Unit>,
        help: &str,
        read: impl Fn(&RedisInfo) -> Option<M>,
    ) -> fmt::Result {
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .filter_map(|node| Some((node.node.as_ref(), read(&node.info)?)))
            .collect();
        let Some((_, first)) = nodes.first() else {
            return Ok(());
        };
        let kind = first.metric_type();
        let mut encoder = self
            .encoder
            .encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (node, metric) in &nodes {
            match node {
                Some(node) => {
                    let node = (*node).clone();
                    metric.encode(encoder.encode_family(&NodeLabels { node })?)?;
                }
                None => return metric.encode(encoder),
            }
        }
        Ok(())
    }
}

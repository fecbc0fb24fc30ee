//! What Redis says of itself, shown as it said it last; what it did not say is not shown.

use std::fmt;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tidegate_store::redis::RedisInfo;

/// The last answer of Redis; none while it does not answer.
#[derive(Debug, Default)]
pub(crate) struct RedisMetrics(Mutex<Option<RedisInfo>>);

impl RedisMetrics {
    /// Shows what Redis says, or nothing, from now on.
    pub(crate) fn show(&self, info: Option<RedisInfo>) {
        *self.0.lock() = info;
    }
}

impl Collector for RedisMetrics {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let Some(info) = self.0.lock().clone() else {
            return Ok(());
        };
        let gauge = |number: Option<u64>| number.map(ConstGauge::new);
        let counter = |number: Option<u64>| number.map(ConstCounter::new);
        let script_time = info.script_time.map(|time| time.as_secs_f64());
        let mut page = Page(encoder);
        page.add(
            "redis_memory",
            Some(Unit::Bytes),
            "Memory that Redis uses",
            gauge(info.memory),
        )?;
        page.add(
            "redis_memory_max",
            Some(Unit::Bytes),
            "Memory that Redis may use; 0: as much as there is",
            gauge(info.memory_max),
        )?;
        page.add(
            "redis_evicted_keys",
            None,
            "Keys that Redis dropped because it was full",
            counter(info.evicted_keys),
        )?;
        page.add(
            "redis_expired_keys",
            None,
            "Keys in Redis whose time was over",
            counter(info.expired_keys),
        )?;
        page.add(
            "redis_operations_per_second",
            None,
            "Commands a second that Redis runs, for all who use it",
            gauge(info.operations_per_second),
        )?;
        page.add(
            "redis_script_calls",
            None,
            "Scripts that Redis has run, for all who use it",
            counter(info.script_calls),
        )?;
        page.add(
            "redis_script",
            Some(Unit::Seconds),
            "Time that Redis was busy with scripts",
            script_time.map(ConstCounter::new),
        )
    }
}

struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn add(
        &mut self,
        name: &str,
        unit: Option<Unit>,
        help: &str,
        metric: Option<impl EncodeMetric>,
    ) -> fmt::Result {
        let Some(metric) = metric else {
            return Ok(());
        };
        let kind = metric.metric_type();
        let encoder = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        metric.encode(encoder)
    }
}

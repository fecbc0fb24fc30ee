//! Creates and registers metrics, and families of metrics with one label.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry, Unit};

/// Creates and registers metrics. `/metrics` lists them in the order in which they were registered.
#[derive(Debug)]
pub(super) struct Registrar(pub(super) Registry);

/// A family with one label. The label's values have the type `V`.
type WithLabel<V, M> = Family<[(&'static str, V); 1], M>;

/// The metrics of one name, by the value of their only label. Clones share the metrics.
#[derive(Clone, Debug)]
pub(super) struct ByLabel<V, M> {
    label: &'static str,
    family: WithLabel<V, M>,
}

/// Counters whose label is a fixed word.
pub(super) type Words = ByLabel<&'static str, Counter>;

impl Registrar {
    /// Registers a metric.
    pub(super) fn add<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register(name, help, metric.clone());
        metric
    }

    /// Registers a metric whose name ends with a unit.
    pub(super) fn add_with_unit<M>(&mut self, name: &str, unit: Unit, help: &str) -> M
    where
        M: Metric + Clone + Default,
    {
        let metric = M::default();
        self.0.register_with_unit(name, help, unit, metric.clone());
        metric
    }

    /// Registers a family with one label.
    pub(super) fn add_family<V, M>(
        &mut self,
        name: &str,
        label: &'static str,
        help: &str,
    ) -> ByLabel<V, M>
    where
        WithLabel<V, M>: Metric + Clone + Default,
    {
        ByLabel::new(label, self.add(name, help))
    }

    /// Registers a collector, which writes its own metrics. `/metrics` lists these metrics after all other metrics.
    pub(super) fn add_collector<C: Default>(&mut self) -> Arc<C>
    where
        Arc<C>: Collector,
    {
        let collector = Arc::<C>::default();
        self.0.register_collector(Box::new(collector.clone()));
        collector
    }
}

impl<V, M> ByLabel<V, M> {
    /// Returns a family together with the name of its label.
    pub(super) const fn new(label: &'static str, family: WithLabel<V, M>) -> Self {
        Self { label, family }
    }
}

impl<V: Clone + Eq + Hash, M: Clone> ByLabel<V, M> {
    /// Returns the metric with this label value. From now on, `/metrics` lists it.
    pub(super) fn get(&self, value: V) -> M {
        self.family.get_or_create_owned(&[(self.label, value)])
    }

    /// Removes the metric with this label value.
    pub(super) fn remove(&self, value: V) {
        self.family.remove(&[(self.label, value)]);
    }
}

impl ByLabel<&'static str, Counter> {
    /// Creates the counters of these words with the value 0, so that Prometheus sees the first event as an increase.
    pub(super) fn with(self, words: impl IntoIterator<Item = &'static str>) -> Self {
        for word in words {
            self.get(word);
        }
        self
    }

    /// Counts an event with this word.
    pub(super) fn inc(&self, word: &'static str) {
        self.family.get_or_create(&[(self.label, word)]).inc();
    }
}

/// Sets a counter to a number that is counted elsewhere.
pub(super) fn show(counter: &Counter, count: u64) {
    counter.inner().store(count, Ordering::Relaxed);
}

/// Sets a gauge to a number. A number that is too large becomes the largest gauge value.
pub(super) fn set(gauge: &Gauge, number: impl TryInto<i64>) {
    gauge.set(number.try_into().unwrap_or(i64::MAX));
}

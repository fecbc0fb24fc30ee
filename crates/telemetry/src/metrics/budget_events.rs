//! Metrics of budgets that reach a threshold of `notify`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registrar::Registrar;

/// The counters of events by limit and result, and the number of waiting events.
#[derive(Clone, Debug)]
pub struct BudgetEventMetrics {
    events: Family<EventLabels, Counter>,
    /// The events that this gateway reports, and whose report has not ended.
    pub waiting: Gauge,
    /// The reported events by limit, for the events of the status page.
    reported: Arc<Mutex<BTreeMap<Box<str>, u64>>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EventLabels {
    limit: Box<str>,
    result: &'static str,
}

impl BudgetEventMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        Self {
            events: registrar.add(
                "budget_events",
                "Budgets that reached a threshold of notify, by limit and by the result of the report",
            ),
            waiting: registrar.add(
                "budget_events_waiting",
                "Events of budgets that this gateway has yet to report",
            ),
            reported: Arc::default(),
        }
    }

    /// Creates the counters of this limit with the value 0, so that Prometheus sees the first event as an increase.
    pub fn expect(&self, limit: &str) {
        for result in ["reported", "failed", "dropped"] {
            let limit = limit.into();
            drop(self.events.get_or_create(&EventLabels { limit, result }));
        }
    }

    /// Counts an event of this limit whose report ended with this result: `reported`, `failed` or `dropped`.
    pub fn ended(&self, limit: &str, result: &'static str) {
        let limit: Box<str> = limit.into();
        if result == "reported" {
            *self.reported.lock().entry(limit.clone()).or_default() += 1;
        }
        let labels = EventLabels { limit, result };
        self.events.get_or_create(&labels).inc();
    }

    /// Takes the numbers of events that were reported since the last call, by limit.
    pub(crate) fn take_reported(&self) -> BTreeMap<Box<str>, u64> {
        std::mem::take(&mut *self.reported.lock())
    }
}

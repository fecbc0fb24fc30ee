//! What is counted of key sets.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::OutcomeLabels;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct JwksLabels {
    url: Arc<str>,
}

/// What all key sets have.
#[derive(Debug, Default)]
pub(super) struct JwksFamilies {
    fetches: Family<OutcomeLabels, Counter>,
    keys: Family<JwksLabels, Gauge>,
    // Those with a gauge.
    urls: Mutex<BTreeSet<Arc<str>>>,
}

impl JwksFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "jwks_fetches",
            "Fetches of key sets, by whether the set was taken or that failed",
            self.fetches.clone(),
        );
        registry.register(
            "jwks_keys",
            "Keys for tokens, by the URL of their set without its query",
            self.keys.clone(),
        );
    }

    /// Removes the gauges of key sets that are not in force: no task updates them any more.
    pub(super) fn in_force(&self, is_in_force: impl Fn(&str) -> bool) {
        self.urls.lock().retain(|url| {
            let stays = is_in_force(url);
            if !stays {
                self.keys.remove(&JwksLabels { url: url.clone() });
            }
            stays
        });
    }

    /// The handles of the key set at `url`.
    pub(super) fn of(&self, url: &Arc<str>) -> JwksMetrics {
        self.urls.lock().insert(url.clone());
        let fetches = |outcome| self.fetches.get_or_create_owned(&OutcomeLabels { outcome });
        let url = url.clone();
        JwksMetrics {
            taken: fetches("taken"),
            failed: fetches("failed"),
            keys: self.keys.get_or_create_owned(&JwksLabels { url }),
        }
    }
}

/// The handles of one key set.
#[derive(Debug)]
pub struct JwksMetrics {
    /// Fetches that brought a set.
    pub taken: Counter,
    /// Fetches that did not.
    pub failed: Counter,
    /// The keys that are in force.
    pub keys: Gauge,
}

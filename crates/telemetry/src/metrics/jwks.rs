//! Metrics of key sets.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::registrar::{ByLabel, Registrar, Words};

/// The metrics of all key sets (JWKS).
#[derive(Debug)]
pub(super) struct JwksFamilies {
    fetches: Words,
    keys: ByLabel<Arc<str>, Gauge>,
    // The URLs of the key sets with a gauge.
    urls: Mutex<BTreeSet<Arc<str>>>,
}

impl JwksFamilies {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        Self {
            fetches: registrar.add_family(
                "jwks_fetches",
                "outcome",
                "Fetches of key sets, by whether the set was taken or that failed",
            ),
            keys: registrar.add_family(
                "jwks_keys",
                "url",
                "Keys for tokens, by the URL of their set without its query",
            ),
            urls: Mutex::default(),
        }
    }

    /// Removes the gauges of key sets that are not in force, because no task updates them.
    pub(super) fn in_force(&self, is_in_force: impl Fn(&str) -> bool) {
        self.urls.lock().retain(|url| {
            let stays = is_in_force(url);
            if !stays {
                self.keys.remove(url.clone());
            }
            stays
        });
    }

    /// Returns the metrics of the key set at `url`.
    pub(super) fn of(&self, url: &Arc<str>) -> JwksMetrics {
        self.urls.lock().insert(url.clone());
        JwksMetrics {
            taken: self.fetches.get("taken"),
            failed: self.fetches.get("failed"),
            keys: self.keys.get(url.clone()),
        }
    }
}

/// The metrics of one key set.
#[derive(Debug)]
pub struct JwksMetrics {
    /// Fetches that returned a valid key set.
    pub taken: Counter,
    /// Fetches that failed.
    pub failed: Counter,
    /// The number of keys in force.
    pub keys: Gauge,
}

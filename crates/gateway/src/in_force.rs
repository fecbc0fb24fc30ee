//! What one plan makes of the gateway: everything that a reload swaps, at once.
//!
//! Whoever serves asks for it anew with each request, and keeps it until that request's answer began; so a request meets
//! one plan alone, and an old plan's parts end with its last request. This module must not know what outlives a plan.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::admin::Access;
use crate::budgets::Budgets;
use crate::certificate_watch;
use crate::frontend::Frontend;
use crate::jwks::{self, Jwks};
use crate::key_files;
use crate::limit_keys::LimitKeys;
use crate::metrics::GatewayMetrics;
use tidegate_config::{KeyFile, ListenerPlan};
use tidegate_net::tls::{ServerTls, Shown};
use tidegate_upstream::Upstream;

/// What is in force now.
pub(crate) type Current = ArcSwap<InForce>;

/// What one plan makes.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) frontend: Frontend,
    pub(crate) budgets: Budgets,
    pub(crate) access: Access,
    pub(crate) max_connections: usize,
    pub(crate) max_connections_per_ip: Option<usize>,
    pub(crate) max_memory: Option<u64>,
    pub(crate) listeners: Vec<(ListenerName, Option<Arc<ServerTls>>)>,
    pub(crate) key_files: Vec<KeyFile>,
    pub(crate) jwks: Vec<Arc<Jwks>>,
    pub(crate) upstreams: HashMap<Arc<str>, Arc<Upstream>>,
    /// Compared with those of the next plan.
    pub(crate) limit_keys: Vec<LimitKeys>,
    /// Of the plan's text.
    pub(crate) version: String,
    pub(crate) since: Timestamp,
}

/// What tells a listener from the others, through all plans: its address as it is written, and the how manieth it is
/// there, since several may ask for any free port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerName {
    pub(crate) address: SocketAddr,
    nth: usize,
}

impl ListenerName {
    /// The names of a plan's listeners, in its order.
    pub(crate) fn all(plans: &[ListenerPlan]) -> Vec<Self> {
        let mut names: Vec<Self> = Vec::new();
        for ListenerPlan { address, .. } in plans {
            let same = names.iter().filter(|name| name.address == *address);
            let nth = same.count();
            let address = *address;
            names.push(Self { address, nth });
        }
        names
    }
}

impl InForce {
    /// What protects a listener; none if it is no longer there.
    pub(crate) fn protection(&self, name: ListenerName) -> Option<Option<Arc<ServerTls>>> {
        let mut listeners = self.listeners.iter();
        let found = listeners.find(|(other, _)| *other == name);
        found.map(|(_, tls)| tls.clone())
    }

    /// The certificates that listeners show.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (ListenerName, Shown)> {
        self.listeners.iter().flat_map(|(name, tls)| {
            let shown = tls.iter().flat_map(|tls| tls.shown());
            shown.map(|shown| (*name, shown))
        })
    }

    /// Watches all files and key sets of this plan, until what this returns is dropped.
    pub(crate) fn watch(&self, metrics: &Arc<GatewayMetrics>) -> JoinSet<()> {
        let mut watches = JoinSet::new();
        watches.spawn(key_files::watch(self.key_files.clone(), metrics.clone()));
        let secured = self.listeners.iter().filter_map(|(_, tls)| tls.clone());
        watches.spawn(certificate_watch::watch(secured.collect(), metrics.clone()));
        for set in &self.jwks {
            let metrics = metrics.jwks(set.name());
            watches.spawn(jwks::watch(set.clone(), metrics));
        }
        watches
    }
}

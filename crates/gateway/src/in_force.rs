//! What one plan makes of the gateway: everything that a reload swaps, at once.
//!
//! Whoever serves asks for it anew with each request, and keeps it until that request's answer began; so a request meets
//! one plan alone, and an old plan's parts end with its last request. This module must not know what outlives a plan.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{Request, Response};
use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::admin::Access;
use crate::body::Body;
use crate::budgets::Budgets;
use crate::certificate_watch;
use crate::frontend::Frontend;
use crate::jwks::{self, Jwks};
use crate::key_files;
use crate::limit_keys::LimitKeys;
use crate::metrics::GatewayMetrics;
use tidegate_config::KeyFile;
use tidegate_net::tls::Shown;
use tidegate_server::{
    ClientBody, ConnectionInfo, Dropped, ListenerName, RefusedHead, RequestGuard, Service,
    Settings, UnparsedHead,
};
use tidegate_upstream::Upstream;

/// What is in force now.
pub(crate) type Current = ArcSwap<InForce>;

/// What one plan makes.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) frontend: Frontend,
    pub(crate) budgets: Budgets,
    pub(crate) access: Access,
    pub(crate) server: Settings,
    pub(crate) max_memory: Option<u64>,
    pub(crate) key_files: Vec<KeyFile>,
    pub(crate) jwks: Vec<Arc<Jwks>>,
    pub(crate) upstreams: HashMap<Arc<str>, Arc<Upstream>>,
    /// Compared with those of the next plan.
    pub(crate) limit_keys: Vec<LimitKeys>,
    /// Of the plan's text.
    pub(crate) version: String,
    pub(crate) since: Timestamp,
}

impl InForce {
    /// The certificates that listeners show.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (ListenerName, Shown)> {
        self.server.listeners.iter().flat_map(|(name, tls)| {
            let shown = tls.iter().flat_map(|tls| tls.shown());
            shown.map(|shown| (*name, shown))
        })
    }

    /// Watches all files and key sets of this plan, until what this returns is dropped.
    pub(crate) fn watch(&self, metrics: &Arc<GatewayMetrics>) -> JoinSet<()> {
        let mut watches = JoinSet::new();
        watches.spawn(key_files::watch(self.key_files.clone(), metrics.clone()));
        let secured = self
            .server
            .listeners
            .iter()
            .filter_map(|(_, tls)| tls.clone());
        watches.spawn(certificate_watch::watch(secured.collect(), metrics.clone()));
        for set in &self.jwks {
            let metrics = metrics.jwks(set.name());
            watches.spawn(jwks::watch(set.clone(), metrics));
        }
        watches
    }
}

impl Service for InForce {
    type Body = Body;

    fn settings(&self) -> &Settings {
        &self.server
    }

    fn is_proxy(&self, ip: IpAddr) -> bool {
        self.frontend.clients.trusted.contains(ip)
    }

    fn call(
        self: Arc<Self>,
        request: Request<ClientBody>,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> impl Future<Output = Result<Response<Body>, Dropped>> + Send {
        let begun = self.frontend.begin(request, connection, guard);
        async move { self.frontend.handle(begun).await }
    }

    async fn refuse_head(
        self: Arc<Self>,
        head: UnparsedHead,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> RefusedHead<Body> {
        self.frontend.refuse_head(head, &connection, guard).await
    }
}

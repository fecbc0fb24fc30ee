//! Everything that is made from one configuration, and that a reload replaces at once.
//!
//! The server loads the snapshot for each request, and keeps it until the answer to the request has begun. So a request uses one
//! configuration, and the parts of an old configuration are dropped after its last request.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode};
use jiff::Timestamp;
use tokio::task::JoinSet;

use super::limit_keys::LimitKeys;
use crate::budgets::Budgets;
use crate::doors::{Call, Doors};
use crate::keys::jwks::{self, Jwks};
use crate::keys::{certificate_watch, files};
use crate::request::health::Health;
use crate::request::problem::Problem;
use crate::request::record::Ended;
use crate::stack::{Begun, Stack};
use tidegate_config::{AdminSettings, DenyFile, KeyFile, Settings};
use tidegate_net::tls::ShownCertificate;
use tidegate_overrides::LimitNumbers;
use tidegate_server::{
    ClientBody, ConnectionInfo, ConnectionSettings, Dropped, ListenerName, RefusedHead,
    RequestGuard, Service, UnparsedHead,
};
use tidegate_telemetry::Door;
use tidegate_telemetry::metrics::GatewayMetrics;
use tidegate_upstream::Upstream;

/// The snapshot in force.
pub(crate) type SharedSnapshot = ArcSwap<Snapshot>;

/// The answer on an old connection to a listener for decisions that the configuration no longer has.
const LISTENER_CLOSED: Problem = Problem::new(
    StatusCode::MISDIRECTED_REQUEST,
    "listener_closed",
    "The configuration has no listener for decisions any more.",
);

/// Everything that is made from one configuration.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) stack: Stack,
    pub(crate) budgets: Arc<Budgets>,
    pub(crate) admin: AdminSettings,
    /// The listener for decisions, if the configuration has one.
    pub(crate) doors: Option<Arc<Doors>>,
    pub(crate) server: ConnectionSettings,
    pub(crate) max_memory: Option<u64>,
    pub(crate) key_files: Vec<KeyFile>,
    pub(crate) deny_file: Option<DenyFile>,
    /// The files of envoyproxy/ratelimit that are part of the configuration.
    pub(crate) ratelimit_files: Vec<PathBuf>,
    pub(crate) jwks: Vec<Arc<Jwks>>,
    pub(crate) upstreams: HashMap<Arc<str>, Arc<Upstream>>,
    /// The settings that determine the limits' keys, for a comparison with the next configuration.
    pub(crate) limit_keys: Vec<LimitKeys>,
    /// Fingerprints of the settings that a reload cannot change.
    pub(crate) fixed: BTreeMap<String, String>,
    /// The version of the configuration. The same text has the same version.
    pub(crate) version: String,
    pub(crate) since: Timestamp,
    /// The settings as they were loaded, with the numbers of the configuration.
    pub(crate) settings: Arc<Settings>,
    /// The numbers of all overrides of limits, also of those without an effect.
    pub(crate) set_numbers: LimitNumbers,
}

impl Snapshot {
    /// Returns the certificates that the listeners show to clients.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (ListenerName, ShownCertificate)> {
        self.server.listeners.iter().flat_map(|(name, tls)| {
            let shown = tls.iter().flat_map(|tls| tls.shown());
            shown.map(|shown| (*name, shown))
        })
    }

    /// Watches all files and key sets of this configuration until the returned set is dropped.
    pub(crate) fn watch(&self, metrics: &Arc<GatewayMetrics>) -> JoinSet<()> {
        let mut watches = JoinSet::new();
        for file in &self.key_files {
            watches.spawn(files::watch_keys(file.clone(), metrics.clone()));
        }
        watches.spawn(files::watch_denied(self.deny_file.clone(), metrics.clone()));
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

impl AsRef<Stack> for Snapshot {
    fn as_ref(&self) -> &Stack {
        &self.stack
    }
}

/// A request that has begun, by the part that answers it.
enum Begin {
    Request(Box<Begun>),
    Call(Arc<Doors>, Call),
    Health(Arc<Health>, ConnectionInfo, RequestGuard),
    /// The listener for decisions was closed by a reload.
    Closed,
}

impl Snapshot {
    fn begin(
        &self,
        request: Request<ClientBody>,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> Begin {
        if connection.is_of_program() {
            return match &self.doors {
                Some(doors) => {
                    let call = doors.begin(&self.stack, request, connection, guard);
                    Begin::Call(doors.clone(), call)
                }
                // The connection is older than the reload that has closed the listener.
                None => Begin::Closed,
            };
        }
        let health = self.stack.health.as_ref();
        match health.filter(|health| health.takes(&request)) {
            Some(health) => Begin::Health(health.clone(), connection, guard),
            None => Begin::Request(self.stack.begin(request, connection, guard, Door::Proxy)),
        }
    }
}

impl Service for Snapshot {
    type Body = Ended;

    fn settings(&self) -> &ConnectionSettings {
        &self.server
    }

    fn is_proxy(&self, ip: IpAddr) -> bool {
        self.stack.clients.trusted.contains(ip)
    }

    fn denies(&self, ip: IpAddr) -> bool {
        self.stack.denies(ip)
    }

    fn call(
        self: Arc<Self>,
        request: Request<ClientBody>,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> impl Future<Output = Result<Response<Ended>, Dropped>> + Send {
        let begun = self.begin(request, connection, guard);
        async move {
            match begun {
                Begin::Request(begun) => self.stack.answer(begun).await,
                Begin::Call(doors, call) => Box::pin(doors.answer(&self, call)).await,
                Begin::Closed => {
                    let mut response = LISTENER_CLOSED.respond();
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                    Ok(response.map(Ended::without_end))
                }
                Begin::Health(health, connection, _guard) => {
                    let drains = *connection.drain().borrow();
                    let (overload, clients) = (&self.stack.overload, &self.stack.clients);
                    let response = Box::pin(health.answer(drains, overload, clients)).await;
                    Ok(response.map(Ended::without_end))
                }
            }
        }
    }

    async fn refuse_head(
        self: Arc<Self>,
        head: UnparsedHead,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> RefusedHead<Ended> {
        self.stack.refuse_head(head, &connection, guard).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each connection and each HTTP/2 stream has room for this future, and hyper moves the answer several times.
    #[test]
    fn the_future_and_the_answer_of_a_request_are_small() {
        fn size_of_output<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
            size_of::<F>()
        }
        type Arguments = (
            Arc<Snapshot>,
            Request<ClientBody>,
            ConnectionInfo,
            RequestGuard,
        );
        let call = |(snapshot, request, connection, guard): Arguments| {
            snapshot.call(request, connection, guard)
        };
        let future = size_of_output(call);
        assert!(future <= 1_024, "{future} bytes");
        let answer = size_of::<Response<Ended>>();
        assert!(answer <= 256, "{answer} bytes");
    }
}

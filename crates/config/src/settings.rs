//! The settings of the gateway: the result of a checked configuration.
//!
//! Only a check without errors makes [`Settings`]. So each name in them is defined, each number is within its bounds, and each route can
//! get requests.

mod numbers;

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_identity::{ClientPlans, Clients};
use tidegate_store::Limit;
use tidegate_telemetry::traces::TraceSettings;
use tidegate_tower::{NumberReader, Policy, Reject};

use crate::access::networks::DenyFile;
use crate::admin::AdminSettings;
use crate::bounds::timeouts::Timeouts;
use crate::clients::keys::KeyFile;
use crate::clients::tokens::JwksSettings;
use crate::decisions::DecisionsSettings;
use crate::fixed::Fixed;
use crate::listeners::ListenerSettings;
use crate::log::LogSettings;
use crate::routes::{HeaderEdits, RouteSettings};
use crate::secret::Secret;
use crate::store::StoreSettings;

/// The settings of a gateway. Clones share the tables of keys and the certificates, which files change while the gateway runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// A hash of the configuration's text.
    pub version: String,
    /// The settings that no reload may change.
    pub fixed: Fixed,
    /// The listeners; at least one.
    pub listen: Vec<ListenerSettings>,
    /// The admin port, which serves health checks, metrics, the status page, and the budgets of clients.
    pub admin: AdminSettings,
    /// The sources that name clients.
    pub clients: Clients,
    /// The plans that a client may have.
    pub plans: ClientPlans,
    /// The parser of an override's numbers, which replace a limit's numbers for one client.
    pub numbers: NumberReader,
    /// Whether trusted peers begin a connection with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// The files with API keys, which are reread when they change.
    pub key_files: Vec<KeyFile>,
    /// The file with denied networks, which is reread when it changes.
    pub deny_file: Option<DenyFile>,
    /// The file for overrides that are set at run time. `None` if overrides are in Redis, or are lost when the process ends.
    pub overrides_file: Option<PathBuf>,
    /// The key sets for tokens, which the gateway fetches.
    pub jwks: Vec<JwksSettings>,
    /// The store of limits.
    pub store: StoreSettings,
    /// The secret key of the hashes that replace the names of clients in the store.
    pub secret: Option<Secret>,
    /// The policy of requests that match no route. Its limits, listed under `always`, also charge all requests that match a route.
    pub unmatched: Policy,
    /// The answer to requests without a route. `None` means 404 with problem details.
    pub no_route: Option<Reject>,
    /// The path at which listeners answer health checks. `None` if all paths belong to routes.
    pub health: Option<Box<str>>,
    /// The header edits of answers to requests without a route.
    pub response_headers: HeaderEdits,
    /// Whether answers carry the request ID.
    pub request_id_in_answers: bool,
    /// All limits, in the order of the file.
    pub limits: Vec<Arc<Limit>>,
    /// The routes, in the order of the file. A request belongs to the first route that matches it.
    pub routes: Vec<RouteSettings>,
    /// The listener for decisions about requests that other programs carry. `None` if the gateway has no such listener.
    pub decisions: Option<DecisionsSettings>,
    /// The timeouts, and the lowest rate at which clients may send and receive.
    pub timeouts: Timeouts,
    /// The most connections that are open at once. `None` means 10,000.
    pub max_connections: Option<usize>,
    /// The most connections of one address, or of one IPv6 /64. Trusted proxies have no bound. `None` means no bound.
    pub max_connections_per_ip: Option<usize>,
    /// The bound of the process's memory, in bytes. Near this bound the process sheds load. `None` means no bound.
    pub max_memory: Option<u64>,
    /// The settings of the logs.
    pub log: LogSettings,
    /// The settings of tracing. `None` if the gateway forwards trace contexts unchanged.
    pub tracing: Option<TraceSettings>,
}

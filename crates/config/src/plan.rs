//! The plan: a configuration that has been checked, and everything that the gateway does by it.
//!
//! Only the check makes one, so whatever stands in a plan is right: names are resolved, numbers fit, every route can be reached.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_identity::{ClientPlans, Clients};
use tidegate_store::Limit;
use tidegate_telemetry::traces::TraceSettings;
use tidegate_tower::{NumberReader, Policy, Reject};

use crate::access::networks::DenyFile;
use crate::admin::AdminPlan;
use crate::bounds::timeouts::Timeouts;
use crate::clients::keys::KeyFile;
use crate::clients::tokens::JwksPlan;
use crate::fixed::Fixed;
use crate::listeners::ListenerPlan;
use crate::log::LogPlan;
use crate::routes::{HeaderEdits, RoutePlan};
use crate::secret::Secret;
use crate::store::StorePlan;

/// What a gateway does.
#[derive(Debug)]
#[non_exhaustive]
pub struct Plan {
    /// A hash of the text that it was made of.
    pub version: String,
    /// What no reload may change.
    pub fixed: Fixed,
    /// Where it listens; at least one.
    pub listen: Vec<ListenerPlan>,
    /// Where health, metrics and clients are served.
    pub admin: AdminPlan,
    /// How it names who is calling.
    pub clients: Clients,
    /// The plans that a client may have.
    pub plans: ClientPlans,
    /// Reads numbers that overrides give to the limits.
    pub numbers: NumberReader,
    /// Whether trusted peers begin a connection with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// The files with API keys, which are reread when they change.
    pub key_files: Vec<KeyFile>,
    /// The file with denied networks, which is reread when it changes.
    pub deny_file: Option<DenyFile>,
    /// The file in which overrides are kept that are set at run time; none: they end with the process, or are in Redis.
    pub overrides_file: Option<PathBuf>,
    /// The key sets that are fetched, for tokens.
    pub jwks: Vec<JwksPlan>,
    /// Where limits keep their state.
    pub store: StorePlan,
    /// Keys the hashes under which clients are kept.
    pub secret: Option<Secret>,
    /// What requests that no route takes are charged to, which is what every request is, and how they are answered.
    pub unmatched: Policy,
    /// What is answered where there is no route; none: 404 with problem details.
    pub no_route: Option<Reject>,
    /// The path at which listeners answer health checks; none: all paths are routes'.
    pub health: Option<Box<str>>,
    /// Edits of answers without a route.
    pub response_headers: HeaderEdits,
    /// Whether answers carry the request ID.
    pub request_id_in_answers: bool,
    /// All limits, in the order of the file.
    pub limits: Vec<Arc<Limit>>,
    /// The routes, in the order of the file: the first match wins.
    pub routes: Vec<RoutePlan>,
    /// How long it waits.
    pub timeouts: Timeouts,
    /// The most connections that are open at once; none: 10,000.
    pub max_connections: Option<usize>,
    /// How many of these one address may have, or one /64 of IPv6, unless it is trusted; none: all.
    pub max_connections_per_ip: Option<usize>,
    /// How many bytes of memory the process may take before it sheds load; none: as many as it takes.
    pub max_memory: Option<u64>,
    /// What it logs.
    pub log: LogPlan,
    /// Which requests it traces; none: trace contexts are left alone.
    pub tracing: Option<TraceSettings>,
}

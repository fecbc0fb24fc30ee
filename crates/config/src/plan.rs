//! The plan: a configuration that has been checked, and everything that the gateway does by it.
//!
//! Only the check makes one, so whatever stands in a plan is right: names are resolved, numbers fit, every route can be reached.

mod fixed;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Uri};
use rustls::RootCertStore;
use tidegate_store::Limit;
use tidegate_store::redis::RedisOptions;
use tidegate_telemetry::access_log::AccessLogSettings;
use tidegate_telemetry::log::LogFormat;
use tidegate_telemetry::traces::TraceSettings;
use tidegate_tower::api_keys::{ApiKeys, ListedKey};
use tidegate_tower::jwt::{Signature, TokenKeys};
use tidegate_tower::{ClientPlans, Clients, Policy, Reject};
use tokio::sync::Notify;

use crate::routes::cors::CorsPlan;
use crate::routes::edits::RouteEdits;
use crate::secret::Secret;
use tidegate_net::host::HostPattern;
use tidegate_net::path::EncodedSlashes;
use tidegate_net::pattern::PathPattern;
use tidegate_net::tls::ServerTls;

pub use fixed::Fixed;
pub(crate) use fixed::{FixedRedis, FixedStore};
pub(crate) use tidegate_net::pace::LeastRate;
pub(crate) use tidegate_upstream::{
    Balance, EjectPlan, HealthPlan, RetryPlan, ServerPlan, Speaks, UpstreamPlan,
};

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
    /// Whether trusted peers begin a connection with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// The files with API keys, which are reread when they change.
    pub key_files: Vec<KeyFile>,
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
    /// All limits, in the order of the file.
    pub limits: Vec<Arc<Limit>>,
    /// The routes, in the order of the file: the first match wins.
    pub routes: Vec<RoutePlan>,
    /// How long it waits.
    pub timeouts: Timeouts,
    /// How many connections may be open at once.
    pub max_connections: usize,
    /// How many of these one address may have, or one /64 of IPv6, unless it is trusted; none: all.
    pub max_connections_per_ip: Option<usize>,
    /// How many bytes of memory the process may take before it sheds load; none: as many as it takes.
    pub max_memory: Option<u64>,
    /// What it logs.
    pub log: LogPlan,
    /// Which requests it traces; none: trace contexts are left alone.
    pub tracing: Option<TraceSettings>,
}

/// One address to listen on.
#[derive(Debug)]
#[non_exhaustive]
pub struct ListenerPlan {
    /// Where it is.
    pub address: SocketAddr,
    /// What protects it.
    pub tls: Option<Arc<ServerTls>>,
}

/// The admin port.
#[derive(Debug, Clone)]
pub struct AdminPlan {
    /// Where it is.
    pub address: SocketAddr,
    /// The token that requests about clients must carry.
    pub token: Option<Secret>,
    /// The names under which it may be asked, beside addresses and `localhost`.
    pub hosts: Vec<HostPattern>,
}

/// A file with API keys.
#[derive(Debug, Clone)]
pub struct KeyFile {
    /// Where it is.
    pub path: PathBuf,
    /// The table that requests are looked up in.
    pub keys: ApiKeys,
    /// The keys that the configuration itself lists beside it.
    pub listed: Vec<ListedKey>,
    /// The plans that its keys may have.
    pub plans: ClientPlans,
}

/// A key set that is fetched, and whom its keys are for.
#[derive(Clone)]
pub struct JwksPlan {
    /// Where it is, in HTTP or HTTPS.
    pub url: Uri,
    /// The authorities of which one must vouch for that server; none: those that this machine trusts.
    pub authorities: Option<Arc<RootCertStore>>,
    /// How often it is fetched.
    pub refresh: Duration,
    /// The signatures that its keys may be for.
    pub signatures: Vec<Signature>,
    /// Where its keys go.
    pub keys: TokenKeys,
    /// Notified of tokens that name a key which is not in the set.
    pub missed: Arc<Notify>,
}

// Not derived: the URL's query may hold a secret.
impl fmt::Debug for JwksPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwksPlan")
            .field("host", &self.url.host())
            .field("refresh", &self.refresh)
            .finish_non_exhaustive()
    }
}

/// Where limits keep their state.
#[derive(Debug)]
pub enum StorePlan {
    /// In this process.
    Memory,
    /// In Redis.
    Redis(RedisOptions),
}

/// One route: which requests, where they go, what they are charged to.
#[derive(Debug)]
#[non_exhaustive]
pub struct RoutePlan {
    /// Its name, unlike any other's.
    pub name: String,
    /// The hosts it is for; none: any.
    pub host: Option<HostPattern>,
    /// The paths it is for.
    pub path: PathPattern,
    /// The methods it is for, with HEAD where GET is; none: any.
    pub methods: Option<Vec<Method>>,
    /// Where its requests go; routes that name the same one share it.
    pub upstream: Arc<UpstreamPlan>,
    /// How long it waits.
    pub timeouts: Timeouts,
    /// When a request is sent once more; none: only if nothing of it was sent.
    pub retries: Option<RetryPlan>,
    /// What is changed on the way.
    pub edits: Arc<RouteEdits>,
    /// Whose pages may read its answers; none: as the upstream says.
    pub cors: Option<CorsPlan>,
    /// What its requests are charged to: what is always charged, then its own limits.
    pub policy: Policy,
    /// The most bytes of a request's body; none: as many as come.
    pub max_body: Option<u64>,
    /// The protocols that its clients may switch to, in lower case.
    pub upgrades: Arc<[Box<str>]>,
    /// Whether its upstream ignores the case of a path, as far as the file says so; its path then does.
    pub case_insensitive: Option<bool>,
    /// What becomes of encoded slashes in its paths.
    pub encoded_slashes: EncodedSlashes,
}

/// How long the gateway waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a request's head, from its first byte.
    pub header: Duration,
    /// For a connection to an upstream server.
    pub connect: Duration,
    /// For the head of the upstream's answer.
    pub upstream: Duration,
    /// For the next request on a connection.
    pub idle: Duration,
    /// For the next byte in a tunnel, either way.
    pub tunnel_idle: Duration,
    /// The least rate of request bodies and answers; none: any rate will do.
    pub slow: Option<LeastRate>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(10),
            connect: Duration::from_secs(1),
            upstream: Duration::from_secs(60),
            idle: Duration::from_secs(75),
            tunnel_idle: Duration::from_secs(300),
            slow: Some(LeastRate::default()),
        }
    }
}

/// What is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPlan {
    /// How a line looks.
    pub format: LogFormat,
    /// The access log; none: requests get no lines.
    pub access: Option<AccessLogSettings>,
    /// The least important level that is logged: `error`, `warn`, `info`, `debug`, `trace`; `off`.
    pub level: String,
}

//! What a running gateway cannot change: a reload that would is refused, by its place.
//!
//! State is kept in the store and under the secret, and the log is opened once, so all of these outlive every plan.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::plan::{LogPlan, Secret};

/// The parts of a configuration that only a restart changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    pub(super) store: FixedStore,
    pub(super) secret: Option<Secret>,
    pub(super) admin: SocketAddr,
    pub(super) log: LogPlan,
}

/// Where limits keep their state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FixedStore {
    Memory,
    Redis(Box<FixedRedis>),
}

/// How Redis is used. What is said of limits by default (`mode`, `on_failure`) is theirs, and not fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FixedRedis {
    // May hold a password.
    pub(super) url: Secret,
    pub(super) timeout: Duration,
    pub(super) key_prefix: String,
    pub(super) gateways: Option<u64>,
    pub(super) sync_every: Duration,
    // Of the authorities, the certificate and its key, whose content is read at start.
    pub(super) files: [Option<PathBuf>; 3],
}

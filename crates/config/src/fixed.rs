//! The parts of a configuration that a running gateway cannot change. A reload that would change such a part is refused.
//!
//! The budgets depend on the store and on the secret, so a running gateway cannot replace these parts. The gateway opens its log, its admin
//! port and `overrides_file` only once, at the start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::log::LogSettings;
use crate::secret::Secret;

/// The parts of a configuration that only a restart can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    pub(crate) store: FixedStore,
    pub(crate) secret: Option<Secret>,
    pub(crate) admin: SocketAddr,
    pub(crate) log: LogSettings,
    pub(crate) overrides_file: Option<PathBuf>,
}

/// The parts of the store that no reload may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FixedStore {
    Memory,
    Redis(Box<FixedRedis>),
}

/// The settings of Redis that no reload may change. `mode` and `on_failure` are missing here: they are defaults of limits, so a reload can
/// change them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FixedRedis {
    // The URL may hold a password.
    pub(crate) url: Secret,
    pub(crate) timeout: Duration,
    pub(crate) key_prefix: String,
    pub(crate) gateways: Option<u64>,
    pub(crate) sync_every: Duration,
    // The files of the authorities, the certificate and its key. The gateway reads these files only at the start.
    pub(crate) files: [Option<PathBuf>; 3],
}

impl Fixed {
    /// Returns each key with its value, in a format that may change between versions. Secrets, such as the URL of Redis, are replaced by
    /// `***`.
    pub fn texts(&self) -> [(&'static str, String); 5] {
        [
            ("`store`", format!("{:?}", self.store)),
            ("`secret`", format!("{:?}", self.secret)),
            ("`log`", format!("{:?}", self.log)),
            ("`overrides_file`", format!("{:?}", self.overrides_file)),
            ("the address of `admin`", self.admin.to_string()),
        ]
    }
}

//! What a running gateway cannot change: a reload that would is refused, by its place.
//!
//! State is kept in the store and under the secret, and the log is opened once, so all of these outlive every plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};

use crate::log::LogPlan;
use crate::secret::Secret;

/// The parts of a configuration that only a restart changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    pub(crate) store: FixedStore,
    pub(crate) secret: Option<Secret>,
    pub(crate) admin: SocketAddr,
    pub(crate) log: LogPlan,
    pub(crate) overrides_file: Option<PathBuf>,
}

/// Where limits keep their state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FixedStore {
    Memory,
    Redis(Box<FixedRedis>),
}

/// How Redis is used. What is said of limits by default (`mode`, `on_failure`) is theirs, and not fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FixedRedis {
    // May hold a password.
    pub(crate) url: Secret,
    pub(crate) timeout: Duration,
    pub(crate) key_prefix: String,
    pub(crate) gateways: Option<u64>,
    pub(crate) sync_every: Duration,
    // Of the authorities, the certificate and its key, whose content is read at start.
    pub(crate) files: [Option<PathBuf>; 3],
}

impl Fixed {
    /// A fingerprint of each key, by which another process of this version of the program sees whether the key differs. Of secrets it has
    /// whether there is one, and of a URL neither user nor password nor parameters: whoever reads a fingerprint may try guesses.
    pub fn fingerprints(&self) -> BTreeMap<String, String> {
        let store = match &self.store {
            FixedStore::Memory => "memory".to_owned(),
            FixedStore::Redis(redis) => {
                let url = redis.url.expose();
                format!("{} {} {redis:?}", scheme(url), servers(url))
            }
        };
        let mut all = BTreeMap::from([
            ("`store`".to_owned(), fingerprint(&store)),
            (
                "`secret`".to_owned(),
                fingerprint(&self.secret.is_some().to_string()),
            ),
            ("`log`".to_owned(), fingerprint(&format!("{:?}", self.log))),
            (
                "`overrides_file`".to_owned(),
                fingerprint(&format!("{:?}", self.overrides_file)),
            ),
        ]);
        // The system has chosen the port, and no file can name it.
        if self.admin.port() != 0 {
            let admin = fingerprint(&self.admin.to_string());
            all.insert("the address of `admin`".to_owned(), admin);
        }
        all
    }
}

fn scheme(url: &str) -> &str {
    url.split("://").next().unwrap_or_default()
}

/// Hosts and path of a URL; nothing, if it is not beyond doubt what stands where.
fn servers(url: &str) -> &str {
    let (begin, rest) = match url.rsplit_once('@') {
        Some((before, rest)) => (before, rest),
        None => ("", url.split_once("://").map_or(url, |(_, rest)| rest)),
    };
    match begin.contains(['@', '?', '#']) {
        true => "",
        false => rest.split(['?', '#']).next().unwrap_or_default(),
    }
}

fn fingerprint(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    let mut hex = String::new();
    for byte in &hash.as_ref()[..8] {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_has_no_secret() {
        for (url, shown) in [
            ("redis://one:6379/1", "one:6379/1"),
            ("redis://user:hunter2@one:6379/1", "one:6379/1"),
            ("redis://:hunter2@one,two?password=hunter2", "one,two"),
            ("rediss://one?password=hunter2", "one"),
            ("redis://one?password=hunter2@x", ""),
            ("redis://:hunter?2@one", ""),
            ("redis://:hunter2@x@one", ""),
            ("redis://:hunter#2@one", ""),
        ] {
            assert_eq!(servers(url), shown, "{url}");
        }
    }
}

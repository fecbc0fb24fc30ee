//! Listed API keys: known by their hashes, and looked up without a trace in the time it takes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use aws_lc_rs::digest;

use crate::ClientPlan;

/// An API key as it is listed: a name, the SHA-256 of the key, until when it counts, and its client's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// What the client is called.
    pub name: Arc<str>,
    /// The hash under which the key is known.
    pub sha256: [u8; 32],
    /// From then on the key is unknown, as a time since the epoch; none: it never ends.
    pub expires: Option<Duration>,
    /// The plan of the client; none: the limits' own quotas.
    pub plan: Option<ClientPlan>,
}

/// What becomes of a key that is not listed, or no longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownKey {
    /// The next source names the client.
    #[default]
    FallThrough,
    /// 401.
    Reject,
    /// Each distinct key is a client, for keys that only the API behind can verify.
    Accept,
}

/// The listed keys, by hash; cheap to clone, and all clones see a [`ApiKeys::replace`].
///
/// Keys are random, so one round of SHA-256 is enough: there is no dictionary to try. Looking up by hash leaks nothing by its
/// timing. An attacker who learns which hashes share a prefix with a listed one has no key for them.
#[derive(Clone, Debug)]
pub struct ApiKeys(Arc<ArcSwap<Table>>);

type Table = HashMap<[u8; 32], Entry>;

#[derive(Debug)]
struct Entry {
    client: KeyClient,
    expires: Option<Duration>,
}

/// Whose a listed key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyClient {
    pub(crate) name: Arc<str>,
    pub(crate) plan: Option<ClientPlan>,
}

impl ApiKeys {
    /// A table of these keys.
    pub fn new(keys: impl IntoIterator<Item = ListedKey>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(table(keys))))
    }

    /// Puts these keys in the place of all that were listed.
    pub fn replace(&self, keys: impl IntoIterator<Item = ListedKey>) {
        self.0.store(Arc::new(table(keys)));
    }

    /// The names of all listed keys, in no order.
    pub fn names(&self) -> Vec<Arc<str>> {
        let table = self.0.load();
        let names = table.values().map(|entry| entry.client.name.clone());
        names.collect()
    }

    /// Whose the listed key of this name is, if there is one; it may have expired.
    pub(crate) fn called(&self, name: &str) -> Option<KeyClient> {
        let table = self.0.load();
        let mut clients = table.values().map(|entry| &entry.client);
        clients.find(|client| &*client.name == name).cloned()
    }

    /// Whose a listed key was, if it has expired.
    pub(crate) fn expired(&self, sha256: &[u8; 32]) -> Option<Arc<str>> {
        let table = self.0.load();
        let entry = table.get(sha256)?;
        let is_known = self.client(sha256).is_some();
        (!is_known).then(|| entry.client.name.clone())
    }

    /// Whose a key is, if it is listed and has not expired.
    pub(crate) fn client(&self, sha256: &[u8; 32]) -> Option<KeyClient> {
        let table = self.0.load();
        let entry = table.get(sha256)?;
        let expired = entry.expires.is_some_and(|end| {
            // A clock before the epoch knows no key that ends.
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            now.is_ok_and(|now| now >= end)
        });
        (!expired).then(|| entry.client.clone())
    }
}

/// The hash under which a key is known.
pub fn hash(key: &[u8]) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, key);
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    hash
}

fn table(keys: impl IntoIterator<Item = ListedKey>) -> Table {
    let entry = |key: ListedKey| {
        let ListedKey {
            name,
            sha256,
            expires,
            plan,
        } = key;
        let client = KeyClient { name, plan };
        (sha256, Entry { client, expires })
    };
    keys.into_iter().map(entry).collect()
}

//! Listed API keys: known by their hashes, and looked up without a trace in the time it takes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use aws_lc_rs::digest;

/// An API key as it is listed: a name, the SHA-256 of the key, and until when it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// What the client is called.
    pub name: Arc<str>,
    /// The hash under which the key is known.
    pub sha256: [u8; 32],
    /// From then on the key is unknown, as a time since the epoch; none: it never ends.
    pub expires: Option<Duration>,
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
/// Keys are random, so one round of SHA-256 is enough: there is no dictionary to try. Looking up by hash leaks nothing
/// by its timing, because whoever learns which hashes share a prefix with a listed one has no key for them.
#[derive(Clone, Debug)]
pub struct ApiKeys(Arc<ArcSwap<Table>>);

type Table = HashMap<[u8; 32], Entry>;

#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    expires: Option<Duration>,
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

    /// The name of a listed key, as it is kept, if one is called so; it may have expired.
    pub(crate) fn called(&self, name: &str) -> Option<Arc<str>> {
        let table = self.0.load();
        let mut names = table.values().map(|entry| &entry.name);
        names.find(|known| &***known == name).cloned()
    }

    /// The name of a key, if it is listed and has not expired.
    pub(crate) fn name(&self, sha256: &[u8; 32]) -> Option<Arc<str>> {
        let table = self.0.load();
        let entry = table.get(sha256)?;
        let expired = entry.expires.is_some_and(|end| {
            // A clock before the epoch knows no key that ends.
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            now.is_ok_and(|now| now >= end)
        });
        (!expired).then(|| entry.name.clone())
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
        } = key;
        (sha256, Entry { name, expires })
    };
    keys.into_iter().map(entry).collect()
}

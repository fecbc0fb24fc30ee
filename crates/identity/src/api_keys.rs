//! Listed API keys. They are stored as hashes, so that the time of a lookup reveals no key.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use aws_lc_rs::digest;

use crate::ClientPlan;

/// A listed API key: a name, the SHA-256 of the key, its expiry, and its client's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// The client's name.
    pub name: Arc<str>,
    /// The SHA-256 of the key.
    pub sha256: [u8; 32],
    /// The time since the epoch at which the key expires. `None` if it never expires.
    pub expires: Option<Duration>,
    /// The plan of the client. `None` if the limits' own quotas apply.
    pub plan: Option<ClientPlan>,
}

/// The treatment of a key that is not listed or has expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownKey {
    /// The next client source may name the client.
    #[default]
    FallThrough,
    /// The request is answered with 401.
    Reject,
    /// Each distinct key counts as a client of its own. This setting is for keys that only the upstream can verify.
    Accept,
}

/// The listed keys, by hash. Clones are cheap and share the keys, so [`ApiKeys::replace`] changes all clones.
///
/// Keys are random, so attackers cannot find a key by hashing a dictionary, and one round of SHA-256 is enough. The time of a lookup may
/// reveal a part of a listed hash, but no key can be computed from a hash.
#[derive(Clone, Debug)]
pub struct ApiKeys(Arc<ArcSwap<Table>>);

type Table = HashMap<[u8; 32], Entry>;

#[derive(Clone, Debug)]
struct Entry {
    client: KeyClient,
    expires: Option<Duration>,
    /// The time of the key's last use, in seconds since the epoch; 0 if the key was not used since the process started. When
    /// [`ApiKeys::replace`] makes a new table, the new entry shares this value with the old entry of the key.
    used: Arc<AtomicU64>,
}

/// A listed key, and its last use in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The SHA-256 of the key.
    pub sha256: [u8; 32],
    /// The time since the epoch at which the key expires. `None` if it never expires.
    pub expires: Option<Duration>,
    /// The time of the key's last use, in seconds since the epoch. `None` if the key was not used since the process started.
    pub last_used: Option<u64>,
}

/// The client of a listed key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyClient {
    pub(crate) name: Arc<str>,
    pub(crate) plan: Option<ClientPlan>,
}

impl ApiKeys {
    /// Makes a table of these keys.
    pub fn new(keys: impl IntoIterator<Item = ListedKey>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(table(keys, &Table::new()))))
    }

    /// Replaces all listed keys by `keys`. A key that was listed before keeps the time of its last use.
    pub fn replace(&self, keys: impl IntoIterator<Item = ListedKey>) {
        let next = table(keys, &self.0.load());
        self.0.store(Arc::new(next));
    }

    /// Shares the times of last use with `before`, for the keys that are listed in both.
    pub(crate) fn take_uses(&self, before: &Self) {
        let before = before.0.load();
        let mut next = Table::clone(&self.0.load());
        for (sha256, entry) in &mut next {
            if let Some(earlier) = before.get(sha256) {
                entry.used = earlier.used.clone();
            }
        }
        self.0.store(Arc::new(next));
    }

    /// Returns the listed keys of the client with this name, each with its last use.
    pub(crate) fn uses(&self, name: &str) -> Vec<KeyUse> {
        let table = self.0.load();
        let own = table
            .iter()
            .filter(|(_, entry)| &*entry.client.name == name);
        let uses = own.map(|(sha256, entry)| KeyUse {
            sha256: *sha256,
            expires: entry.expires,
            last_used: Some(entry.used.load(Ordering::Relaxed)).filter(|seconds| *seconds > 0),
        });
        uses.collect()
    }

    /// Returns the names of all listed keys, in no particular order.
    pub fn names(&self) -> Vec<Arc<str>> {
        let table = self.0.load();
        let names = table.values().map(|entry| entry.client.name.clone());
        names.collect()
    }

    /// Returns the client of the listed key of this name, even if the key has expired. `None` if no listed key has the name.
    pub(crate) fn called(&self, name: &str) -> Option<KeyClient> {
        let table = self.0.load();
        let mut clients = table.values().map(|entry| &entry.client);
        clients.find(|client| &*client.name == name).cloned()
    }

    /// Returns the name of a listed key that has expired. `None` for any other key.
    pub(crate) fn expired(&self, sha256: &[u8; 32]) -> Option<Arc<str>> {
        let table = self.0.load();
        let entry = table.get(sha256)?;
        entry
            .has_ended(since_epoch())
            .then(|| entry.client.name.clone())
    }

    /// Returns the client of a key that is listed and has not expired. The key counts as used now.
    pub(crate) fn client(&self, sha256: &[u8; 32]) -> Option<KeyClient> {
        let table = self.0.load();
        let entry = table.get(sha256)?;
        let now = since_epoch();
        if entry.has_ended(now) {
            return None;
        }
        let seconds = now.as_secs();
        // The time is written at most about once a second. More writes to shared memory would slow down all cores that serve this client.
        if entry.used.load(Ordering::Relaxed) != seconds {
            entry.used.store(seconds, Ordering::Relaxed);
        }
        Some(entry.client.clone())
    }
}

impl Entry {
    /// Whether the key has expired at `now`, a time since the epoch.
    fn has_ended(&self, now: Duration) -> bool {
        self.expires.is_some_and(|end| now >= end)
    }
}

/// Returns the time since the epoch. If the clock shows a time before the epoch, returns 0, so that no key counts as expired.
fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Returns the SHA-256 of a key. The hash identifies the key.
pub fn hash(key: &[u8]) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, key);
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    hash
}

fn table(keys: impl IntoIterator<Item = ListedKey>, before: &Table) -> Table {
    let entries = keys.into_iter().map(|key| {
        let earlier = before.get(&key.sha256);
        let entry = Entry {
            used: earlier.map_or_else(Arc::default, |earlier| earlier.used.clone()),
            client: KeyClient {
                name: key.name,
                plan: key.plan,
            },
            expires: key.expires,
        };
        (key.sha256, entry)
    });
    entries.collect()
}

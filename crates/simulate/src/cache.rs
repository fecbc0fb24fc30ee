//! What was found out before: most requests are of clients and paths that came already.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash};
use std::net::IpAddr;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

/// The most entries of a cache that grows with what clients may make up.
pub(crate) const BOUND: usize = 1 << 16;

/// Values by keys, of which each is kept in full beside its hash.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    values: HashMap<u64, (K, V), RandomState>,
    hasher: RandomState,
    bound: usize,
}

impl<K, V> Cache<K, V> {
    /// An empty cache for so many entries: then it begins anew.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            values: HashMap::default(),
            hasher: RandomState::default(),
            bound,
        }
    }

    pub(crate) fn hash(&self, key: &impl Hash) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The value of the key with this hash of which `is` is true.
    pub(crate) fn get(&self, hash: u64, is: impl FnOnce(&K) -> bool) -> Option<&V> {
        let (key, value) = self.values.get(&hash)?;
        is(key).then_some(value)
    }

    pub(crate) fn put(&mut self, hash: u64, key: K, value: V) {
        if self.values.len() >= self.bound {
            self.values.clear();
        }
        self.values.insert(hash, (key, value));
    }
}

/// What chooses a route of one log.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct PathKey<T> {
    pub(crate) place: usize,
    pub(crate) method: T,
    pub(crate) host: Option<T>,
    pub(crate) path: T,
}

/// The name of a client or plan. Most are kept in place: it is compared for each line.
pub(crate) type ShortText = SmallVec<[u8; 24]>;

/// What tells the callers of one log apart.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallerKey<T> {
    pub(crate) place: usize,
    pub(crate) policy: usize,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) client_ip: Option<IpAddr>,
    pub(crate) is_refused: bool,
    pub(crate) name: Option<T>,
    pub(crate) plan: Option<T>,
}

impl PathKey<&[u8]> {
    pub(crate) fn owned(&self) -> PathKey<Box<[u8]>> {
        PathKey {
            place: self.place,
            method: self.method.into(),
            host: self.host.map(Box::from),
            path: self.path.into(),
        }
    }
}

impl PathKey<Box<[u8]>> {
    pub(crate) fn is(&self, other: &PathKey<&[u8]>) -> bool {
        self.place == other.place
            && *self.method == *other.method
            && self.host.as_deref() == other.host
            && *self.path == *other.path
    }
}

impl CallerKey<&[u8]> {
    pub(crate) fn owned(&self) -> CallerKey<ShortText> {
        CallerKey {
            place: self.place,
            policy: self.policy,
            peer: self.peer,
            client_ip: self.client_ip,
            is_refused: self.is_refused,
            name: self.name.map(ShortText::from),
            plan: self.plan.map(ShortText::from),
        }
    }
}

impl CallerKey<ShortText> {
    pub(crate) fn is(&self, other: &CallerKey<&[u8]>) -> bool {
        self.place == other.place
            && self.policy == other.policy
            && self.peer == other.peer
            && self.client_ip == other.client_ip
            && self.is_refused == other.is_refused
            && self.name.as_deref() == other.name
            && self.plan.as_deref() == other.plan
    }
}

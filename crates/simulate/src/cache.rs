//! Caches the results of earlier requests, because most requests have the client and the path of an earlier request.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

/// A map from keys to values, with a maximum number of entries.
#[derive(Debug)]
pub(crate) struct Cache<V> {
    values: HashMap<Box<[u8]>, V, RandomState>,
    bound: usize,
}

impl<V> Cache<V> {
    /// Makes an empty cache for this number of entries. A full cache is cleared.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            values: HashMap::default(),
            bound,
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&V> {
        self.values.get(&key.0[..])
    }

    pub(crate) fn put(&mut self, key: &Key, value: V) {
        if self.values.len() >= self.bound {
            self.values.clear();
        }
        self.values.insert(key.0[..].into(), value);
    }
}

/// A cache key that is made of several parts. Two keys with the same sequence of part types are equal only if all parts are equal.
#[derive(Debug, Default)]
pub(crate) struct Key(SmallVec<[u8; 256]>);

impl Key {
    pub(crate) fn number(&mut self, number: usize) -> &mut Self {
        self.0.extend_from_slice(&number.to_ne_bytes());
        self
    }

    pub(crate) fn text(&mut self, text: Option<&[u8]>) -> &mut Self {
        self.number(text.map_or(usize::MAX, <[u8]>::len));
        self.0.extend_from_slice(text.unwrap_or_default());
        self
    }

    pub(crate) fn address(&mut self, address: Option<IpAddr>) -> &mut Self {
        let (family, bits) = match address {
            None => (0, 0),
            Some(IpAddr::V4(address)) => (4, address.to_bits().into()),
            Some(IpAddr::V6(address)) => (6, address.to_bits()),
        };
        self.0.push(family);
        self.0.extend_from_slice(&u128::to_ne_bytes(bits));
        self
    }
}

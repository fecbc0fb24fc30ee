//! A name for each request, for logs on both sides of the gateway.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;

/// A request's ID, in its extensions: what a trusted peer sent, or one of ours.
#[derive(Clone, Debug)]
pub struct RequestId(pub(crate) HeaderValue);

impl RequestId {
    /// The ID that a trusted peer sent. It is copied: a header of a request keeps the request's whole head in memory.
    pub fn given(id: &HeaderValue) -> Self {
        Self(copied(id.as_bytes()))
    }

    /// The ID as the value of a header.
    pub fn into_header(self) -> HeaderValue {
        self.0
    }

    /// The first `longest` bytes of the ID, or all of it.
    pub(crate) fn start(&self, longest: usize) -> Self {
        match self.0.as_bytes().get(..longest) {
            Some(start) => Self(copied(start)),
            None => self.clone(),
        }
    }
}

/// A header's value with memory of its own.
fn copied(bytes: &[u8]) -> HeaderValue {
    // Bytes of a header's value are always one.
    HeaderValue::from_bytes(bytes).unwrap_or(HeaderValue::from_static("-"))
}

/// Makes IDs that are unique among gateways: a number of this process, chosen at random, and a count.
#[derive(Debug)]
pub struct RequestIds {
    process: u64,
    count: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        Self {
            process: RandomState::new().build_hasher().finish(),
            count: AtomicU64::new(0),
        }
    }
}

impl RequestIds {
    /// The next ID.
    pub fn next(&self) -> RequestId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let number = u128::from(self.process) << 64 | u128::from(count);
        RequestId(copied(&hex(number)))
    }
}

/// Returns the digits that `{:032x}` writes, at a tenth of the cost.
pub(crate) fn hex(number: u128) -> [u8; 32] {
    std::array::from_fn(|nth| b"0123456789abcdef"[(number >> (124 - 4 * nth)) as usize % 16])
}

//! The ID of a request, by which an operator finds the same request in the logs of clients, gateways and servers.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;

/// The ID of a request, in the request's extensions. A trusted peer has sent it, or the gateway has made it.
#[derive(Clone, Debug)]
pub struct RequestId(pub(crate) HeaderValue);

impl RequestId {
    /// Copies the ID that a trusted peer sent. A reference to the header would keep the request's whole head in memory.
    pub fn given(id: &HeaderValue) -> Self {
        Self(copied(id.as_bytes()))
    }

    /// Returns the ID as the value of a header.
    pub fn into_header(self) -> HeaderValue {
        self.0
    }

    /// Returns the first `longest` bytes of the ID, or the whole ID if it is shorter.
    pub(crate) fn start(&self, longest: usize) -> Self {
        match self.0.as_bytes().get(..longest) {
            Some(start) => Self(copied(start)),
            None => self.clone(),
        }
    }
}

/// Returns a copy of a header's value that does not share the memory of the request's head.
fn copied(bytes: &[u8]) -> HeaderValue {
    // The bytes come from a header's value, so they are valid.
    HeaderValue::from_bytes(bytes).unwrap_or(HeaderValue::from_static("-"))
}

/// Makes IDs that are unique among all gateways: each has a random number of the process, and a count.
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
    /// Returns the next ID.
    pub fn next(&self) -> RequestId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let number = u128::from(self.process) << 64 | u128::from(count);
        RequestId(copied(&hex(number)))
    }
}

/// Returns the same digits as `{:032x}`, at a tenth of the cost.
pub(crate) fn hex(number: u128) -> [u8; 32] {
    std::array::from_fn(|nth| b"0123456789abcdef"[(number >> (124 - 4 * nth)) as usize % 16])
}

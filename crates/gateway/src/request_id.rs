//! A name for each request, for logs on both sides of the gateway.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;

/// A request's ID, in its extensions: what a trusted peer sent, or one of ours.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) HeaderValue);

/// Makes IDs that are unique among gateways: a number of this process, chosen at random, and a count.
#[derive(Debug)]
pub(crate) struct RequestIds {
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
    pub(crate) fn next(&self) -> RequestId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:016x}{count:016x}", self.process);
        let id = HeaderValue::try_from(id);
        RequestId(id.unwrap_or(HeaderValue::from_static("-")))
    }
}

//! The charges of a request: keys and costs.

mod key_text;
mod limit;
mod recall;

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use key_text::LimitIds;
pub(crate) use limit::words;
pub use limit::{Limit, OnFailure};
pub use recall::Recall;
use smallvec::SmallVec;
use tidegate_core::{HoldId, Micros};
use tidegate_redis::Word;

/// The most limits that one request can be charged to.
pub const MAX_CHARGES: usize = 16;

/// The lease, in us, of the holds that a request with keys in several slots takes until all these slots have answered.
pub(crate) const DECISION_LEASE: Micros = 10_000_000;

/// One item per charge of a request, in the order of the charges. Up to two items need no allocation and are cheap to move. Most requests
/// have at most two charges.
pub type PerCharge<T> = SmallVec<[T; 2]>;

/// Seeded once per process, so that a limit has the same hash after a reload.
static SEED: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);

/// The identity of a charge in every table of this process: the hash of the limit's ID, and the key. A reload that keeps the limit's ID
/// therefore keeps the state of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitKey {
    /// The hash of the limit's ID.
    pub(crate) limit: u64,
    pub(crate) key: Key,
}

impl LimitKey {
    pub(crate) const fn of(limit: &Limit, key: Key) -> Self {
        Self {
            limit: limit.id_hash(),
            key,
        }
    }

    /// Returns the key that new keys of this limit share while the table has no room for them.
    pub(crate) const fn shared(self) -> Self {
        let key = Key {
            tag: [0; 16],
            rest: [0; 16],
        };
        Self { key, ..self }
    }
}

impl Hash for LimitKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        // All parts are hashes already, so no further mixing is needed.
        let [tag, rest] = [self.key.tag, self.key.rest].map(u128::from_ne_bytes);
        state.write_u128(tag ^ rest.rotate_left(1) ^ u128::from(self.limit));
    }
}

/// The client or value that a charge is counted for, as keyed hashes: no client's name ever reaches a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The hash of the client, or of the value in its place. All limits of one client have the same hash here, so that their keys share a
    /// slot of a Redis Cluster.
    pub tag: [u8; 16],
    /// The hash of all other values by which the limit counts; zero without such values.
    pub rest: [u8; 16],
}

/// A hash of the caller's address, for a key with at least one unverified value that the caller chose. Other processes have other hashes of
/// the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(NonZeroU32);

impl Origin {
    /// Returns the origin of keys that this address chooses.
    pub fn of(address: IpAddr) -> Self {
        // Two addresses with the same hash count as one when the store bounds the keys per address.
        let hash = SEED.hash_one(address) as u32;
        Self(NonZeroU32::new(hash).unwrap_or(NonZeroU32::MIN))
    }
}

/// A cost to charge under one key of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The limit.
    pub limit: &'a Limit,
    /// The client or value that the charge is counted for.
    pub key: Key,
    /// Units to charge, from 1 to the quota's capacity.
    pub cost: u64,
    /// The address that chose the key. `None` if the values of the key are verified, or if the key can have only few values.
    pub origin: Option<Origin>,
}

/// The ID of the next request's holds. Each gateway begins at a random number of 64 bits, so that no two gateways use the same IDs.
static NEXT_HOLD: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0)));

/// Continues the IDs of holds from another random number, because a clone of this process would use the same IDs. `at` makes the number
/// differ from the clone's number: no other process has received an answer of Redis with this time.
pub(crate) fn renew_hold_ids(at: Micros) {
    NEXT_HOLD.store(RandomState::new().hash_one(at), Ordering::Relaxed);
}

/// Returns a new ID for the holds of a request with these charges; 0 if none of the charges takes a hold.
pub(crate) fn hold_of(charges: &[Charge<'_>]) -> HoldId {
    match charges.iter().any(|charge| charge.limit.lease().is_some()) {
        true => next_hold(),
        false => HoldId(0),
    }
}

/// Returns a new ID for the holds of a request.
pub(crate) fn next_hold() -> HoldId {
    HoldId(NEXT_HOLD.fetch_add(1, Ordering::Relaxed))
}

impl<'a> Charge<'a> {
    /// Returns the charge's identity in the tables of this process.
    pub(crate) const fn limit_key(&self) -> LimitKey {
        LimitKey::of(self.limit, self.key)
    }

    /// Returns the Redis keys of a charge: the keys of its state, of its holds and of its block, if the limit has them. With `is_held`, the
    /// key of holds is always included.
    pub(crate) fn keys(&self, prefix: &str, is_held: bool) -> impl Iterator<Item = Word> + use<'a> {
        let key = self.redis_key(prefix);
        let block = self.limit.block().map(|_| format!("{key}:block"));
        let is_held = is_held || self.limit.lease().is_some();
        let held = is_held.then(|| format!("{key}:held"));
        let state = (!self.limit.counts_running()).then_some(key);
        let keys = state.into_iter().chain(held).chain(block);
        keys.map(Word::from)
    }

    /// Returns the Redis key: `prefix:{tag}:limit:kind`, followed by `:rest` if the key has other values. A plan with budgets of its own
    /// has `limit@plan` in place of `limit`. Names contain no braces, so a Redis Cluster computes the slot from the tag alone.
    pub fn redis_key(&self, prefix: &str) -> String {
        key_of(prefix, self.limit.id(), &self.key)
    }
}

/// Returns the Redis key of the counts that the gateways have sent for a synced limit. `key` is the key of the limit's state.
pub(crate) fn notes_key(key: &str) -> String {
    format!("{key}:counted")
}

/// Returns the same key as [`Charge::redis_key`], given the limit's ID.
pub(crate) fn key_of(prefix: &str, limit_id: &str, key: &Key) -> String {
    let mut text = String::with_capacity(prefix.len() + 128);
    text.push_str(prefix);
    text.push_str(":{");
    push_hex(&mut text, &key.tag);
    text.push_str("}:");
    text.push_str(limit_id);
    if key.rest != [0; 16] {
        text.push(':');
        push_hex(&mut text, &key.rest);
    }
    text
}

fn push_hex(text: &mut String, bytes: &[u8; 16]) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{:032x}", u128::from_be_bytes(*bytes));
}

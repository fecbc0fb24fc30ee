//! The charges of a request: limits, keys and costs.

mod key_text;
mod recall;
pub(crate) mod words;

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

pub(crate) use key_text::LimitIds;
pub use recall::Recall;
use smallvec::SmallVec;
use tidegate_core::{Block, HoldId, Micros, Mode, Quota};
use tidegate_redis::Word;

/// The most limits that one request can be charged to.
pub const MAX_CHARGES: usize = 16;

/// The lease, in us, of the holds that a request with keys in several slots takes until all these slots have answered.
pub(crate) const DECISION_LEASE: Micros = 10_000_000;

/// One item per charge of a request, in the order of the charges. Up to two items need no allocation and are cheap to move. Most requests
/// have at most two charges.
pub type PerCharge<T> = SmallVec<[T; 2]>;

/// The policy of a limit while Redis does not decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// This process counts alone, with its share of the quota. The count begins with the used units in Redis's last answer.
    #[default]
    Local,
    /// This limit admits the request.
    Open,
    /// The request is answered with 503.
    Closed,
}

/// A named rule: a quota, the mode in which gateways share it, and its policy without Redis.
#[derive(Clone, Debug)]
pub struct Limit {
    name: String,
    // The part of the keys that names a plan or an override with budgets of its own. Empty for the limit's own budgets.
    budget: String,
    quota: Quota,
    on_failure: OnFailure,
    mode: Mode,
    is_shared: bool,
    is_observed: bool,
    block: Option<Block>,
    reserves: Option<Micros>,
    // Values that are computed from the fields above once, and not for each request.
    made: Made,
}

impl Limit {
    /// Creates a limit. `name` becomes a part of its keys.
    pub fn new(name: impl Into<String>, quota: impl Into<Quota>, on_failure: OnFailure) -> Self {
        let limit = Self {
            name: name.into(),
            budget: String::new(),
            quota: quota.into(),
            on_failure,
            mode: Mode::default(),
            is_shared: false,
            is_observed: false,
            block: None,
            reserves: None,
            made: Made::default(),
        };
        limit.made()
    }

    /// Makes the limit observed: it counts requests, but refuses none.
    #[must_use]
    pub fn observed(mut self) -> Self {
        self.is_observed = true;
        self.made()
    }

    /// Makes the limit block each key that exceeds it.
    #[must_use]
    pub fn blocking(mut self, block: Block) -> Self {
        self.block = Some(block);
        self.made()
    }

    /// Sets the mode in which gateways share the limit.
    #[must_use]
    pub fn in_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Marks the limit as shared by many clients. Cached refusals by this limit stay valid if Redis cannot read a key of one client's
    /// request.
    #[must_use]
    pub fn shared(self) -> Self {
        Self {
            is_shared: true,
            ..self
        }
    }

    /// Returns the same limit with another quota. The keys stay the same if both quotas are of one [kind](Quota::kind).
    #[must_use]
    pub fn with_quota(&self, quota: impl Into<Quota>) -> Self {
        let mut limit = self.clone();
        limit.quota = quota.into();
        limit.made()
    }

    /// Gives a plan budgets of its own: the plan's name becomes a part of the keys.
    #[must_use]
    pub fn of_plan(self, plan: &str) -> Self {
        self.in_budget(format!("@{plan}"))
    }

    /// Gives overrides budgets of their own. The keys of plans differ from the keys of overrides.
    #[must_use]
    pub fn of_override(self) -> Self {
        self.in_budget("+set".to_owned())
    }

    /// Gives the numbers that callers set for themselves budgets of their own, beside the limit's budgets.
    #[must_use]
    pub fn of_caller(self) -> Self {
        self.in_budget("+own".to_owned())
    }

    fn in_budget(self, budget: String) -> Self {
        Self { budget, ..self }.made()
    }

    /// Makes each request hold its cost until the request ends. A hold that is neither ended nor renewed for `lease` us is charged.
    #[must_use]
    pub fn reserving(mut self, lease: Micros) -> Self {
        self.reserves = Some(lease);
        self.made()
    }

    /// Returns the limit's name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the plan whose numbers the limit has. `None` for the limit's own numbers, and for numbers of overrides or callers.
    pub fn plan(&self) -> Option<&str> {
        self.budget.strip_prefix('@')
    }

    /// Returns the limit's quota.
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Returns the limit's policy while Redis does not decide.
    pub const fn on_failure(&self) -> OnFailure {
        self.on_failure
    }

    /// Returns the mode in which gateways share the limit.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the limit counts running requests, and charges no cost (`concurrency`).
    pub(crate) fn counts_running(&self) -> bool {
        self.quota.lease().is_some()
    }

    /// Whether the limit only counts, and refuses no request.
    pub const fn is_observed(&self) -> bool {
        self.is_observed
    }

    /// Returns the block that starts when a key exceeds the limit. `None` if the limit has no block.
    pub const fn block(&self) -> Option<Block> {
        self.block
    }

    /// Returns the lease, in us, of the holds that reserve a cost until the response sets the real cost. `None` if requests reserve no
    /// cost.
    pub const fn reserves(&self) -> Option<Micros> {
        self.reserves
    }

    /// Returns the time after which a hold of an admitted request lapses unless it is renewed, in us. `None` if requests take no holds.
    pub const fn lease(&self) -> Option<Micros> {
        self.made.lease
    }

    /// Whether a refusal stays valid until its `retry_after` has passed. False for an observed limit, which refuses no request, and for a
    /// limit with holds, because held units may become free at any moment.
    pub fn is_refusal_final(&self) -> bool {
        !self.is_observed && self.lease().is_none()
    }

    /// Whether many clients share the limit ([`Self::shared`]).
    pub(crate) const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns the part of the keys that identifies the limit: its name, a plan with its own budget, the algorithm and the window.
    pub fn id(&self) -> &str {
        &self.made.id
    }

    /// Returns the hash of the limit's ID. The [`LimitKey`] of every charge contains this hash.
    pub(crate) const fn id_hash(&self) -> u64 {
        self.made.hash
    }

    /// Returns the words that scripts receive: one for each option and number of the limit, and an empty word in place of the cost.
    pub(crate) fn words(&self) -> &[Word] {
        &self.made.words
    }

    /// Computes the derived fields.
    fn made(mut self) -> Self {
        let id = format!("{}{}:{}", self.name, self.budget, self.quota.kind());
        self.made.lease = self.quota.lease().or(self.reserves);
        self.made = Made {
            hash: SEED.hash_one(&id),
            words: words::of(&self),
            id,
            ..self.made
        };
        self
    }
}

/// Fields that are derived from a limit once.
#[derive(Clone, Debug, Default)]
struct Made {
    // "name:kind" or "name@plan:kind", which identifies this limit's keys in either store.
    id: String,
    hash: u64,
    words: Arc<[Word]>,
    lease: Option<Micros>,
}

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
        let block = self.limit.block.map(|_| format!("{key}:block"));
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

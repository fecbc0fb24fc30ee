//! What a request asks of the store: limits, keys and costs.

pub(crate) mod words;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;
use tidegate_core::{Block, HoldId, Micros, Mode, Quota};
use tidegate_redis::Word;

/// The most limits that one request can be charged to.
pub const MAX_CHARGES: usize = 16;

/// The lease of what a request holds until all of its limits are decided, in us.
pub(crate) const DECISION_LEASE: Micros = 10_000_000;

/// Something for each charge of a request, in their order. Most requests have one or two charges: for these it needs no
/// allocation, and as it is small, it is cheap to hand on.
pub type PerCharge<T> = SmallVec<[T; 2]>;

/// What decides when Redis does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// This process goes on counting alone, with its share of the quota, from what Redis last said.
    #[default]
    Local,
    /// The request goes through as far as this limit is concerned.
    Open,
    /// The request is answered with 503.
    Closed,
}

/// A named rule: a quota, how gateways share it, and what happens to it without a store.
#[derive(Clone, Debug)]
pub struct Limit {
    name: String,
    // The plan with these budgets, as a part of the keys. Empty for the limit's own budgets.
    budget: String,
    quota: Quota,
    on_failure: OnFailure,
    mode: Mode,
    is_shared: bool,
    is_observed: bool,
    block: Option<Block>,
    reserves: Option<Micros>,
    // Made of the above once, so that no request makes it again.
    made: Made,
}

impl Limit {
    /// A limit called `name`, which becomes a part of its keys.
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

    /// As one that only counts, and refuses nobody.
    #[must_use]
    pub fn observed(mut self) -> Self {
        self.is_observed = true;
        self.made()
    }

    /// As one whose keys are refused for a while once it was exceeded.
    #[must_use]
    pub fn blocking(mut self, block: Block) -> Self {
        self.block = Some(block);
        self.made()
    }

    /// As one that gateways share in this way.
    #[must_use]
    pub fn in_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// As one that many clients are charged to together: where charges are made one after the other, it comes first.
    #[must_use]
    pub fn shared(self) -> Self {
        Self {
            is_shared: true,
            ..self
        }
    }

    /// The same limit with other numbers. Its keys are the same if the quotas are of one [kind](Quota::kind).
    #[must_use]
    pub fn with_quota(&self, quota: impl Into<Quota>) -> Self {
        let mut limit = self.clone();
        limit.quota = quota.into();
        limit.made()
    }

    /// Gives the plan of this name budgets of its own: the name becomes a part of the keys.
    #[must_use]
    pub fn of_plan(mut self, plan: &str) -> Self {
        self.budget = format!("@{plan}");
        self.made()
    }

    /// Gives numbers that operators set for clients budgets of their own. No plan has the same keys.
    #[must_use]
    pub fn of_override(mut self) -> Self {
        self.budget = "+set".to_owned();
        self.made()
    }

    /// Lets requests hold their cost until they end. A hold that is neither ended nor renewed for `lease` us is charged.
    #[must_use]
    pub fn reserving(mut self, lease: Micros) -> Self {
        self.reserves = Some(lease);
        self.made()
    }

    /// The name that users gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its numbers.
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// What decides when Redis does not.
    pub const fn on_failure(&self) -> OnFailure {
        self.on_failure
    }

    /// How gateways share it.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether it counts running requests, and charges no cost.
    pub(crate) fn counts_running(&self) -> bool {
        self.quota.lease().is_some()
    }

    /// Whether it only counts, and refuses nobody.
    pub const fn is_observed(&self) -> bool {
        self.is_observed
    }

    /// What becomes of a key once it was exceeded.
    pub const fn block(&self) -> Option<Block> {
        self.block
    }

    /// The lease of holds of a limit whose costs come with answers, in us. None if requests are charged at once.
    pub const fn reserves(&self) -> Option<Micros> {
        self.reserves
    }

    /// The time after which a hold of an admitted request lapses unless it is renewed, in us. None if requests take no holds.
    pub const fn lease(&self) -> Option<Micros> {
        self.made.lease
    }

    /// Whether what it refuses stays refused until the time to come back. A limit that is only observed refuses nobody, and what is
    /// held may be free again at any moment.
    pub fn is_refusal_final(&self) -> bool {
        !self.is_observed && self.lease().is_none()
    }

    /// Whether many clients are charged to it together.
    pub(crate) const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns the part of the keys that identifies the limit: its name, a plan with its own budget, the algorithm and the window.
    pub fn id(&self) -> &str {
        &self.made.id
    }

    /// The hash of its ID, which all of its keys have.
    pub(crate) const fn id_hash(&self) -> u64 {
        self.made.hash
    }

    /// What scripts take of it: one word for each of its ways and numbers. In place of the cost stands an empty word.
    pub(crate) fn words(&self) -> &[Word] {
        &self.made.words
    }

    /// Makes what is made of it once.
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

/// What is made of a limit once.
#[derive(Clone, Debug, Default)]
struct Made {
    // "name:kind" or "name@plan:kind", which identifies this limit's keys in either store.
    id: String,
    hash: u64,
    words: Arc<[Word]>,
    lease: Option<Micros>,
}

/// Seeded per process; a limit has the same hash after a reload.
static SEED: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);

/// A limit, by the hash of its ID, and whom it is counted for: by this every table of this process knows a charge. State
/// outlives a reload, as the ID stays the same.
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

    /// What newcomers of this limit share while there is no room for a key of their own.
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
        // Keyed hashes, and a hash: nothing more has to be mixed.
        let [tag, rest] = [self.key.tag, self.key.rest].map(u128::from_ne_bytes);
        state.write_u128(tag ^ rest.rotate_left(1) ^ u128::from(self.limit));
    }
}

/// Whom or what a charge is counted for, as keyed hashes: no client's name ever reaches a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The hash of the client, or of what stands in its place. It is equal for all limits of one client, so that in a Redis Cluster
    /// their keys share a slot.
    pub tag: [u8; 16],
    /// The hash of everything else that the limit is counted per; zero when there is nothing else.
    pub rest: [u8; 16],
}

/// Clients for whom other limits hold from now on: what is remembered of them is looked at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recall {
    /// All clients.
    All,
    /// Those with these hashes ([`Key::tag`]).
    Clients(HashSet<[u8; 16]>),
}

impl Recall {
    pub(crate) fn concerns(&self, key: &Key) -> bool {
        match self {
            Self::All => true,
            Self::Clients(tags) => tags.contains(&key.tag),
        }
    }
}

/// The address that chose the values of a key, none of which is verified, as a hash of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(NonZeroU32);

impl Origin {
    /// The origin of keys that this address chooses.
    pub fn of(address: IpAddr) -> Self {
        // Two addresses with one hash share a bound.
        let hash = SEED.hash_one(address) as u32;
        Self(NonZeroU32::new(hash).unwrap_or(NonZeroU32::MIN))
    }
}

/// One limit, one key, one cost.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The rule.
    pub limit: &'a Limit,
    /// Whom it is counted for.
    pub key: Key,
    /// Units to charge, from 1 to the quota's capacity.
    pub cost: u64,
    /// The address that chose the key; none: what the key is made of is verified, or has few values.
    pub origin: Option<Origin>,
}

/// The ID of what the next request holds. Gateways begin at random numbers of 64 bits, so no two requests have the same.
static NEXT_HOLD: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(0)));

/// Goes on from another random number: a clone of this process counts from the same one. `at` is the time of an answer that no
/// other process has had.
pub(crate) fn renew_hold_ids(at: Micros) {
    NEXT_HOLD.store(RandomState::new().hash_one(at), Ordering::Relaxed);
}

/// An ID for what a request with these charges holds, in one decision; 0 if it holds nothing.
pub(crate) fn hold_of(charges: &[Charge<'_>]) -> HoldId {
    let holds = |charge: &Charge<'_>| charge.limit.lease().is_some();
    if !charges.iter().any(holds) {
        return HoldId(0);
    }
    next_hold()
}

/// An ID for what a request holds.
pub(crate) fn next_hold() -> HoldId {
    HoldId(NEXT_HOLD.fetch_add(1, Ordering::Relaxed))
}

impl<'a> Charge<'a> {
    /// By what this process knows it.
    pub(crate) const fn limit_key(&self) -> LimitKey {
        LimitKey::of(self.limit, self.key)
    }

    /// Returns the keys of a charge: of its state, of holds, and of a block, as far as the limit has these. With `is_held` the key of holds is
    /// always there.
    pub(crate) fn keys(&self, prefix: &str, is_held: bool) -> impl Iterator<Item = Word> + use<'a> {
        let key = self.redis_key(prefix);
        let block = self.limit.block.map(|_| format!("{key}:block"));
        let is_held = is_held || self.limit.lease().is_some();
        let held = is_held.then(|| format!("{key}:held"));
        let state = (!self.limit.counts_running()).then_some(key);
        let keys = state.into_iter().chain(held).chain(block);
        keys.map(Word::from)
    }

    /// The Redis key, `prefix:{tag}:limit:kind` and the rest's hash; `limit@plan` for a plan with a budget of its own. Only the tag
    /// stands in braces, since names hold none.
    pub fn redis_key(&self, prefix: &str) -> String {
        key_of(prefix, self.limit.id(), &self.key)
    }
}

/// The key of the notes of a limit that gateways count by themselves: the counts that each gateway has sent.
pub(crate) fn notes_key(key: &str) -> String {
    format!("{key}:counted")
}

/// As [`Charge::redis_key`], by the limit's ID.
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

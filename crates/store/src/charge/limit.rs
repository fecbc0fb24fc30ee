//! A limit, as the store charges it: a quota, and how it is shared.

pub(crate) mod words;

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Block, FairShare, Micros, Mode, Quota, QuotaError};
use tidegate_redis::Word;

use super::SEED;

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
    // The time between two exchanges of the counts of a synced limit. `None` for the store's.
    sync_every: Option<Duration>,
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
            sync_every: None,
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

    /// Sets the time between two exchanges of the counts of a synced limit, in place of the store's: a millisecond at least. The times
    /// of gateways may differ.
    #[must_use]
    pub fn synced_every(self, every: Duration) -> Self {
        Self {
            sync_every: Some(every.max(Duration::from_millis(1))),
            ..self
        }
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

    /// Returns the limit of a member's share in this limit, for members of this weight. Its name is this limit's name and `/share`.
    ///
    /// # Errors
    ///
    /// [`FairShare::of`] refuses the quota or the weight.
    pub fn share(&self, weight: u64) -> Result<Self, QuotaError> {
        let quota = FairShare::of(&self.quota, weight)?.into();
        let limit = Self {
            name: format!("{}/share", self.name),
            quota,
            block: None,
            is_shared: false,
            ..self.clone()
        };
        Ok(limit.made())
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

    /// Returns the time between two exchanges of the counts of a synced limit. `None` for the store's.
    pub const fn sync_every(&self) -> Option<Duration> {
        self.sync_every
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

    /// Returns the hash of the limit's ID. The [`LimitKey`](super::LimitKey) of every charge contains this hash.
    pub const fn id_hash(&self) -> u64 {
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

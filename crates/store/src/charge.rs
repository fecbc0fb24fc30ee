//! What a request asks of the store: limits, keys and costs.

use std::fmt::Write as _;

use tidegate_core::Quota;

/// The most limits that one request can be charged to.
pub const MAX_CHARGES: usize = 16;

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

/// A named rule: a quota, and what happens to it without a store.
#[derive(Clone, Debug)]
pub struct Limit {
    name: String,
    quota: Quota,
    on_failure: OnFailure,
    is_shared: bool,
    // "name:kind", which identifies this limit's keys in either store.
    id: String,
}

impl Limit {
    /// A limit called `name`, which becomes a part of its keys.
    pub fn new(name: impl Into<String>, quota: impl Into<Quota>, on_failure: OnFailure) -> Self {
        let (name, quota) = (name.into(), quota.into());
        Self {
            id: format!("{name}:{}", quota.kind()),
            name,
            quota,
            on_failure,
            is_shared: false,
        }
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
        let quota = quota.into();
        Self {
            id: format!("{}:{}", self.name, quota.kind()),
            quota,
            ..self.clone()
        }
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

    /// Whether many clients are charged to it together.
    pub(crate) const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// What identifies this limit's keys: its name, algorithm and window.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

/// Whom or what a charge is counted for, as keyed hashes: no client's name ever reaches a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The hash of the client (or of what stands in its place): equal for all limits of one client, so that in a Redis
    /// Cluster their keys share a slot.
    pub tag: [u8; 16],
    /// The hash of everything else that the limit is counted per; zero when there is nothing else.
    pub rest: [u8; 16],
}

/// One limit, one key, one cost.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The rule.
    pub limit: &'a Limit,
    /// Whom it is counted for.
    pub subject: Subject,
    /// Units to charge, from 1 to the quota's capacity.
    pub cost: u64,
}

impl Charge<'_> {
    /// The Redis key, `prefix:{tag}:limit:kind` and the rest's hash: only the tag stands in braces, whatever users
    /// name their limits (names hold no braces).
    pub fn key(&self, prefix: &str) -> String {
        let mut key = String::with_capacity(prefix.len() + 128);
        key.push_str(prefix);
        key.push_str(":{");
        push_hex(&mut key, &self.subject.tag);
        key.push_str("}:");
        key.push_str(self.limit.id());
        if self.subject.rest != [0; 16] {
            key.push(':');
            push_hex(&mut key, &self.subject.rest);
        }
        key
    }
}

fn push_hex(text: &mut String, bytes: &[u8; 16]) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{:032x}", u128::from_be_bytes(*bytes));
}

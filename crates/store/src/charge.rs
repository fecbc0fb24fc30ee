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

/// How the gateways on one Redis share a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Redis decides on every request.
    #[default]
    Exact,
    /// A gateway borrows a slice of a budget from Redis and spends it by itself; together they never spend more.
    Leased,
    /// Gateways count by themselves and tell Redis the differences now and then; only for window counters.
    Synced,
    /// Each gateway counts for itself, and Redis is never asked.
    Local,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Exact, Self::Leased, Self::Synced, Self::Local];

    /// Its name in YAML.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Leased => "leased",
            Self::Synced => "synced",
            Self::Local => "local",
        }
    }
}

/// A named rule: a quota, how gateways share it, and what happens to it without a store.
#[derive(Clone, Debug)]
pub struct Limit {
    name: String,
    quota: Quota,
    on_failure: OnFailure,
    mode: Mode,
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
            mode: Mode::default(),
            is_shared: false,
        }
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
        key_of(prefix, self.limit.id(), &self.subject)
    }
}

/// As [`Charge::key`], by the limit's ID.
pub(crate) fn key_of(prefix: &str, limit_id: &str, subject: &Subject) -> String {
    let mut key = String::with_capacity(prefix.len() + 128);
    key.push_str(prefix);
    key.push_str(":{");
    push_hex(&mut key, &subject.tag);
    key.push_str("}:");
    key.push_str(limit_id);
    if subject.rest != [0; 16] {
        key.push(':');
        push_hex(&mut key, &subject.rest);
    }
    key
}

fn push_hex(text: &mut String, bytes: &[u8; 16]) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{:032x}", u128::from_be_bytes(*bytes));
}

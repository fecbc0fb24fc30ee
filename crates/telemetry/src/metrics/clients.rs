//! Counts for each client: use, refusals and nearness to limits. Clients are never labels of metrics, because there may be millions.

mod refused;

use std::hash::{BuildHasher as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use tidegate_core::{Quota, Verdict};
use tidegate_identity::Client;
use tidegate_net::text::cut;
use tidegate_status::document::Refusal;
use tidegate_status::{Hitters, Measure, NearLimits, Nearness, Recent};
use tidegate_tower::{Decided, Rule};

pub use refused::{LastRefused, MOST_REFUSED, REFUSED_A_SECOND, RefusedAnswer};

/// The most bytes of a client's name.
const MAX_NAME: usize = 64;
/// The most refusals that are kept.
const REFUSALS: usize = 100;
/// The most refusals that are added in a second.
const REFUSALS_A_SECOND: u32 = 20;

/// A client's name, which is formatted only when it is shown. A copy costs less than a formatted name, and few names are ever shown.
#[derive(Clone, Debug)]
pub struct ClientName(Client);

/// A limit with its number in [`ClientMetrics`].
#[derive(Clone, Debug)]
pub(super) struct NumberedLimit {
    number: u32,
    // Whether the limit's key has a value that identifies the client. If not, all clients share one budget, and no single client counts as
    // near the limit.
    is_callers: bool,
    pub(super) name: Arc<str>,
}

/// Counts for each client.
#[derive(Debug)]
pub struct ClientMetrics {
    /// The clients with the highest use and the most refusals, and the clients near a limit.
    pub hitters: Hitters<ClientName>,
    /// The last refusals.
    pub refusals: Recent<Refusal>,
    /// The last refusals, by request ID.
    pub refused: LastRefused,
    // The names of all limits since start, also of limits that a reload removed. A limit's number is its index here.
    limits: Mutex<Vec<Arc<str>>>,
    seed: RandomState,
}

impl Default for ClientMetrics {
    fn default() -> Self {
        let threads = std::thread::available_parallelism();
        Self {
            hitters: Hitters::new(threads.map_or(1, usize::from)),
            refusals: Recent::new(REFUSALS, REFUSALS_A_SECOND),
            refused: LastRefused::default(),
            limits: Mutex::default(),
            seed: RandomState::default(),
        }
    }
}

impl ClientMetrics {
    /// Returns the limit of `rule`, with the limit's number.
    pub(super) fn numbered(&self, rule: &Rule, name: &Arc<str>) -> NumberedLimit {
        let mut limits = self.limits.lock();
        let place = limits.iter().position(|limit| limit == name);
        let number = place.unwrap_or_else(|| {
            limits.push(name.clone());
            limits.len() - 1
        });
        NumberedLimit {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            is_callers: rule.is_callers(),
            name: name.clone(),
        }
    }

    /// Returns the name of the limit with this number.
    pub fn limit(&self, number: u32) -> Option<Arc<str>> {
        self.limits.lock().get(number as usize).cloned()
    }

    /// Counts a request of a client with the hash `key`. `added` has the units or the refusal to count, if any. `near` has the limits of which the client has a
    /// fifth of the quota or less left.
    // Not inlined, so that the compiler has more registers here.
    #[inline(never)]
    pub(super) fn count(
        &self,
        client: &Client,
        key: u64,
        added: Option<(Measure, u64)>,
        near: &NearLimits,
    ) {
        let name = || ClientName::of(client);
        self.hitters.count(key, added, near, name);
    }

    /// Adds a refusal on this route. `limit` returns the limit at an index in the route's list of limits.
    #[inline]
    pub(super) fn refused<'a>(
        &self,
        route: &str,
        limit: impl Fn(usize) -> Option<&'a NumberedLimit>,
        decided: &Decided,
    ) {
        self.refusals.add(|| refusal(route, limit, decided));
    }

    /// Returns a client's hash. The hash depends on a random seed, so it has a meaning only in this process.
    #[inline]
    pub(super) fn key(&self, client: &Client) -> u64 {
        // Most clients are IPv4 addresses. Such an address is hashed as a number, because a number is faster to hash than bytes.
        match client {
            Client::Ip(IpAddr::V4(address)) => {
                let mut hasher = self.seed.build_hasher();
                hasher.write_u64(3 << 32 | u64::from(u32::from_ne_bytes(address.octets())));
                hasher.finish()
            }
            other => self.key_of_bytes(other),
        }
    }

    #[inline(never)]
    fn key_of_bytes(&self, client: &Client) -> u64 {
        let mut hasher = self.seed.build_hasher();
        let (kind, name) = match client {
            Client::ApiKey(name) => (0, name.as_bytes()),
            Client::UnlistedKey(hash) => (1, &hash[..]),
            Client::UserId(id) => (2, id.as_bytes()),
            Client::Ip(IpAddr::V4(address)) => (3, &address.octets()[..]),
            Client::Ip(IpAddr::V6(address)) => (4, &address.octets()[..]),
            Client::Certificate(name) => (5, name.as_bytes()),
        };
        hasher.write(name);
        hasher.write_u8(kind);
        hasher.finish()
    }
}

impl NumberedLimit {
    /// Returns how near a client is to this limit. `None` if more than a fifth of the quota is left, or if all clients share one budget.
    #[inline]
    pub(super) fn nearness(&self, quota: &Quota, verdict: &Verdict) -> Option<Nearness> {
        let (left, of) = (verdict.remaining, quota.capacity());
        let is_near = self.is_callers && Nearness::is_near(left, of);
        let limit = self.number;
        is_near.then_some(Nearness { limit, left, of })
    }
}

impl ClientName {
    // Not inlined, because few requests need a name. So the common path has more registers.
    #[cold]
    #[inline(never)]
    fn of(client: &Client) -> Self {
        // Keeps a few bytes more than the bound, so that `shown` still marks the name as cut.
        let kept = |name: &str| name.floor_char_boundary(MAX_NAME + 4);
        Self(match client {
            Client::UserId(id) if id.len() > kept(id) => Client::UserId(id[..kept(id)].into()),
            Client::ApiKey(name) if name.len() > kept(name) => {
                Client::ApiKey(name[..kept(name)].into())
            }
            Client::Certificate(name) if name.len() > kept(name) => {
                Client::Certificate(name[..kept(name)].into())
            }
            other => other.clone(),
        })
    }

    /// Returns at most 64 bytes of the name, and whether the name is cut.
    pub fn shown(&self) -> (String, bool) {
        let whole = self.0.to_string();
        match whole.len() > MAX_NAME {
            true => (cut(&whole, MAX_NAME - 3).into_cow().into_owned(), true),
            false => (whole, false),
        }
    }
}

/// Returns the index of the refusing limit with the longest wait, and the wait in seconds, rounded up.
fn longest_refusal(decided: &Decided) -> Option<(usize, u64)> {
    let (index, verdict) = decided
        .verdicts()
        .filter(|entry| !entry.limit.is_observed())
        .filter_map(|entry| Some((entry.index, entry.verdict?)))
        .filter(|(_, verdict)| !verdict.allowed)
        .max_by_key(|(_, verdict)| verdict.retry_after)?;
    Some((index, verdict.retry_after.div_ceil(1_000_000)))
}

fn refusal<'a>(
    route: &str,
    limit: impl Fn(usize) -> Option<&'a NumberedLimit>,
    decided: &Decided,
) -> Refusal {
    let longest = longest_refusal(decided);
    let (client, is_cut) = ClientName::of(&decided.client).shown();
    Refusal {
        at: epoch_ms(),
        client,
        is_cut,
        limit: longest
            .and_then(|(index, _)| limit(index))
            .map_or_else(String::new, |limit| limit.name.to_string()),
        route: route.to_string(),
        retry_after: longest.map_or(0, |(_, seconds)| seconds),
    }
}

/// Returns the current time, in ms since the epoch.
pub(crate) fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    u64::try_from(millis).unwrap_or(u64::MAX)
}

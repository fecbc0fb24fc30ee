//! Who uses most, who is refused, and who is near a limit. Never a label of a metric: there may be millions of clients.

use std::hash::{BuildHasher as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tidegate_net::text::cut;
use tidegate_status::document::Refusal;
use tidegate_status::{Hitters, Measure, Nearness, Recent};
use tidegate_store::{Decision, Outcome};
use tidegate_tower::{Client, Decided};

/// How much of a client's name is kept, in bytes.
const MAX_NAME: usize = 64;
/// Refusals that are kept, and how many are taken in a second.
const REFUSALS: usize = 100;
const REFUSALS_A_SECOND: u32 = 20;

/// A client's name, as far as it is kept.
#[derive(Debug)]
pub struct ClientName {
    /// Its first 64 bytes at most.
    pub text: Box<str>,
    /// Whether there is more of it.
    pub is_cut: bool,
}

/// A limit, and the number under which [`ClientMetrics`] knows it.
#[derive(Clone, Debug)]
pub(super) struct NumberedLimit {
    number: u32,
    name: Arc<str>,
}

/// What is counted of clients.
#[derive(Debug)]
pub struct ClientMetrics {
    /// Who uses most, who is refused most, and who is near a limit.
    pub hitters: Hitters<Arc<ClientName>>,
    /// The last refusals.
    pub refusals: Recent<Refusal>,
    // By number. There are as many as configurations have had.
    limits: Mutex<Vec<Arc<str>>>,
    seed: RandomState,
}

impl Default for ClientMetrics {
    fn default() -> Self {
        let threads = std::thread::available_parallelism();
        Self {
            hitters: Hitters::new(threads.map_or(1, usize::from)),
            refusals: Recent::new(REFUSALS, REFUSALS_A_SECOND),
            limits: Mutex::default(),
            seed: RandomState::default(),
        }
    }
}

impl ClientMetrics {
    /// The number of a limit.
    pub(super) fn numbered(&self, name: &Arc<str>) -> NumberedLimit {
        let mut limits = self.limits.lock();
        let known = limits.iter().position(|limit| limit == name);
        let number = known.unwrap_or_else(|| {
            limits.push(name.clone());
            limits.len() - 1
        });
        NumberedLimit {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            name: name.clone(),
        }
    }

    /// The limit with this number.
    pub fn limit(&self, number: u32) -> Option<Arc<str>> {
        self.limits.lock().get(number as usize).cloned()
    }

    /// A request was decided on this route, whose limits these are, in order.
    pub(super) fn decided(
        &self,
        route: &Arc<str>,
        limits: &[NumberedLimit],
        decided: &Decided,
        decision: &Decision,
    ) {
        let key = self.key(&decided.client);
        let name = || Arc::new(ClientName::of(&decided.client));
        match decision.outcome {
            Outcome::Admitted if decided.cost > 0 => {
                self.hitters.add(Measure::Admitted, key, decided.cost, name);
            }
            Outcome::Admitted | Outcome::Unavailable => {}
            Outcome::Refused => {
                self.hitters.add(Measure::Refused, key, 1, name);
                self.refusals.add(|| refusal(route, limits, decided));
            }
        }
        for said in decided.verdicts() {
            let (Some(verdict), Some(limit)) = (said.verdict, limits.get(said.index)) else {
                continue;
            };
            let (left, of) = (verdict.remaining, said.limit.quota().capacity());
            if !verdict.allowed || Nearness::is_near(left, of) {
                let limit = limit.number;
                self.hitters.near(key, Nearness { limit, left, of }, name);
            }
        }
    }

    /// A client's hash, of this process alone.
    fn key(&self, client: &Client) -> u64 {
        let mut hasher = self.seed.build_hasher();
        let (kind, name) = match client {
            Client::ApiKey(name) => (0, name.as_bytes()),
            Client::UnlistedKey(hash) => (1, &hash[..]),
            Client::UserId(id) => (2, id.as_bytes()),
            Client::Ip(IpAddr::V4(address)) => (3, &address.octets()[..]),
            Client::Ip(IpAddr::V6(address)) => (4, &address.octets()[..]),
        };
        hasher.write(name);
        hasher.write_u8(kind);
        hasher.finish()
    }
}

impl ClientName {
    fn of(client: &Client) -> Self {
        let whole = client.to_string();
        let is_cut = whole.len() > MAX_NAME;
        let text = match is_cut {
            true => cut(&whole, MAX_NAME - 3).into_cow().into(),
            false => whole.into(),
        };
        Self { text, is_cut }
    }
}

/// The limit that keeps the client waiting for longest is told of.
fn refusal(route: &Arc<str>, limits: &[NumberedLimit], decided: &Decided) -> Refusal {
    let refusing = decided.verdicts().filter(|said| !said.limit.is_observed());
    let refusing = refusing.filter_map(|said| Some((said.index, said.verdict?)));
    let refusing = refusing.filter(|(_, verdict)| !verdict.allowed);
    let longest = refusing.max_by_key(|(_, verdict)| verdict.retry_after);
    let name = ClientName::of(&decided.client);
    Refusal {
        at: epoch_ms(),
        client: name.text.into(),
        is_cut: name.is_cut,
        limit: longest
            .and_then(|(index, _)| limits.get(index))
            .map_or_else(String::new, |limit| limit.name.to_string()),
        route: route.to_string(),
        retry_after: longest.map_or(0, |(_, verdict)| verdict.retry_after.div_ceil(1_000_000)),
    }
}

/// Now, in ms since the epoch.
pub(crate) fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.map_or(0, |since| since.as_millis());
    u64::try_from(since).unwrap_or(u64::MAX)
}

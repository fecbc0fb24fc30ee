//! Which server takes the next request.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::server::Server;
use super::settings::Balance;

/// What one unit of weight is divided into, for servers that start slowly.
const PARTS: f64 = 100.0;

/// Chooses servers.
#[derive(Debug)]
pub(crate) struct Selector {
    balance: Balance,
    slow_start: Option<Duration>,
    // Held while one is chosen; where the last choice began.
    turn: Mutex<usize>,
}

/// How good a server is to have: the lesser the better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Free,
    Full,
    /// Better than nobody.
    Ejected,
}

impl Selector {
    pub(crate) fn new(balance: Balance, slow_start: Option<Duration>) -> Self {
        let turn = Mutex::default();
        Self {
            balance,
            slow_start,
            turn,
        }
    }

    /// One of `servers` that was not tried yet; none if all others are unhealthy.
    pub(crate) fn choose(
        &self,
        servers: &[Arc<Server>],
        tried: &[Arc<Server>],
    ) -> Option<Arc<Server>> {
        if let [only] = servers {
            return rank(only, tried).map(|_| only.clone());
        }
        let usable = || {
            let ranked = servers.iter().map(|server| (rank(server, tried), server));
            ranked.filter_map(|(rank, server)| Some((rank?, server)))
        };
        let best = usable().map(|(rank, _)| rank).min()?;
        let best = usable().filter(move |(rank, _)| *rank == best);
        let best = best.map(|(_, server)| server);
        let now = self
            .slow_start
            .map(|slow_start| (slow_start, Instant::now()));
        let weight = |server: &Server| {
            let share = now.map_or(1.0, |(slow_start, now)| {
                server.health.share(slow_start, now)
            });
            // Weights are at most 1000.
            (f64::from(server.plan.weight) * share * PARTS) as i64
        };
        let mut turn = self.turn.lock();
        let chosen = match self.balance {
            Balance::RoundRobin => in_turn(best, weight),
            Balance::LeastRequests => {
                *turn = turn.wrapping_add(1);
                let count = best.clone().count().max(1);
                // Of those that have equally many, not always the first.
                let best = best.clone().cycle().skip(*turn % count).take(count);
                best.min_by_key(|server| load(server, weight(server)))
            }
        };
        chosen.cloned()
    }
}

fn rank(server: &Arc<Server>, tried: &[Arc<Server>]) -> Option<Rank> {
    if tried.iter().any(|tried| Arc::ptr_eq(tried, server)) || server.health.is_unhealthy() {
        return None;
    }
    Some(match server.places.is_full() {
        _ if server.health.is_ejected() => Rank::Ejected,
        true => Rank::Full,
        false => Rank::Free,
    })
}

/// Smooth weighted round robin: everybody gains their weight, and who is chosen pays what all gained.
fn in_turn<'a>(
    servers: impl Iterator<Item = &'a Arc<Server>>,
    weight: impl Fn(&Server) -> i64,
) -> Option<&'a Arc<Server>> {
    let mut gained = 0;
    let mut richest: Option<(i64, &Arc<Server>)> = None;
    for server in servers {
        let weight = weight(server);
        gained += weight;
        let credit = server.credit.fetch_add(weight, Ordering::Relaxed) + weight;
        if richest.is_none_or(|(most, _)| credit > most) {
            richest = Some((credit, server));
        }
    }
    let (_, chosen) = richest?;
    chosen.credit.fetch_sub(gained, Ordering::Relaxed);
    Some(chosen)
}

/// Open requests, with this one, for its weight.
fn load(server: &Server, weight: i64) -> u64 {
    let open = server.places.taken() as u64 + 1;
    open.saturating_mul(1_000_000) / weight.max(1).unsigned_abs()
}

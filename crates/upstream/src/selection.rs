//! The choice of a server for the next request.

mod hashed;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::server::Server;
use super::settings::Balance;
use super::sticky::Affinity;

/// The factor for weights before they are rounded to integers, so that a server in `slow_start` can have a fraction of its weight.
const PARTS: f64 = 100.0;

/// Chooses servers.
#[derive(Debug)]
pub(crate) struct Selector {
    balance: Balance,
    slow_start: Option<Duration>,
    // Locked while a server is chosen. Holds the position at which the last choice for `least_requests` began.
    turn: Mutex<usize>,
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

    /// Chooses a [`usable`] server with a free place, and prefers the server of `affinity`. Returns `None` if all usable servers are full.
    pub(crate) fn choose(
        &self,
        servers: &[Arc<Server>],
        tried: &[Arc<Server>],
        affinity: Option<Affinity>,
    ) -> Option<Arc<Server>> {
        if let [only] = servers {
            return usable(servers, tried).any(has_place).then(|| only.clone());
        }
        let best = usable(servers, tried).filter(|server| has_place(server));
        let now = self
            .slow_start
            .map(|slow_start| (slow_start, Instant::now()));
        let weight = |server: &Server| {
            let share = now.map_or(1.0, |(slow_start, now)| {
                server.health.share(slow_start, now)
            });
            // Weights are at most 1000, so the product fits in an `i64`.
            (f64::from(server.settings.weight) * share * PARTS) as i64
        };
        match affinity {
            Some(Affinity::Hash(hash)) => return hashed::choose(best, hash, weight).cloned(),
            Some(Affinity::Mark(mark)) => {
                let marked = best.clone().find(|server| server.mark == Some(mark));
                if let Some(server) = marked {
                    return Some(server.clone());
                }
            }
            None => {}
        }
        let mut turn = self.turn.lock();
        let chosen = match self.balance {
            Balance::RoundRobin => in_turn(best, weight),
            Balance::LeastRequests => {
                *turn = turn.wrapping_add(1);
                let count = best.clone().count().max(1);
                // Each choice begins at another server, so that equal load does not always choose the same server.
                let best = best.clone().cycle().skip(*turn % count).take(count);
                best.min_by_key(|server| load(server, weight(server)))
            }
        };
        chosen.cloned()
    }
}

/// Returns the servers that have not failed their health checks and were not tried yet. Includes ejected servers only if no other server is
/// left.
pub(crate) fn usable<'a>(
    servers: &'a [Arc<Server>],
    tried: &'a [Arc<Server>],
) -> impl Iterator<Item = &'a Arc<Server>> + Clone {
    let untried = servers.iter().filter(|server| {
        let is_tried = tried.iter().any(|tried| Arc::ptr_eq(tried, server));
        !is_tried && !server.health.is_unhealthy()
    });
    let only_ejected = untried.clone().all(|server| server.health.is_ejected());
    untried.filter(move |server| only_ejected || !server.health.is_ejected())
}

fn has_place(server: &Arc<Server>) -> bool {
    server.places.free() > 0
}

/// Chooses by smooth weighted round robin: each server gains its weight as credit. The server with the most credit is chosen, and loses the
/// sum of all gains.
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

/// Returns the number of open requests, including this one, relative to the weight.
fn load(server: &Server, weight: i64) -> u64 {
    let open = server.places.taken() as u64 + 1;
    open.saturating_mul(1_000_000) / weight.max(1).unsigned_abs()
}

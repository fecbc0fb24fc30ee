//! The places of an upstream with `max_connections`: each server has this number of places. A request takes a free place at a server, or
//! waits for a place.
//!
//! All servers of an upstream have one queue. A free place goes to the client address that holds the fewest places, and among addresses
//! with equally many places to the oldest request. One address may hold only the share `max_connections_per_ip`, so other clients find
//! places even if this address holds its places for long.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::connection_limit::{ConnectionPermit, PlaceQueue};
use super::discovery::Discovery;
use super::selection::{Selector, usable};
use super::server::Server;
use super::settings::{Share, UpstreamSettings};
use super::sticky::Affinity;

/// The shortest time between two log lines about addresses that hold their full share.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// A server, and a place at that server.
pub(crate) type Placed = (Arc<Server>, ConnectionPermit);

/// The places at all servers of an upstream, and the requests that wait for a place.
#[derive(Debug)]
pub(crate) struct Places {
    selector: Arc<Selector>,
    discovery: Arc<Discovery>,
    max_waiting: usize,
    share: Share,
    shown: Gauge,
    state: Mutex<State>,
}

/// The reason why a request gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// No server can take the request.
    NoServer,
    /// No place became free in time, or too many requests wait.
    Busy,
}

#[derive(Debug, Default)]
struct State {
    /// The addresses whose requests hold places or wait for a place.
    addresses: HashMap<IpAddr, Usage>,
    /// The waiting addresses. The first address gets the next place.
    turns: BTreeSet<Turn>,
    waiting: usize,
    next: u64,
    warned: Option<Instant>,
}

#[derive(Debug, Default)]
struct Usage {
    held: usize,
    waiting: VecDeque<Waiter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    held: usize,
    number: u64,
    address: IpAddr,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    tried: Vec<Arc<Server>>,
    affinity: Option<Affinity>,
    place: oneshot::Sender<Placed>,
}

/// A waiting request. A drop removes it from the queue.
#[derive(Debug)]
struct Waiting<'a> {
    places: &'a Places,
    address: IpAddr,
    number: u64,
    place: oneshot::Receiver<Placed>,
}

impl Places {
    /// Returns the places at the servers of `discovery`. `shown` is the metric of waiting requests.
    pub(crate) fn new(
        selector: Arc<Selector>,
        discovery: Arc<Discovery>,
        settings: &UpstreamSettings,
        shown: Gauge,
    ) -> Self {
        Self {
            selector,
            discovery,
            max_waiting: settings.max_waiting,
            share: settings.max_connections_per_ip,
            shown,
            state: Mutex::default(),
        }
    }

    /// Takes a place for a client at a server that is not among `tried`. Waits for at most `longest`.
    pub(crate) async fn take(
        self: &Arc<Self>,
        address: IpAddr,
        tried: &[Arc<Server>],
        affinity: Option<Affinity>,
        longest: Duration,
    ) -> Result<Placed, NoPlace> {
        // New or recovered servers may have free places. Requests that already wait get these places first.
        self.serve();
        let mut waiting = {
            let mut state = self.state.lock();
            let servers = self.discovery.current();
            if usable(&servers, tried).next().is_none() {
                return Err(NoPlace::NoServer);
            }
            let free = free(&servers);
            if self.share.allows(state.held(address), free)
                && let Some(server) = self.selector.choose(&servers, tried, affinity)
            {
                return Ok(self.place(&mut state, address, server));
            }
            let may_wait = state.waiting_of(address);
            let room = self.max_waiting.saturating_sub(state.waiting);
            if !self.share.allows(may_wait, room) {
                self.warn(&mut state, address, free);
                return Err(NoPlace::Busy);
            }
            self.join(&mut state, address, (tried, affinity))
        };
        match timeout(longest, &mut waiting.place).await {
            Ok(Ok(placed)) => Ok(placed),
            _ => {
                let free = free(&self.discovery.current());
                self.warn(&mut self.state.lock(), address, free);
                Err(NoPlace::Busy)
            }
        }
    }

    /// Gives the free places to waiting requests.
    pub(crate) fn serve(self: &Arc<Self>) {
        let given: Vec<_> = {
            let mut state = self.state.lock();
            std::iter::from_fn(|| self.give(&mut state)).collect()
        };
        for (waiter, placed) in given {
            // If the waiting request was dropped, the place is dropped here, and the drop gives the place to the next request.
            let _ = waiter.place.send(placed);
        }
    }

    fn give(self: &Arc<Self>, state: &mut State) -> Option<(Waiter, Placed)> {
        if state.turns.is_empty() {
            return None;
        }
        let servers = self.discovery.current();
        let free = free(&servers);
        let may = |turn: &&Turn| self.share.allows(turn.held, free);
        let (address, number, server) = state.turns.iter().take_while(may).find_map(|turn| {
            let mut waiting = state.addresses.get(&turn.address)?.waiting.iter();
            waiting.find_map(|waiter| {
                let server = self
                    .selector
                    .choose(&servers, &waiter.tried, waiter.affinity)?;
                Some((turn.address, waiter.number, server))
            })
        })?;
        let waiter = state.leave(address, number)?;
        self.shown.dec();
        Some((waiter, self.place(state, address, server)))
    }

    fn place(self: &Arc<Self>, state: &mut State, address: IpAddr, server: Arc<Server>) -> Placed {
        state.change(address, |usage| usage.held += 1);
        let permit = server.places.take(Some((address, self.clone())));
        (server, permit)
    }

    fn join(
        &self,
        state: &mut State,
        address: IpAddr,
        (tried, affinity): (&[Arc<Server>], Option<Affinity>),
    ) -> Waiting<'_> {
        let (sender, place) = oneshot::channel();
        let number = state.next;
        state.next += 1;
        state.waiting += 1;
        let waiter = Waiter {
            number,
            tried: tried.to_vec(),
            affinity,
            place: sender,
        };
        state.change(address, |usage| usage.waiting.push_back(waiter));
        self.shown.inc();
        Waiting {
            places: self,
            address,
            number,
            place,
        }
    }

    /// Logs, once a minute at most, that an address gets no place although places are free.
    fn warn(&self, state: &mut State, address: IpAddr, free: usize) {
        let is_new = state.warned.is_none_or(|at| at.elapsed() >= WARN_EVERY);
        if free > 0 && is_new {
            state.warned = Some(Instant::now());
            let held = state.held(address);
            tracing::warn!(%address, held, free, "an address holds its share of an upstream's connections: further requests are answered with 503 (max_connections_per_ip)");
        }
    }
}

impl PlaceQueue for Places {
    fn freed(self: Arc<Self>, address: IpAddr) {
        let left = |usage: &mut Usage| usage.held = usage.held.saturating_sub(1);
        self.state.lock().change(address, left);
        self.serve();
    }
}

impl State {
    fn held(&self, address: IpAddr) -> usize {
        self.addresses.get(&address).map_or(0, |usage| usage.held)
    }

    fn waiting_of(&self, address: IpAddr) -> usize {
        let usage = self.addresses.get(&address);
        usage.map_or(0, |usage| usage.waiting.len())
    }

    /// Changes an address's held places or waiting requests, and updates its position among the waiting addresses.
    fn change(&mut self, address: IpAddr, change: impl FnOnce(&mut Usage)) {
        let usage = self.addresses.entry(address).or_default();
        let before = usage.turn(address);
        change(usage);
        let after = usage.turn(address);
        if before != after {
            if let Some(turn) = before {
                self.turns.remove(&turn);
            }
            self.turns.extend(after);
        }
        if usage.held == 0 && usage.waiting.is_empty() {
            self.addresses.remove(&address);
            if self.addresses.is_empty() {
                self.addresses = HashMap::new();
            }
        }
    }

    fn leave(&mut self, address: IpAddr, number: u64) -> Option<Waiter> {
        let mut left = None;
        self.change(address, |usage| {
            let waiting = &mut usage.waiting;
            let position = waiting.iter().position(|waiter| waiter.number == number);
            left = position.and_then(|position| waiting.remove(position));
        });
        self.waiting -= usize::from(left.is_some());
        left
    }
}

impl Usage {
    fn turn(&self, address: IpAddr) -> Option<Turn> {
        let first = self.waiting.front()?;
        Some(Turn {
            held: self.held,
            number: first.number,
            address,
        })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let left = self.places.state.lock().leave(self.address, self.number);
        // The waiter and its channel are dropped after the lock is released.
        if left.is_some() {
            self.places.shown.dec();
        }
    }
}

/// Returns the number of free places at all servers that take requests.
fn free(servers: &[Arc<Server>]) -> usize {
    let free = usable(servers, &[]).map(|server| server.places.free());
    free.fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests;

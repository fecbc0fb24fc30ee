//! The servers of an upstream, one for each address. Names are looked up periodically.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::net::lookup_host;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::server::Server;
use super::settings::{ServerSettings, UpstreamSettings};

/// The timeout of a DNS lookup.
const PATIENCE: Duration = Duration::from_secs(5);

/// The shortest time between two lookups of a name.
const SOONEST: Duration = Duration::from_secs(1);

/// The servers of an upstream.
#[derive(Debug)]
pub(crate) struct Discovery {
    // The servers as configured.
    servers: Vec<Arc<ServerSettings>>,
    current: ArcSwap<Vec<Arc<Server>>>,
    // Locked during a lookup. Holds the time of the last lookup.
    resolving: tokio::sync::Mutex<Option<Instant>>,
}

impl Discovery {
    /// Returns the servers whose configuration has an IP address. [`Self::resolve`] adds the servers whose configuration has a host name.
    pub(crate) fn new(settings: &UpstreamSettings) -> Self {
        let servers: Vec<_> = settings.servers.iter().cloned().map(Arc::new).collect();
        let current = servers.iter().filter_map(|server| {
            let address = server.address()?;
            Some(Arc::new(Server::new(server.clone(), address, settings)))
        });
        Self {
            current: ArcSwap::from_pointee(current.collect()),
            servers,
            resolving: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the servers whose addresses are resolved.
    pub(crate) fn current(&self) -> Arc<Vec<Arc<Server>>> {
        self.current.load_full()
    }

    /// Whether the configuration of any server has a host name instead of an IP address.
    pub(crate) fn have_names(&self) -> bool {
        self.servers.iter().any(|server| server.address().is_none())
    }

    /// Looks up all names, unless the last lookup was less than a second ago. Returns whether an address changed. After a failed lookup a
    /// name keeps its addresses.
    pub(crate) async fn resolve(&self, settings: &UpstreamSettings) -> bool {
        let mut last = self.resolving.lock().await;
        if last.is_some_and(|last| last.elapsed() < SOONEST) {
            return false;
        }
        let mut answers = Vec::new();
        for server in &self.servers {
            answers.push((server, addresses(server).await));
        }
        *last = Some(Instant::now());
        let before = self.current();
        let after = regroup(&before, answers, settings);
        let same = |(one, other): (&Arc<Server>, &Arc<Server>)| Arc::ptr_eq(one, other);
        let is_same = before.len() == after.len() && before.iter().zip(&after).all(same);
        if !is_same {
            self.current.store(Arc::new(after));
        }
        !is_same
    }
}

/// Returns the servers at the addresses in `answers`. Existing servers keep their state. If the lookup of a name failed, all servers of
/// this name are kept.
fn regroup(
    before: &[Arc<Server>],
    answers: Vec<(&Arc<ServerSettings>, Option<Vec<SocketAddr>>)>,
    settings: &UpstreamSettings,
) -> Vec<Arc<Server>> {
    let mut after = Vec::new();
    for (named, addresses) in answers {
        let own = |server: &&Arc<Server>| Arc::ptr_eq(&server.settings, named);
        let Some(addresses) = addresses else {
            after.extend(before.iter().filter(own).cloned());
            continue;
        };
        for address in addresses {
            let mut previous = before.iter().filter(own);
            let previous = previous.find(|server| server.address == address);
            after.push(previous.cloned().unwrap_or_else(|| {
                let server = Server::new(named.clone(), address, settings);
                if !before.is_empty() {
                    server.health.joined(Instant::now());
                }
                Arc::new(server)
            }));
        }
    }
    after
}

/// Returns all addresses of a server, or `None` if the lookup of its name fails.
async fn addresses(server: &ServerSettings) -> Option<Vec<SocketAddr>> {
    if let Some(address) = server.address() {
        return Some(vec![address]);
    }
    let (host, port) = server.endpoint();
    match lookup(host, port).await {
        Ok(Ok(addresses)) => return Some(addresses),
        Ok(Err(error)) => {
            tracing::warn!(%host, %error, "the name of an upstream's server cannot be resolved");
        }
        Err(_) => {
            tracing::warn!(%host, "the name of an upstream's server was not resolved in time");
        }
    }
    None
}

/// Looks up a name, within [`PATIENCE`]. Sorts the addresses, because resolvers shuffle them: an unchanged answer must give the same list.
pub(crate) async fn lookup(host: &str, port: u16) -> Result<io::Result<Vec<SocketAddr>>, Elapsed> {
    let answer = timeout(PATIENCE, lookup_host((host, port))).await?;
    Ok(answer.map(|answer| {
        let mut addresses: Vec<_> = answer.collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }))
}

#[cfg(test)]
mod tests;

//! The servers behind the names of an upstream: one for each address, found anew from time to time.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::server::Server;
use super::settings::{ServerPlan, UpstreamPlan};

/// How long a name may take to be resolved.
const PATIENCE: Duration = Duration::from_secs(5);

/// How soon a name is resolved again at the earliest.
const SOONEST: Duration = Duration::from_secs(1);

/// The servers of an upstream.
#[derive(Debug)]
pub(crate) struct Discovery {
    named: Vec<Named>,
    current: ArcSwap<Vec<Arc<Server>>>,
    // Held while names are resolved; when that was done last.
    resolving: tokio::sync::Mutex<Option<Instant>>,
}

/// A server as it is configured.
#[derive(Debug)]
struct Named {
    plan: Arc<ServerPlan>,
    host: Box<str>,
    port: u16,
    address: Option<IpAddr>,
}

impl Discovery {
    /// Those of a plan; servers with names have no address yet.
    pub(crate) fn new(plan: &UpstreamPlan) -> Self {
        let named: Vec<_> = plan.servers.iter().map(Named::new).collect();
        let known = named.iter().filter_map(|named| {
            let address = SocketAddr::new(named.address?, named.port);
            Some(Arc::new(Server::new(named.plan.clone(), address, plan)))
        });
        Self {
            current: ArcSwap::from_pointee(known.collect()),
            named,
            resolving: tokio::sync::Mutex::default(),
        }
    }

    /// Those that are known.
    pub(crate) fn current(&self) -> Arc<Vec<Arc<Server>>> {
        self.current.load_full()
    }

    /// Whether any has a name.
    pub(crate) fn have_names(&self) -> bool {
        self.named.iter().any(|named| named.address.is_none())
    }

    /// Finds the addresses of all names, unless somebody has done so within the last second; whether that changed
    /// anything. A name that cannot be resolved keeps the addresses that it had.
    pub(crate) async fn resolve(&self, plan: &UpstreamPlan) -> bool {
        let mut last = self.resolving.lock().await;
        if last.is_some_and(|last| last.elapsed() < SOONEST) {
            return false;
        }
        let mut found = Vec::new();
        for named in &self.named {
            found.push((named, named.addresses().await));
        }
        *last = Some(Instant::now());
        let before = self.current();
        let after = regroup(&before, found, plan);
        let same = |(one, other): (&Arc<Server>, &Arc<Server>)| Arc::ptr_eq(one, other);
        let is_same = before.len() == after.len() && before.iter().zip(&after).all(same);
        if !is_same {
            self.current.store(Arc::new(after));
        }
        !is_same
    }
}

/// The servers at these addresses: those that are known stay as they are, and so do all of a name without an answer.
fn regroup(
    before: &[Arc<Server>],
    found: Vec<(&Named, Option<Vec<SocketAddr>>)>,
    plan: &UpstreamPlan,
) -> Vec<Arc<Server>> {
    let mut after = Vec::new();
    for (named, addresses) in found {
        let own = |server: &&Arc<Server>| Arc::ptr_eq(&server.plan, &named.plan);
        let Some(addresses) = addresses else {
            after.extend(before.iter().filter(own).cloned());
            continue;
        };
        for address in addresses {
            let mut known = before.iter().filter(own);
            let known = known.find(|server| server.address == address);
            after.push(known.cloned().unwrap_or_else(|| {
                let server = Server::new(named.plan.clone(), address, plan);
                if !before.is_empty() {
                    server.health.joined(Instant::now());
                }
                Arc::new(server)
            }));
        }
    }
    after
}

impl Named {
    fn new(plan: &ServerPlan) -> Self {
        let (host, port) = plan.endpoint();
        Self {
            plan: Arc::new(plan.clone()),
            host: host.into(),
            port,
            address: host.parse().ok(),
        }
    }

    /// All its addresses, in one order; none if it cannot be resolved.
    async fn addresses(&self) -> Option<Vec<SocketAddr>> {
        if let Some(address) = self.address {
            return Some(vec![SocketAddr::new(address, self.port)]);
        }
        let found = timeout(PATIENCE, lookup_host((&*self.host, self.port))).await;
        let mut addresses: Vec<_> = match found {
            Ok(Ok(addresses)) => addresses.collect(),
            Ok(Err(error)) => {
                tracing::warn!(host = %self.host, %error, "the name of an upstream's server cannot be resolved");
                return None;
            }
            Err(_) => {
                tracing::warn!(host = %self.host, "the name of an upstream's server was not resolved in time");
                return None;
            }
        };
        // Resolvers shuffle them.
        addresses.sort_unstable();
        addresses.dedup();
        Some(addresses)
    }
}

#[cfg(test)]
mod tests;

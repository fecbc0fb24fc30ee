//! Sentinels: the gateway requests the primary's address from them every second.
//!
//! fred requests the address only when it connects. But in a manual failover the old primary accepts writes for up to ten more seconds, and
//! all of these writes are lost. So the gateway closes its connection as soon as most sentinels return another primary.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fred::interfaces::ClientLike as _;
use fred::types::CustomCommand;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::error::CallError;
use super::super::route::Route;
use super::super::settings::CONNECT;
use super::super::url::{Address, Topology};
use super::Client;

/// The pause between two requests to the sentinels.
const EVERY: Duration = Duration::from_secs(1);

/// Connections to all sentinels of a route.
#[derive(Debug)]
pub(super) struct Sentinels {
    service: Arc<str>,
    connections: Vec<(Address, Arc<Client>)>,
}

impl Sentinels {
    /// Starts to connect to the sentinels of a route, if the route has any.
    pub(super) fn start(route: &Route) -> Option<Self> {
        let Topology::Sentinels {
            hosts,
            service,
            login,
        } = &route.to
        else {
            return None;
        };
        let connections = hosts.iter().map(|host| {
            let route = Route {
                to: Topology::Server(host.clone()),
                login: login.clone(),
                database: None,
                timeout: CONNECT,
                ..route.clone()
            };
            let connection = Client::start(route, Arc::new(Notify::new()));
            (host.clone(), Arc::new(connection))
        });
        Some(Self {
            service: service.as_str().into(),
            connections: connections.collect(),
        })
    }

    /// Requests the primary periodically. Notifies `leave` when most sentinels name another server than `connected` returns.
    pub(super) async fn watch(&self, connected: impl Fn() -> Option<Address>, leave: Arc<Notify>) {
        loop {
            tokio::time::sleep(EVERY).await;
            let mut asking = JoinSet::new();
            for (_, connection) in &self.connections {
                if connection.is_up() {
                    asking.spawn(primary(connection.clone(), self.service.clone()));
                }
            }
            let answers: Vec<Address> = asking.join_all().await.into_iter().flatten().collect();
            let named = named_by_most(&answers);
            if let (Some(named), Some(connected)) = (named, connected())
                && *named != connected
            {
                tracing::info!("the sentinels name another primary");
                leave.notify_one();
            }
        }
    }

    /// Waits until the first attempt to connect to each sentinel has ended, for at most `CONNECT`.
    pub(super) async fn tried(&self) {
        let _ = timeout(CONNECT, async {
            for (_, connection) in &self.connections {
                connection.tried().await;
            }
        })
        .await;
    }

    /// Returns the cause of a missing connection to a sentinel, from the first sentinel with a known cause.
    pub(super) fn cause(&self) -> Option<String> {
        self.connections
            .iter()
            .find_map(|(host, connection)| match connection.fred().err()? {
                CallError::Unreachable(cause) => Some(format!("no sentinel answers: {cause}")),
                CallError::Disconnected => None,
                why => Some(format!(
                    "no sentinel answers: {}:{}: {why}",
                    host.host, host.port
                )),
            })
    }
}

/// Returns the primary that one sentinel names.
async fn primary(connection: Arc<Client>, service: Arc<str>) -> Option<Address> {
    let fred = connection.fred().ok()?;
    let command = CustomCommand::new_static("SENTINEL", None::<u16>, false);
    let words = vec!["GET-MASTER-ADDR-BY-NAME", &service];
    let (host, port): (String, u16) = fred.custom(command, words).await.ok()?;
    Some(Address { host, port })
}

fn named_by_most(answers: &[Address]) -> Option<&Address> {
    let mut counts: HashMap<&Address, usize> = HashMap::new();
    for answer in answers {
        *counts.entry(answer).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .find(|(_, count)| 2 * count > answers.len());
    most.map(|(address, _)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_more_than_half_of_those_who_answer_are_believed() {
        let address = |port| Address {
            host: "a".into(),
            port,
        };
        let most = |ports: &[u16]| {
            let answers: Vec<Address> = ports.iter().copied().map(address).collect();
            named_by_most(&answers).map(|address| address.port)
        };
        assert_eq!(most(&[]), None);
        assert_eq!(most(&[1]), Some(1));
        assert_eq!(most(&[1, 2]), None);
        assert_eq!(most(&[1, 2, 2]), Some(2));
    }
}

//! A table of networks and clients, each with a value, for lists, plans with members, and overrides.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::fast::RandomState;
use ipnet::IpNet;

use crate::networks::NetworkTable;

/// A client or a network that a list or an override names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListedClient {
    /// The client with a listed API key of this name.
    ApiKey(Arc<str>),
    /// The client with this user ID.
    UserId(Arc<str>),
    /// The client whose verified certificate has this name.
    Certificate(Arc<str>),
    /// All addresses of a network.
    Network(IpNet),
}

impl fmt::Display for ListedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) if network.prefix_len() == network.max_prefix_len() => {
                write!(f, "{}", network.addr())
            }
            Self::Network(network) => write!(f, "{network}"),
            Self::ApiKey(name) => write!(f, "api_key:{name}"),
            Self::UserId(id) => write!(f, "user_id:{id}"),
            Self::Certificate(name) => write!(f, "client_cert:{name}"),
        }
    }
}

/// A table with one value for each client or network.
#[derive(Clone, Debug)]
pub struct ClientTable<T> {
    networks: NetworkTable<T>,
    api_keys: Names<T>,
    user_ids: Names<T>,
    certificates: Names<T>,
}

/// The values for clients of one kind, by name.
type Names<T> = HashMap<Arc<str>, T, RandomState>;

impl<T> Default for ClientTable<T> {
    fn default() -> Self {
        Self {
            networks: NetworkTable::default(),
            api_keys: HashMap::default(),
            user_ids: HashMap::default(),
            certificates: HashMap::default(),
        }
    }
}

impl<T> ClientTable<T> {
    /// Adds a client with its value. If the table already has the client, keeps the old value.
    pub fn insert(&mut self, client: ListedClient, value: T) {
        let (names, name) = match client {
            ListedClient::Network(network) => {
                self.networks.insert(network, value);
                return;
            }
            ListedClient::ApiKey(name) => (&mut self.api_keys, name),
            ListedClient::UserId(id) => (&mut self.user_ids, id),
            ListedClient::Certificate(name) => (&mut self.certificates, name),
        };
        names.entry(name).or_insert(value);
    }

    /// Whether the table has networks.
    pub fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && !self.has_names()
    }

    /// Whether the table has clients by name.
    pub fn has_names(&self) -> bool {
        self.has_api_keys() || !self.user_ids.is_empty() || !self.certificates.is_empty()
    }

    /// Whether the table has names of API keys.
    pub fn has_api_keys(&self) -> bool {
        !self.api_keys.is_empty()
    }

    /// Returns the network with the longest prefix that contains this address, and the network's value. An IPv6 address is not cut to the
    /// prefix that counts as one client.
    pub fn at(&self, address: IpAddr) -> Option<(IpNet, &T)> {
        self.networks.find(address)
    }

    /// Returns the value of the client with an API key of this name.
    pub fn api_key(&self, name: &str) -> Option<&T> {
        self.api_keys.get(name)
    }

    /// Returns the value of the client with this user ID.
    pub fn user_id(&self, id: &str) -> Option<&T> {
        self.user_ids.get(id)
    }

    /// Returns the value of the client whose verified certificate has this name.
    pub fn certificate(&self, name: &str) -> Option<&T> {
        self.certificates.get(name)
    }
}

//! Lists of networks and clients, as `exempt`, `deny` and the members of plans have them.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use ipnet::IpNet;

use crate::networks::NetworkTable;

/// What an entry of a list stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListedClient {
    /// All addresses of a network.
    Network(IpNet),
    /// The client with a listed API key of this name.
    ApiKey(Arc<str>),
    /// The client with this user ID.
    UserId(Arc<str>),
    /// The client whose verified certificate has this name.
    Certificate(Arc<str>),
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

/// An entry of a list, for people: what it stands for, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// Such as `10.0.0.0/8` or `api_key:monitor`.
    pub text: Arc<str>,
    /// Its file and line, such as `gateway.yaml:12:10`; `override` if it was set at run time.
    pub place: Arc<str>,
}

impl ListEntry {
    const OVERRIDE: &'static str = "override";

    /// What an override says of a client.
    pub(crate) fn of_override(text: Arc<str>) -> Self {
        Self {
            text,
            place: Self::OVERRIDE.into(),
        }
    }

    /// Whether it was set at run time.
    pub fn is_override(&self) -> bool {
        &*self.place == Self::OVERRIDE
    }
}

/// Networks and clients. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ClientList(Option<Arc<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    // Where each entry stands in `entries`.
    networks: NetworkTable<usize>,
    api_keys: HashMap<Arc<str>, usize>,
    user_ids: HashMap<Arc<str>, usize>,
    certificates: HashMap<Arc<str>, usize>,
    entries: Vec<ListEntry>,
}

impl ClientList {
    /// A list of these clients, each with the place where it is written. Of two entries for the same client the first one counts.
    pub fn new(clients: impl IntoIterator<Item = (ListedClient, Arc<str>)>) -> Self {
        let mut list = Entries::default();
        for (client, place) in clients {
            let at = list.entries.len();
            let text = client.to_string().into();
            list.entries.push(ListEntry { text, place });
            match client {
                ListedClient::Network(network) => {
                    list.networks.insert(network, at);
                }
                ListedClient::ApiKey(name) => {
                    list.api_keys.entry(name).or_insert(at);
                }
                ListedClient::UserId(id) => {
                    list.user_ids.entry(id).or_insert(at);
                }
                ListedClient::Certificate(name) => {
                    list.certificates.entry(name).or_insert(at);
                }
            }
        }
        Self((!list.entries.is_empty()).then(|| Arc::new(list)))
    }

    /// Whether nobody is listed.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether it lists clients by name, and not by address alone.
    pub(crate) fn has_names(&self) -> bool {
        let list = self.0.as_ref();
        list.is_some_and(|list| {
            let names = [&list.api_keys, &list.user_ids, &list.certificates];
            names.iter().any(|names| !names.is_empty())
        })
    }

    /// Whether it lists addresses.
    pub(crate) fn has_networks(&self) -> bool {
        let list = self.0.as_ref();
        list.is_some_and(|list| !list.networks.is_empty())
    }

    /// The entry of the longest network that holds this address, all of its bits.
    pub(crate) fn address(&self, address: IpAddr) -> Option<&ListEntry> {
        let list = self.0.as_ref()?;
        let (_, at) = list.networks.find(address)?;
        list.entries.get(*at)
    }

    /// The entry of the client with a listed API key of this name.
    pub(crate) fn api_key(&self, name: &str) -> Option<&ListEntry> {
        let list = self.0.as_ref()?;
        list.entries.get(*list.api_keys.get(name)?)
    }

    /// The entry of the client with this user ID.
    pub(crate) fn user_id(&self, id: &str) -> Option<&ListEntry> {
        let list = self.0.as_ref()?;
        list.entries.get(*list.user_ids.get(id)?)
    }

    /// The entry of the client whose verified certificate has this name.
    pub(crate) fn certificate(&self, name: &str) -> Option<&ListEntry> {
        let list = self.0.as_ref()?;
        list.entries.get(*list.certificates.get(name)?)
    }
}

/// Networks of a file, each with its line. All clones see a [`NetworkFile::replace`].
#[derive(Clone, Debug)]
pub struct NetworkFile {
    name: Arc<str>,
    networks: Arc<ArcSwap<NetworkTable<u32>>>,
}

impl NetworkFile {
    /// The networks of the file that messages call `name`.
    pub fn new(name: impl Into<Arc<str>>, networks: NetworkTable<u32>) -> Self {
        Self {
            name: name.into(),
            networks: Arc::new(ArcSwap::from_pointee(networks)),
        }
    }

    /// Puts these networks in the place of all that were there.
    pub fn replace(&self, networks: NetworkTable<u32>) {
        self.networks.store(Arc::new(networks));
    }

    /// How many networks there are.
    pub fn len(&self) -> usize {
        self.networks.load().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry of the longest network that holds this address.
    pub(crate) fn address(&self, address: IpAddr) -> Option<ListEntry> {
        let networks = self.networks.load();
        let (network, line) = networks.find(address)?;
        Some(ListEntry {
            text: ListedClient::Network(network).to_string().into(),
            place: format!("{}:{line}", self.name).into(),
        })
    }
}

//! Lists of networks and clients, for `deny`, `allow` and `exempt`.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::client_table::{ClientTable, ListedClient};
use crate::networks::NetworkTable;

/// An entry of an access list, as messages show it: the entry's text, and the place where the text is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// The text, such as `10.0.0.0/8` or `api_key:monitor`. The text is `allow` if an `allow` list denies a client that the list does not
    /// contain.
    pub text: Arc<str>,
    /// The file, line and column of the text, such as `gateway.yaml:12:10`. An entry of a [`NetworkFile`] has no column. `override` if an
    /// override made the entry.
    pub place: Arc<str>,
}

impl ListEntry {
    const OVERRIDE: &'static str = "override";
    /// The text for a whole `allow` list. The text of any other entry is an address or a network, or contains a `:`.
    const ALLOW: &'static str = "allow";

    /// Makes the entry of an override.
    pub fn of_override(text: Arc<str>) -> Self {
        Self {
            text,
            place: Self::OVERRIDE.into(),
        }
    }

    /// Makes the entry for a whole `allow` list, which denies the clients that the list does not contain.
    pub(crate) fn of_allow_list(place: Arc<str>) -> Self {
        let text = Self::ALLOW.into();
        Self { text, place }
    }

    /// Whether this entry stands for an `allow` list that lacks a client.
    pub fn is_allow_list(&self) -> bool {
        &*self.text == Self::ALLOW
    }

    /// Whether this entry is an override, which was set at run time.
    pub fn is_override(&self) -> bool {
        &*self.place == Self::OVERRIDE
    }
}

/// A list of networks and clients. A clone is cheap.
#[derive(Clone, Debug, Default)]
pub struct ClientList(Option<Arc<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    // For each network and client, the index of its entry in `entries`.
    table: ClientTable<usize>,
    entries: Vec<ListEntry>,
}

impl ClientList {
    /// Makes a list of these clients, each with the place where it is written. If a client has two entries, the first one counts.
    pub fn new(clients: impl IntoIterator<Item = (ListedClient, Arc<str>)>) -> Self {
        let mut list = Entries::default();
        for (client, place) in clients {
            let at = list.entries.len();
            let text = client.to_string().into();
            list.entries.push(ListEntry { text, place });
            list.table.insert(client, at);
        }
        Self((!list.entries.is_empty()).then(|| Arc::new(list)))
    }

    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the list has clients by name.
    pub fn has_names(&self) -> bool {
        self.0.as_ref().is_some_and(|list| list.table.has_names())
    }

    /// Whether the list has networks or addresses.
    pub fn has_networks(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|list| list.table.has_networks())
    }

    /// Returns the entry of the network with the longest prefix that contains this address. An IPv6 address is not cut to the prefix that
    /// counts as one client.
    pub(crate) fn address(&self, address: IpAddr) -> Option<&ListEntry> {
        let list = self.0.as_ref()?;
        let (_, at) = list.table.at(address)?;
        list.entries.get(*at)
    }

    pub(crate) fn find(
        &self,
        find: impl FnOnce(&ClientTable<usize>) -> Option<&usize>,
    ) -> Option<&ListEntry> {
        let list = self.0.as_ref()?;
        list.entries.get(*find(&list.table)?)
    }
}

/// The networks of a file, each with its line number. Clones share the networks, so [`NetworkFile::replace`] changes all clones.
#[derive(Clone, Debug)]
pub struct NetworkFile {
    name: Arc<str>,
    networks: Arc<ArcSwap<NetworkTable<u32>>>,
}

impl NetworkFile {
    /// Makes a value with the networks of a file. Messages name the file as `name`.
    pub fn new(name: impl Into<Arc<str>>, networks: NetworkTable<u32>) -> Self {
        Self {
            name: name.into(),
            networks: Arc::new(ArcSwap::from_pointee(networks)),
        }
    }

    /// Replaces all networks of the file by `networks`.
    pub fn replace(&self, networks: NetworkTable<u32>) {
        self.networks.store(Arc::new(networks));
    }

    /// Returns the number of networks.
    pub fn len(&self) -> usize {
        self.networks.load().len()
    }

    /// Whether the file has no networks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entry of the network with the longest prefix that contains this address.
    pub(crate) fn address(&self, address: IpAddr) -> Option<ListEntry> {
        let networks = self.networks.load();
        let (network, line) = networks.find(address)?;
        Some(ListEntry {
            text: ListedClient::Network(network).to_string().into(),
            place: format!("{}:{line}", self.name).into(),
        })
    }
}

//! Who is calling: the sources of clients, and the proxies that are believed.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderName;
use tidegate_tower::{ApiKeys, ClientSource, Clients, ListedKey, TrustedProxies};

use super::Check;
use crate::config::file::{ApiKey, File, Placed, Source};
use crate::config::report::{Place, Problem};
use crate::config::value::{Network, PrefixLength};

const API_KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");
const USER_ID_HEADER: HeaderName = HeaderName::from_static("x-user-id");
const IPV6_PREFIX: u8 = 64;

/// The keys of all sources: by name and by hash, and where each is listed.
#[derive(Default)]
struct Seen {
    names: HashMap<String, Option<Place>>,
    hashes: HashMap<[u8; 32], Option<Place>>,
}

impl Check<'_> {
    pub(super) fn clients(&mut self, file: &File) -> Clients {
        let proxies = file.trusted_proxies.as_deref().unwrap_or_default();
        let networks = proxies.iter().filter_map(|leaf| self.read(leaf));
        let networks: Vec<_> = networks.map(|Network(network)| network).collect();
        let mut clients = Clients {
            sources: Vec::new(),
            trusted: TrustedProxies::new(networks),
            ipv6_prefix: IPV6_PREFIX,
        };
        let mut seen = Seen::default();
        let mut address_at = None;
        for source in file.clients.iter().flatten() {
            if let Some(at) = address_at {
                self.unreached_source(source, at);
            }
            match &source.value {
                Source {
                    api_key: Some(api_key),
                    user_id: None,
                    ip: None,
                } => {
                    let source = self.api_key(api_key, &mut seen);
                    clients.sources.extend(source);
                }
                Source {
                    api_key: None,
                    user_id: Some(user_id),
                    ip: None,
                } => {
                    if proxies.is_empty() {
                        self.unbelieved(source.place);
                    }
                    let header = match &user_id.header {
                        Some(leaf) => self.read(leaf),
                        None => Some(USER_ID_HEADER),
                    };
                    let source = header.map(|header| ClientSource::UserId { header });
                    clients.sources.extend(source);
                }
                Source {
                    api_key: None,
                    user_id: None,
                    ip: Some(ip),
                } => {
                    address_at = Some(source.place);
                    let prefix = self.read_some(ip.ipv6_prefix.as_ref());
                    clients.ipv6_prefix = prefix.map_or(IPV6_PREFIX, |PrefixLength(bits)| bits);
                    clients.sources.push(ClientSource::Ip);
                }
                _ => self.refuse(
                    Problem::new(source.place, "a client source is exactly one of its kinds")
                        .note("allowed here: api_key, user_id or ip, each behind a `-` of its own"),
                ),
            }
        }
        if clients.sources.is_empty() {
            clients.sources.push(ClientSource::Ip);
        }
        clients
    }

    fn api_key(&mut self, api_key: &ApiKey, seen: &mut Seen) -> Option<ClientSource> {
        let header = match &api_key.header {
            Some(leaf) => self.read(leaf),
            None => Some(API_KEY_HEADER),
        };
        let mut keys = Vec::new();
        for key in &api_key.keys {
            let name = self.read(&key.value.name);
            let hash = self.read(&key.value.hash);
            if let Some(name) = &name {
                let first = seen.names.insert(name.0.clone(), key.value.name.place);
                self.seen_before(first, key.value.name.place, "two keys have one name");
            }
            if let Some(hash) = &hash {
                let first = seen.hashes.insert(hash.0, key.value.hash.place);
                self.seen_before(first, key.value.hash.place, "one key has two names");
            }
            if let (Some(name), Some(hash)) = (name, hash) {
                let (name, sha256) = (Arc::from(name.0), hash.0);
                keys.push(ListedKey { name, sha256 });
            }
        }
        let keys = ApiKeys::new(keys);
        Some(ClientSource::ApiKey {
            header: header?,
            keys,
        })
    }

    /// Refuses what was there already, if it was.
    fn seen_before(&mut self, first: Option<Option<Place>>, place: Option<Place>, what: &str) {
        if let Some(first) = first {
            let mut problem = Problem::new(place, what);
            if let Some(first) = first {
                problem = problem.note(format!("the first is at {}", self.source.at(first)));
            }
            self.refuse(problem);
        }
    }

    fn unreached_source(&mut self, source: &Placed<Source>, address: Option<Place>) {
        let mut problem = Problem::new(source.place, "this source is never asked");
        if let Some(address) = address {
            let at = self.source.at(address);
            problem = problem.note(format!("`ip`, at {at}, always answers: it comes last"));
        }
        self.refuse(problem);
    }

    fn unbelieved(&mut self, place: Option<Place>) {
        self.doubt(
            Problem::new(place, "this source never names anybody")
                .note("a user ID is believed from `trusted_proxies` only, and there are none"),
        );
    }
}

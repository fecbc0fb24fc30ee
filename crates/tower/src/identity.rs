//! Who is calling: the first client source that answers names the client.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use aws_lc_rs::digest;
use http::{HeaderMap, HeaderName};

use crate::TrustedProxies;

/// The address at the other end of the connection, in a request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Who is calling, as typed text: `api_key:acme`, `user_id:42`, `ip:203.0.113.7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// The name of a listed API key; never the key.
    ApiKey(Arc<str>),
    /// A user ID from a header of a trusted proxy.
    UserId(Box<str>),
    /// An address; for IPv6 its prefix.
    Ip(IpAddr),
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiKey(name) => write!(f, "api_key:{name}"),
            Self::UserId(id) => write!(f, "user_id:{id}"),
            Self::Ip(address) => write!(f, "ip:{address}"),
        }
    }
}

/// A caller: the client, and whatever else limits can be counted per.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who is calling: the first client source that answered.
    pub client: Client,
    /// The listed API key that was sent, if any.
    pub api_key: Option<Client>,
    /// The user that a trusted proxy named, if any.
    pub user_id: Option<Client>,
    /// The address it came from.
    pub ip: Client,
}

/// One place to look for a client.
#[derive(Clone, Debug)]
pub enum ClientSource {
    /// A listed API key in a header.
    ApiKey {
        /// The header.
        header: HeaderName,
        /// The keys that are known; any other names nobody.
        keys: ApiKeys,
    },
    /// A user ID in a header, believed from trusted proxies only.
    UserId {
        /// The header.
        header: HeaderName,
    },
    /// The caller's address; always answers.
    Ip,
}

/// An API key's name, and the SHA-256 of the key.
#[derive(Clone, Debug)]
pub struct ListedKey {
    /// What the client is called.
    pub name: Arc<str>,
    /// The hash under which the key is known.
    pub sha256: [u8; 32],
}

/// The listed keys, by hash.
///
/// Keys are random, so one round of SHA-256 is enough: there is no dictionary to try. Looking up by hash leaks nothing
/// by its timing, because who knows which hashes share a prefix with a listed one does not know a key for them.
#[derive(Clone, Debug, Default)]
pub struct ApiKeys(Arc<HashMap<[u8; 32], Arc<str>>>);

impl ApiKeys {
    /// A table of these keys.
    pub fn new(keys: impl IntoIterator<Item = ListedKey>) -> Self {
        let keys = keys.into_iter().map(|key| (key.sha256, key.name));
        Self(Arc::new(keys.collect()))
    }

    /// The name of a key, if it is listed.
    fn name(&self, key: &[u8]) -> Option<&Arc<str>> {
        let hash = digest::digest(&digest::SHA256, key);
        let hash: &[u8; 32] = hash.as_ref().try_into().ok()?;
        self.0.get(hash)
    }
}

/// The client sources of a gateway, and whom it believes.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Where to look, in order.
    pub sources: Vec<ClientSource>,
    /// Whose word on addresses and users is taken.
    pub trusted: TrustedProxies,
    /// How many bits of an IPv6 address are one client, 1 to 128.
    pub ipv6_prefix: u8,
}

impl Clients {
    /// Names the caller of a request that came from `peer`.
    pub fn identify(&self, peer: Peer, headers: &HeaderMap) -> Caller {
        let trusted = self.trusted.contains(peer.0.ip());
        let origin = self.trusted.origin(peer.0.ip(), headers);
        let mut caller = Caller {
            client: Client::Ip(self.network(origin)),
            api_key: None,
            user_id: None,
            ip: Client::Ip(self.network(origin)),
        };
        let mut first = None;
        for source in &self.sources {
            let answer = match source {
                ClientSource::ApiKey { header, keys } => {
                    let name = single(headers, header).and_then(|key| keys.name(key));
                    let answer = name.map(|name| Client::ApiKey(name.clone()));
                    // Of several sources of one kind, too, the first that answers counts.
                    caller.api_key = caller.api_key.or_else(|| answer.clone());
                    answer
                }
                ClientSource::UserId { header } if trusted => {
                    let id = single(headers, header).and_then(|id| std::str::from_utf8(id).ok());
                    let answer = id.map(|id| Client::UserId(id.into()));
                    caller.user_id = caller.user_id.or_else(|| answer.clone());
                    answer
                }
                ClientSource::UserId { .. } => None,
                ClientSource::Ip => Some(caller.ip.clone()),
            };
            first = first.or(answer);
        }
        if let Some(client) = first {
            caller.client = client;
        }
        caller
    }

    /// The headers that name a user, which only trusted proxies may send on.
    pub fn vouched_headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.sources.iter().filter_map(|source| match source {
            ClientSource::UserId { header } => Some(header),
            ClientSource::ApiKey { .. } | ClientSource::Ip => None,
        })
    }

    /// What counts as one address: IPv4 in full, IPv6 by prefix, and IPv4 written as IPv6 as IPv4.
    fn network(&self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                let host_bits = 128 - u32::from(self.ipv6_prefix.min(128));
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        }
    }
}

/// A header's value, trimmed, if it is there exactly once and not empty: two values name nobody.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.as_bytes().trim_ascii();
    (values.next().is_none() && !value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests;

//! Names the client of a request. If several client sources name a client, the first source counts.

pub(crate) mod findings;
pub(crate) mod members;
pub(crate) mod named;
pub(crate) mod required;
pub(crate) mod shown;
mod sources;
mod spelling;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use tidegate_net::peer::Peer;
use tidegate_net::tls::ClientCertificate;

use crate::ClientPlan;
use crate::address::{self, AddressFrom, TrustedProxies};
use crate::api_keys::{ApiKeys, UnknownKey};
use crate::certificate::CertificateName;
use crate::claims::Claims;
use crate::client_list::{ClientList, ListEntry};
use crate::client_table::ClientTable;
use crate::jwt::{InvalidToken, Tokens};
use crate::plan::NamedPlan;
use members::PlanMembers;
use required::Required;
use shown::{header_value, single_key};

/// A client. The client's text begins with the kind of its name: `api_key:acme`, `user_id:42`, `client_cert:billing.internal`,
/// `ip:203.0.113.7`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// The name of a listed API key; never the key.
    ApiKey(Arc<str>),
    /// The first 16 bytes of the SHA-256 of an unlisted API key. Unlisted keys are clients only with `unknown: accept`.
    UnlistedKey([u8; 16]),
    /// A user ID that a trusted proxy or a signed token vouches for.
    UserId(Box<str>),
    /// A name in a verified client certificate.
    Certificate(Arc<str>),
    /// An address; for IPv6 only its prefix, with [`Clients::ipv6_prefix`] bits.
    Ip(IpAddr),
}

impl Client {
    /// Looks up the client's name in a table, and returns the value. `None` for addresses and unlisted API keys, because they have no name.
    pub fn value_in<'t, T>(&self, table: &'t ClientTable<T>) -> Option<&'t T> {
        match self {
            Self::ApiKey(name) => table.api_key(name),
            Self::UserId(id) => table.user_id(id),
            Self::Certificate(name) => table.certificate(name),
            Self::UnlistedKey(_) | Self::Ip(_) => None,
        }
    }

    /// Returns the client's entry in a list, by name.
    pub(crate) fn listed_in<'l>(&self, list: &'l ClientList) -> Option<&'l ListEntry> {
        list.find(|table| self.value_in(table))
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiKey(name) => write!(f, "api_key:{name}"),
            Self::UnlistedKey(hash) => {
                // Eight bytes of the hash are enough to distinguish clients.
                let start = hash
                    .first_chunk()
                    .map_or(0, |start| u64::from_be_bytes(*start));
                write!(f, "api_key:unlisted-{start:016x}")
            }
            Self::UserId(id) => write!(f, "user_id:{id}"),
            Self::Certificate(name) => write!(f, "client_cert:{name}"),
            Self::Ip(address) => write!(f, "ip:{address}"),
        }
    }
}

/// The caller of a request: the client, and the other names and values that limits can be counted per.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The client, by the first client source that named one.
    pub client: Client,
    /// The index of the source that named `client`. `None` if no source named a client, so that the address is the client.
    pub named_by: Option<usize>,
    /// The plan that the key or the token names, or the plan that lists the client as a member. `None` if the limits' own quotas apply.
    pub plan: Option<ClientPlan>,
    /// The name of the plan that the key or the token names, if the configuration does not define this plan.
    pub unknown_plan: Option<Box<str>>,
    /// The client that the API key names, if the key is listed or `unknown: accept` is set.
    pub api_key: Option<Client>,
    /// The user that a trusted proxy or a signed token named, if any.
    pub user_id: Option<Client>,
    /// The client that a verified certificate names, if any.
    pub client_cert: Option<Client>,
    /// The claims of valid tokens.
    pub claims: Claims,
    /// The caller's address; for IPv6, its prefix.
    pub ip: Client,
    /// The caller's address with all bits. `None` if the caller was made from a name without an address.
    pub origin: Option<IpAddr>,
    /// Whether a valid token was sent.
    pub has_token: bool,
    /// Whether the request had an API key that is not listed or has expired.
    pub unknown_key: bool,
    /// The refused credentials, if any. A caller with refused credentials counts under its address alone.
    pub refused: Option<Credentials>,
}

/// The credentials for which a caller is refused, because they are invalid, ambiguous or missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// An API key.
    ApiKey,
    /// A signed token.
    Token,
    /// A header with credentials that was sent twice. Servers differ in the value that they read, so neither value counts.
    Ambiguous,
    /// The required credentials are missing.
    Missing(Required),
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiKey => "API key",
            Self::Token => "token",
            Self::Ambiguous => "pair of credentials in one header",
            Self::Missing(_) => "lack of credentials",
        })
    }
}

/// A source of clients: a part of a request that may name the client.
#[derive(Clone, Debug)]
pub enum ClientSource {
    /// A listed API key in a header.
    ApiKey {
        /// The header.
        header: HeaderName,
        /// The listed keys.
        keys: ApiKeys,
        /// The treatment of a key that is not listed or has expired.
        unknown: UnknownKey,
    },
    /// A user ID in a header, accepted from trusted proxies only.
    UserId {
        /// The header.
        header: HeaderName,
    },
    /// A user ID in a signed token.
    Token(Arc<Tokens>),
    /// A name in a verified client certificate.
    Certificate(CertificateName),
    /// The caller's address. This source always names a client.
    Ip,
}

/// The client sources of a gateway, and the proxies that it trusts.
#[derive(Clone, Debug)]
pub struct Clients {
    /// The client sources, in the order in which they are tried.
    pub sources: Vec<ClientSource>,
    /// The peers whose headers may name a client's address and user ID.
    pub trusted: TrustedProxies,
    /// The part of a request that contains the client's address, if a trusted proxy sent the request.
    pub address_from: AddressFrom,
    /// The length in bits of the IPv6 prefix that counts as one address, 1 to 128.
    pub ipv6_prefix: u8,
    /// The header that sends the client's name to the upstream. The gateway removes this header from requests of clients.
    pub forward_client: Option<HeaderName>,
    /// The clients that a plan lists as members. They get the plan without a key or a token.
    pub members: PlanMembers,
}

/// Each address is a client, and no proxy is trusted.
impl Default for Clients {
    fn default() -> Self {
        Self {
            sources: vec![ClientSource::Ip],
            trusted: TrustedProxies::default(),
            address_from: AddressFrom::default(),
            ipv6_prefix: 64,
            forward_client: None,
            members: PlanMembers::default(),
        }
    }
}

impl Clients {
    /// Whether a peer is trusted, so that its headers with users, costs and hops are used.
    ///
    /// With the PROXY protocol, the peer is trusted if the address in the PROXY header is trusted. If the PROXY header has no address, any
    /// client may have sent the bytes after the header, so the peer is not trusted.
    pub fn trusts(&self, peer: Peer) -> bool {
        let speaks_for_itself = self.address_from != AddressFrom::Connection || peer.is_named;
        speaks_for_itself && self.trusted.contains(peer.address.ip())
    }

    /// Returns the address that a request of `peer` came from; for IPv6, its prefix.
    pub fn address(&self, peer: Peer, headers: &HeaderMap) -> IpAddr {
        self.locate(peer, headers).address()
    }

    /// Returns the caller of a request from `peer`, with the caller's address but without names.
    pub fn locate(&self, peer: Peer, headers: &HeaderMap) -> Caller {
        Caller::at(self.origin(peer, headers), self.ipv6_prefix)
    }

    /// Names the caller of a request that came from `peer` without a certificate.
    pub fn identify(&self, peer: Peer, headers: &HeaderMap) -> Caller {
        self.identify_shown(peer, headers, None)
    }

    /// Names the caller of a request that came from `peer`. `certificate` is the client's verified certificate, if the connection has one.
    pub fn identify_shown(
        &self,
        peer: Peer,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
    ) -> Caller {
        let trusted = self.trusts(peer);
        let mut caller = self.locate(peer, headers);
        let mut first = None;
        for (index, source) in self.sources.iter().enumerate() {
            if source.is_ambiguous(headers, trusted) {
                caller.refused = caller.refused.or(Some(Credentials::Ambiguous));
                continue;
            }
            let answer = match source {
                ClientSource::ApiKey {
                    header,
                    keys,
                    unknown,
                } => {
                    let answer = caller.by_key(headers, header, keys, *unknown);
                    // If several sources read API keys, the first key that names a client counts.
                    let key = answer.as_ref().map(|(client, _)| client);
                    caller.api_key = caller.api_key.take().or_else(|| key.cloned());
                    answer
                }
                ClientSource::UserId { header } if trusted => {
                    let id =
                        header_value(headers, header).and_then(|id| std::str::from_utf8(id).ok());
                    caller.by_user(id.map(|id| (id.into(), NamedPlan::Nothing)))
                }
                ClientSource::UserId { .. } => None,
                ClientSource::Token(tokens) => caller.by_token(headers, tokens),
                ClientSource::Certificate(name) => caller.by_certificate(certificate, *name),
                ClientSource::Ip => Some((caller.ip.clone(), NamedPlan::Nothing)),
            };
            first = first.or(answer.map(|(client, plan)| (index, client, plan)));
        }
        if let Some(credentials) = caller.refused {
            // The caller counts under its address alone, even if it has sent other, valid credentials.
            caller.refuse(credentials);
        } else if let Some((index, client, plan)) = first {
            caller.client = client;
            caller.named_by = Some(index);
            match plan {
                NamedPlan::Nothing => {}
                NamedPlan::Plan(plan) => caller.plan = Some(plan),
                NamedPlan::Unknown(name) => caller.unknown_plan = Some(name),
            }
        }
        self.members.join(&mut caller);
        caller
    }

    /// Returns the address that a request from `peer` came from, with all bits. An IPv6 address that stands for an IPv4 address becomes
    /// IPv4.
    pub fn origin(&self, peer: Peer, headers: &HeaderMap) -> IpAddr {
        let peer = peer.address.ip();
        let origin = self.trusted.origin(peer, headers, self.address_from);
        address::network(origin, 128)
    }
}

impl ClientSource {
    /// Whether requests are answered with 401 if their credentials for this source are not valid.
    pub fn rejects(&self) -> bool {
        match self {
            Self::ApiKey { unknown, .. } => *unknown == UnknownKey::Reject,
            Self::Token(tokens) => tokens.rules.invalid == InvalidToken::Reject,
            Self::UserId { .. } | Self::Certificate(_) | Self::Ip => false,
        }
    }

    /// Returns the header that the source reads, if it reads a header.
    pub fn header(&self) -> Option<&HeaderName> {
        match self {
            Self::ApiKey { header, .. } | Self::UserId { header } => Some(header),
            Self::Token(tokens) => Some(tokens.header()),
            Self::Certificate(_) | Self::Ip => None,
        }
    }

    /// Whether the request has the source's header more than once. User IDs from an untrusted peer are not read, so they are never
    /// ambiguous.
    fn is_ambiguous(&self, headers: &HeaderMap, trusted: bool) -> bool {
        let is_read = trusted || !matches!(self, Self::UserId { .. });
        let is_repeated = |name| headers.get_all(name).iter().nth(1).is_some();
        is_read && self.header().is_some_and(is_repeated)
    }
}

impl Caller {
    /// Returns the names that the caller has shown, first the client's name.
    pub fn names(&self) -> impl Iterator<Item = &Client> {
        let others = [&self.api_key, &self.user_id, &self.client_cert];
        std::iter::once(&self.client).chain(others.into_iter().flatten())
    }

    /// Returns the caller's address; for IPv6, its prefix.
    pub const fn address(&self) -> IpAddr {
        match self.ip {
            Client::Ip(address) => address,
            // Only a caller that was made from a name can lack an address.
            _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        }
    }

    /// Makes a caller with an address alone.
    fn at(origin: IpAddr, ipv6_prefix: u8) -> Self {
        let address = address::cut(origin, ipv6_prefix);
        Self::only(Client::Ip(address), Client::Ip(address), Some(origin))
    }

    /// Makes a caller with this client and these addresses, and without other names.
    #[inline]
    fn only(client: Client, ip: Client, origin: Option<IpAddr>) -> Self {
        Self {
            ip,
            client,
            named_by: None,
            plan: None,
            unknown_plan: None,
            api_key: None,
            user_id: None,
            client_cert: None,
            claims: Claims::default(),
            origin,
            has_token: false,
            unknown_key: false,
            refused: None,
        }
    }

    /// Refuses the caller's credentials. The caller loses its names, and counts under its address alone.
    pub fn refuse(&mut self, credentials: Credentials) {
        self.client = self.ip.clone();
        (self.named_by, self.plan, self.unknown_plan) = (None, None, None);
        (self.api_key, self.user_id, self.client_cert) = (None, None, None);
        self.has_token = false;
        self.claims = Claims::default();
        self.refused = Some(credentials);
    }
}

#[cfg(test)]
mod tests;

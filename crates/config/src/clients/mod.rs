//! The sources that name clients, and the trusted proxies (`clients`, `trusted_proxies`, `forward_client`).

pub(crate) mod certificate;
pub(crate) mod ip;
pub(crate) mod keys;
pub(crate) mod proxies;
mod shared_headers;
pub(crate) mod tokens;

use std::sync::Arc;

use crate::yaml::{Place, Problem, Spanned};
use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_identity::{
    AddressFrom, CertificateName, ClientPlans, ClientSource, Clients, PlanMembers, TrustedProxies,
};
use tidegate_identity::{api_keys::ApiKeys, api_keys::UnknownKey};

use crate::check::Check;
use crate::clients::certificate::CertificateSource;
use crate::clients::ip::{AddressSource, IPV6_PREFIX, Ip, nobody_tells, shared_network};
use crate::clients::keys::{ApiKey, KeyFile, SeenKeys, key_file, listed_keys};
use crate::clients::proxies::trusted_networks;
use crate::clients::shared_headers::shared_headers;
use crate::clients::tokens::{JwksSettings, Jwt, claims, token_source};
use crate::value::Scalar;
use crate::value::net::{Network, PrefixLength};

/// A source that names clients. It has exactly one key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Source")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct WrittenSource {
    /// A listed API key in a header.
    pub(crate) api_key: Option<ApiKey>,
    /// A user ID in a header, trusted from `trusted_proxies` only.
    pub(crate) user_id: Option<UserId>,
    /// A user ID in a signed token.
    pub(crate) jwt: Option<Jwt>,
    /// A name in a verified client certificate.
    pub(crate) client_cert: Option<CertificateSource>,
    /// The client's address.
    pub(crate) ip: Option<Ip>,
}

/// The keys of the file that identify callers, as they are written.
#[derive(Clone, Copy)]
pub(crate) struct WrittenClients<'f> {
    pub(crate) trusted_proxies: Option<&'f [Scalar<Network>]>,
    pub(crate) sources: &'f [Spanned<WrittenSource>],
    pub(crate) forward_client: Option<&'f Scalar<HeaderName>>,
}

impl WrittenClients<'_> {
    /// Whether any proxy is trusted.
    pub(crate) fn has_proxies(&self) -> bool {
        self.trusted_proxies
            .is_some_and(|proxies| !proxies.is_empty())
    }
}

/// User IDs that trusted proxies send.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserId {
    /// The header with the user ID. Default: X-User-Id.
    pub(crate) header: Option<Scalar<HeaderName>>,
}

const API_KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

const USER_ID_HEADER: HeaderName = HeaderName::from_static("x-user-id");

/// Headers that cannot name a user or a client, because they have another purpose. They frame, route or authorise messages, or contain the
/// origin of requests.
const RESERVED: [&str; 22] = [
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-request-id",
];

/// The key files and key sets that sources reread while the gateway runs.
#[derive(Default)]
pub(crate) struct WatchedKeys {
    pub(crate) key_files: Vec<KeyFile>,
    pub(crate) jwks: Vec<JwksSettings>,
}

pub(crate) fn clients(
    check: &mut Check<'_>,
    written: WrittenClients<'_>,
    plans: &ClientPlans,
) -> Callers {
    let proxies = written.trusted_proxies.unwrap_or_default();
    let mut clients = Clients {
        sources: Vec::new(),
        trusted: TrustedProxies::new(trusted_networks(check, proxies)),
        address_from: AddressFrom::default(),
        ipv6_prefix: IPV6_PREFIX,
        forward_client: written
            .forward_client
            .and_then(|scalar| naming_header(check, scalar)),
        // The caller sets the members of plans later, because their check needs the sources of clients.
        members: PlanMembers::default(),
    };
    let mut proxy_protocol = false;
    let mut reread = WatchedKeys::default();
    let mut seen = SeenKeys::default();
    let mut all_claims = Vec::new();
    let mut address_at = None;
    for placed in written.sources {
        if let Some(at) = address_at {
            unreached_source(check, placed, at);
        }
        let WrittenSource {
            api_key,
            user_id,
            jwt,
            client_cert,
            ip,
        } = &placed.value;
        match (api_key, user_id, jwt, client_cert, ip) {
            (Some(api_key), None, None, None, None) => {
                let files = &mut reread.key_files;
                let source = key_source(check, api_key, placed.place, plans, &mut seen, files);
                clients.sources.extend(source);
            }
            (None, Some(user_id), None, None, None) => {
                if proxies.is_empty() {
                    let problem = Problem::new(placed.place, "this source never names a client");
                    check.warn(problem.note(
                        "a user ID is believed from `trusted_proxies` only, and none is listed",
                    ));
                }
                let header = match &user_id.header {
                    Some(scalar) => naming_header(check, scalar),
                    None => Some(USER_ID_HEADER),
                };
                let source = header.map(|header| ClientSource::UserId { header });
                clients.sources.extend(source);
            }
            (None, None, Some(jwt), None, None) => {
                let claims = claims(check, jwt);
                all_claims.extend(claims.iter().cloned());
                let jwks = &mut reread.jwks;
                let source = token_source(check, jwt, placed.place, plans, claims, jwks);
                clients.sources.extend(source);
            }
            (None, None, None, Some(CertificateSource { name }), None) => {
                let name = name.as_ref().map(|scalar| check.read(scalar));
                let name = name.unwrap_or_else(|| Some(CertificateName::default()));
                clients.sources.extend(name.map(ClientSource::Certificate));
            }
            (None, None, None, None, Some(ip)) => {
                address_at = Some(placed.place);
                if let Some(scalar) = &ip.ipv6_prefix
                    && let Some(PrefixLength(bits)) = check.read(scalar)
                {
                    shared_network(check, &format!("ipv6_prefix: {bits}"), bits, scalar.place);
                    clients.ipv6_prefix = bits;
                }
                let address_source = check.read_some(ip.from.as_ref()).unwrap_or_default();
                if let Some(scalar) = ip.from.as_ref().filter(|_| proxies.is_empty()) {
                    nobody_tells(check, scalar.place);
                }
                proxy_protocol = address_source == AddressSource::ProxyProtocol;
                clients.address_from = match address_source {
                    AddressSource::XForwardedFor => AddressFrom::XForwardedFor,
                    AddressSource::Forwarded => AddressFrom::Forwarded,
                    AddressSource::ProxyProtocol => AddressFrom::Connection,
                };
                clients.sources.push(ClientSource::Ip);
            }
            _ => {
                let message = "a client source is exactly one of its kinds";
                check.refuse(Problem::new(placed.place, message).note(
                    "allowed here: api_key, user_id, jwt, client_cert or ip, each behind a `-` of its own",
                ));
            }
        }
    }
    one_meaning(check, written, &clients);
    shared_headers(check, written.sources, &clients.sources);
    if clients.sources.is_empty() {
        clients.sources.push(ClientSource::Ip);
    }
    Callers {
        clients,
        claims: all_claims,
        proxy_protocol,
        reread,
    }
}

fn key_source(
    check: &mut Check<'_>,
    api_key: &ApiKey,
    place: Option<Place>,
    plans: &ClientPlans,
    seen: &mut SeenKeys,
    key_files: &mut Vec<KeyFile>,
) -> Option<ClientSource> {
    let header = match &api_key.header {
        Some(scalar) => check.read(scalar),
        None => Some(API_KEY_HEADER),
    };
    let unknown = check
        .read_some(api_key.unknown.as_ref())
        .unwrap_or_default();
    let listed = listed_keys(check, api_key.keys.iter().flatten(), plans, seen);
    let keys = ApiKeys::new(listed.clone());
    if let Some(scalar) = &api_key.keys_file {
        key_files.extend(key_file(check, scalar, listed, &keys, plans));
    } else if api_key.keys.is_none() && unknown != UnknownKey::Accept {
        let problem = Problem::new(place, "this source knows no key");
        check.refuse(problem.note("list some under `keys`, or name a `keys_file`"));
    }
    if unknown == UnknownKey::Accept {
        let at = api_key.unknown.as_ref().and_then(|scalar| scalar.place);
        check.warn(Problem::new(at, "keys that are not listed are not verified").note(
            "every invented key is a new client, so only limits per address bound it: the API itself must refuse such \
             keys, and known keys belong into the list",
        ));
    }
    Some(ClientSource::ApiKey {
        header: header?,
        keys,
        unknown,
    })
}

fn unreached_source(
    check: &mut Check<'_>,
    source: &Spanned<WrittenSource>,
    address: Option<Place>,
) {
    let problem = Problem::new(source.place, "this source is never used");
    let at = check.source.at(address);
    check.refuse(problem.note(format!("`ip`, at {at}, names every client: put it last")));
}

/// Reads a header that names a user or the client. The gateway removes or replaces this header, so headers with another purpose in HTTP are
/// refused.
fn naming_header(check: &mut Check<'_>, scalar: &Scalar<HeaderName>) -> Option<HeaderName> {
    let name = check.read(scalar)?;
    if RESERVED.contains(&name.as_str()) {
        let message = format!("`{}` has another purpose in HTTP", scalar.raw);
        let note = "allowed here: a header of your own, such as X-Client-Id";
        check.refuse(Problem::new(scalar.place, message).note(note));
    }
    Some(name)
}

/// Refuses a header with two meanings. The gateway removes headers that name a user or the client, so such a header cannot also hold a key
/// or a token.
fn one_meaning(check: &mut Check<'_>, written: WrittenClients<'_>, clients: &Clients) {
    let named: Vec<&HeaderName> = clients.vouched_headers().collect();
    let shown = clients.sources.iter().filter_map(|source| match source {
        ClientSource::ApiKey { header, .. } => Some(header),
        ClientSource::Token(tokens) => Some(tokens.header()),
        ClientSource::UserId { .. } | ClientSource::Certificate(_) | ClientSource::Ip => None,
    });
    for (index, name) in named.iter().enumerate() {
        if shown.clone().any(|shown| shown == *name) || named[..index].contains(name) {
            let scalar = written.forward_client;
            let scalar = scalar.filter(|_| clients.forward_client.as_ref() == Some(name));
            let first = written.sources.first();
            let place = scalar.map_or(first.and_then(|source| source.place), |scalar| scalar.place);
            let message = format!("the header {name} would mean two things");
            let note = "give each source, and forward_client, a header of its own";
            check.refuse(Problem::new(place, message).note(note));
        }
    }
}

/// The clients of a configuration, and the settings that depend on their sources.
pub(crate) struct Callers {
    pub(crate) clients: Clients,
    /// The claims of tokens that `per` of a limit may name, as `claim:NAME`.
    pub(crate) claims: Vec<Arc<str>>,
    pub(crate) proxy_protocol: bool,
    pub(crate) reread: WatchedKeys,
}

#[cfg(test)]
mod tests;

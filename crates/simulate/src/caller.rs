//! Identifies the caller of a logged request, and records which facts the log lacks to do so.

use std::net::{IpAddr, Ipv4Addr};

use http::Request;
use tidegate_config::Settings;
use tidegate_identity::{Caller, Client, ClientSource, Credentials};
use tidegate_logs::{Entry, Field};
use tidegate_tower::{Peer, Per, Rule};

use crate::lacks::{Facts, Lack};
use crate::request::Given;

/// The caller of a logged request. `client` and `address` are the facts that the log lacks to identify the caller.
pub(crate) struct Known {
    pub(crate) caller: Caller,
    pub(crate) trusted: bool,
    pub(crate) client: Option<Lack>,
    pub(crate) address: Option<Lack>,
}

/// Identifies the caller of the request in a log line. If the line lacks the client or its address, the result names the missing fact.
pub(crate) fn identify(
    settings: &Settings,
    facts: &Facts,
    entry: &Entry<'_>,
    given: &Given,
    request: &Request<()>,
) -> Known {
    let peer = entry.peer().or(given.peer);
    let address = entry.client_ip().or(peer);
    let clients = &settings.clients;
    let at = Peer::named((peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), 0).into());
    let trusted = clients.trusts(at);
    let no_address = || Lack::from("client address (--peer names one)");
    if facts.names_client {
        let unknown = |client: Lack| Known {
            caller: clients.identify(at, &http::HeaderMap::new()),
            trusted,
            client: Some(client),
            address: address.is_none().then(no_address),
        };
        let Some(name) = entry.client() else {
            return unknown("client in these lines".into());
        };
        let name = name.bytes();
        let name = String::from_utf8_lossy(&name);
        let origin = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let listed = entry.text(Field::Plan).map(|name| name.bytes());
        let listed = listed.and_then(|name| settings.plans.called(&String::from_utf8_lossy(&name)));
        let has_credentials = clients.sources.len() > 1;
        return match Caller::logged(clients, &name, origin, listed) {
            Ok(caller) => {
                let caller = match is_refused(entry) && has_credentials {
                    true => caller.with_refused(Credentials::ApiKey),
                    false => caller,
                };
                let is_address = matches!(caller.client, Client::Ip(_));
                Known {
                    caller,
                    trusted,
                    client: None,
                    address: (address.is_none() && !is_address).then(no_address),
                }
            }
            Err(error) => unknown(format!("client as this configuration knows it: {error}").into()),
        };
    }
    let caller = clients.identify(at, request.headers());
    let address = match peer {
        None => Some(no_address()),
        Some(_) if trusted && !facts.has_hops => {
            Some("client address behind a trusted proxy".into())
        }
        Some(_) => None,
    };
    let before = caller.named_by.unwrap_or(clients.sources.len());
    let sources = clients.sources.iter().zip(&facts.sources).take(before);
    let mut lacks = sources.filter_map(|(source, lack)| {
        // The gateway ignores user IDs from untrusted peers, so their requests do not need this header.
        let is_asked = trusted || peer.is_none() || !matches!(source, ClientSource::UserId { .. });
        lack.clone().filter(|_| is_asked)
    });
    let client = lacks.next().or_else(|| {
        let is_address = matches!(caller.client, Client::Ip(_));
        address.clone().filter(|_| is_address)
    });
    Known {
        caller,
        trusted,
        client,
        address,
    }
}

/// Returns the name of a client for reports.
pub(crate) fn shown(client: &Client) -> String {
    match client {
        // The unspecified address stands for an address that the log lacks. No client has it.
        Client::Ip(address) if address.is_unspecified() => "unknown".to_owned(),
        client => client.to_string(),
    }
}

/// Whether the gateway refused the credentials of the request when it was logged. If the log has neither outcomes nor statuses of
/// upstreams, the 401 is assumed to come from the upstream.
pub(crate) fn is_refused(entry: &Entry<'_>) -> bool {
    if entry.status() != Some(401) {
        return false;
    }
    let fields = entry.fields();
    match entry.text(Field::Outcome) {
        Some(outcome) => outcome.raw() == b"rejected",
        None if fields.has(Field::Outcome) => false,
        None => fields.has(Field::UpstreamStatus) && entry.upstream_status().is_none(),
    }
}

/// Whether the limit's `per` contains a kind of name that the log does not have. A client that the log names by its user ID, for example,
/// may also have an API key.
pub(crate) fn named_other(rule: &Rule, client: &Client) -> bool {
    rule.per.iter().any(|per| match per {
        // A client that the log names by its address has sent no valid API key.
        Per::ApiKey => matches!(client, Client::UserId(_) | Client::Certificate(_)),
        Per::UserId => matches!(
            client,
            Client::ApiKey(_) | Client::UnlistedKey(_) | Client::Certificate(_)
        ),
        Per::ClientCert => !matches!(client, Client::Certificate(_)),
        Per::Claim(_) => !matches!(client, Client::Ip(_)),
        _ => false,
    })
}

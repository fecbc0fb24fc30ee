//! Finds networks whose peers send a proxy header but are not trusted, or are trusted but send no addresses of clients. Describes the lines
//! that the configuration lacks.

use tidegate_identity::{AddressFrom, Clients};
use tidegate_server::{ProxyHeader, UntrustedProxy};
use tidegate_status::document;

use super::View;

/// Logs each network once, after the first connection that was counted for it.
pub(super) fn log(view: &View<'_>) {
    let news = view.metrics.connections().untrusted_proxies().news();
    for proxy in news.iter().filter(|it| is_wrong(it, view.clients)) {
        let (network, header) = (network(proxy), name(proxy.header));
        tracing::warn!(%network, header, "{}", text(proxy, view.clients));
    }
}

/// Returns the networks for whose proxies the configuration in force is still wrong.
pub(super) fn list(view: &View<'_>) -> Vec<document::UntrustedProxy> {
    let proxies = view.metrics.connections().untrusted_proxies().list();
    let wrong = proxies.iter().filter(|it| is_wrong(it, view.clients));
    wrong
        .map(|proxy| document::UntrustedProxy {
            network: network(proxy),
            address: proxy.address.to_string(),
            header: name(proxy.header).to_owned(),
            connections: proxy.connections,
            text: text(proxy, view.clients),
        })
        .collect()
}

/// Whether the configuration in force still does not fit this proxy. A reload may have corrected the configuration.
fn is_wrong(proxy: &UntrustedProxy, clients: &Clients) -> bool {
    let is_trusted = clients.trusted.contains(proxy.address);
    match proxy.header {
        ProxyHeader::XForwardedFor | ProxyHeader::Forwarded => !is_trusted,
        ProxyHeader::ProxyProtocol => !is_trusted || expected(clients) != proxy.header,
        ProxyHeader::Missing => is_trusted && expected(clients) != ProxyHeader::ProxyProtocol,
    }
}

/// Returns the header from which the gateway reads the addresses of clients.
const fn expected(clients: &Clients) -> ProxyHeader {
    match clients.address_from {
        AddressFrom::XForwardedFor => ProxyHeader::XForwardedFor,
        AddressFrom::Forwarded => ProxyHeader::Forwarded,
        AddressFrom::Connection => ProxyHeader::ProxyProtocol,
    }
}

const fn name(header: ProxyHeader) -> &'static str {
    match header {
        ProxyHeader::XForwardedFor => "X-Forwarded-For",
        ProxyHeader::Forwarded => "Forwarded",
        ProxyHeader::ProxyProtocol => "PROXY",
        ProxyHeader::Missing => "missing",
    }
}

fn network(proxy: &UntrustedProxy) -> String {
    format!("{}/{}", proxy.network, proxy.prefix())
}

/// Describes the proxy, and the missing lines in the proxy's or the gateway's configuration. Strangers may share a public network with the
/// proxy, so for a public network the lines contain only the proxy's address.
fn text(proxy: &UntrustedProxy, clients: &Clients) -> String {
    let (network, header) = (network(proxy), name(proxy.header));
    if proxy.header == ProxyHeader::Missing {
        let (address, header) = (proxy.address, name(expected(clients)));
        return format!(
            "{address} is in `trusted_proxies` and sends no {header}: a limit refused it, and all clients behind it count as one \
             address. If it is your load balancer, let it set {header}."
        );
    }
    let peers = match proxy.is_private() && !proxy.address.is_loopback() {
        true => network.clone(),
        false => proxy.address.to_string(),
    };
    let mut lines = Vec::new();
    let is_trusted = clients.trusted.contains(proxy.address);
    if !is_trusted {
        lines.push(match clients.trusted.is_empty() {
            true => format!("`trusted_proxies: [{peers}]`"),
            false => format!("{peers} in `trusted_proxies`"),
        });
    }
    if expected(clients) != proxy.header {
        let from = proxy.header.label();
        lines.push(format!("`ip: {{ from: {from} }}` in `clients`"));
    }
    let cause = match is_trusted {
        true => "but the header is not expected",
        false => "and is no trusted proxy",
    };
    let effect = match proxy.header {
        ProxyHeader::ProxyProtocol => "such connections are refused",
        _ => "the header is ignored, and all clients behind it count as one address",
    };
    format!(
        "{network} sends {header} {cause}: {effect}. If it is your load balancer, add to the configuration: {}. A client \
         can send such a header, too.",
        lines.join(" and ")
    )
}

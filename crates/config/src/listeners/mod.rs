//! The listeners of the gateway (`listen`).

pub(crate) mod tls;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::yaml::{BlockOr, Place, Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_net::tls::ServerTls;
use tidegate_tower::Per;

use crate::check::Check;
use crate::clients::WrittenClients;
use crate::clients::certificate::unverified;
use crate::limits::Rules;
use crate::listeners::tls::{ListenerTls, listener_tls};
use crate::shape::SingleOr;
use crate::value::Scalar;

/// The value of `listen`.
pub(crate) type Listen = SingleOr<SocketAddr, BlockOr<Listener, SingleOr<SocketAddr, Listener>>>;

/// A listener that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listener {
    /// The address of the listener.
    pub(crate) address: Scalar<SocketAddr>,
    /// TLS towards clients. Default: none.
    pub(crate) tls: Option<Spanned<ListenerTls>>,
}

/// One address to listen on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenerSettings {
    /// The address of the listener.
    pub address: SocketAddr,
    /// The certificates and TLS settings of the listener. `None` for plain HTTP.
    pub tls: Option<Arc<ServerTls>>,
}

pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const LISTEN: SocketAddr = SocketAddr::new(LOCALHOST, 8080);

/// An address that a listener or the admin port already uses, with its place in the file.
pub(crate) type TakenAddress = (SocketAddr, Option<Place>);

/// Reads the listeners. Returns the listeners, and the addresses that they use.
pub(crate) fn addresses(
    check: &mut Check<'_>,
    written: Option<&Listen>,
) -> (Vec<ListenerSettings>, Vec<TakenAddress>) {
    let mut taken = Vec::new();
    let mut listen = Vec::new();
    match written {
        None => {
            taken.push((LISTEN, None));
            listen.push(ListenerSettings {
                address: LISTEN,
                tls: None,
            });
        }
        Some(SingleOr::Single(scalar)) => listen.extend(plain(check, scalar, &mut taken)),
        Some(SingleOr::Block(block)) => match &block.value {
            BlockOr::Block(listener) => {
                listen.extend(listener_settings(check, listener, &mut taken))
            }
            BlockOr::List(list) => {
                if list.is_empty() {
                    let problem = Problem::new(block.place, "this list is empty");
                    check.refuse(problem.note(
                        "at least one address is needed; without `listen` it is 127.0.0.1:8080",
                    ));
                }
                for element in list {
                    listen.extend(listener(check, element, &mut taken));
                }
            }
        },
    }
    (listen, taken)
}

/// Reads one listener: an address, or an address with settings.
pub(crate) fn listener(
    check: &mut Check<'_>,
    written: &SingleOr<SocketAddr, Listener>,
    taken: &mut Vec<TakenAddress>,
) -> Option<ListenerSettings> {
    match written {
        SingleOr::Single(scalar) => plain(check, scalar, taken),
        SingleOr::Block(block) => listener_settings(check, &block.value, taken),
    }
}

fn plain(
    check: &mut Check<'_>,
    scalar: &Scalar<SocketAddr>,
    taken: &mut Vec<TakenAddress>,
) -> Option<ListenerSettings> {
    let address = take(check, taken, scalar)?;
    if address.port() == 443 {
        let problem = Problem::new(scalar.place, "port 443 without `tls`");
        check.warn(problem.note(
            "clients that speak TLS cannot connect: give the listener `tls: { cert: FILE, key: FILE }`, or another port",
        ));
    }
    Some(ListenerSettings { address, tls: None })
}

fn listener_settings(
    check: &mut Check<'_>,
    listener: &Listener,
    taken: &mut Vec<TakenAddress>,
) -> Option<ListenerSettings> {
    let Some(written) = &listener.tls else {
        return plain(check, &listener.address, taken);
    };
    let address = take(check, taken, &listener.address);
    let tls = Some(Arc::new(listener_tls(check, written)?));
    Some(ListenerSettings {
        address: address?,
        tls,
    })
}

/// Returns whether two addresses need the same socket. Port 0 is any free port, so it never conflicts.
///
/// An IPv4 address never conflicts with an IPv6 address, because the system or systemd can be set to exclude IPv4 from a socket for `[::]`.
pub(crate) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_same = one.ip() == other.ip() || is_any(one) || is_any(other);
    one.is_ipv4() == other.is_ipv4() && one.port() != 0 && one.port() == other.port() && is_same
}

/// Reads an address, and adds it to the `taken` addresses. Refuses an address that conflicts with a `taken` address.
pub(crate) fn take(
    check: &mut Check<'_>,
    taken: &mut Vec<TakenAddress>,
    scalar: &Scalar<SocketAddr>,
) -> Option<SocketAddr> {
    let address = check.read(scalar)?;
    let same = |(other, _): &&TakenAddress| overlap(*other, address);
    if let Some((other, first)) = taken.iter().find(same) {
        let message = match *other == address {
            true => "this address is used twice".to_owned(),
            false => format!("this address and {other} have the same port"),
        };
        let problem = Problem::new(scalar.place, message);
        check.refuse(match first {
            Some(_) => problem.first_at(check.source, *first),
            None => problem.note("it is what `listen` is by default"),
        });
    }
    taken.push((address, scalar.place));
    Some(address)
}

/// Warns of plain listeners on all addresses if `trusted_proxies` is not set, because such listeners are usually behind an ingress or a
/// load balancer. `trusted_proxies: []` declares that there is no proxy.
pub(crate) fn untrusted_proxy(
    check: &mut Check<'_>,
    written: Option<&Listen>,
    clients: WrittenClients<'_>,
    listen: &[ListenerSettings],
    rules: &Rules,
) {
    let is_plain = |listener: &ListenerSettings| listener.tls.is_none() && is_any(listener.address);
    let counts_addresses = rules.values().flatten().any(|rule| {
        let is_address = |per: &Per| matches!(per, Per::Client | Per::Ip | Per::Network(_));
        rule.per.iter().any(is_address)
    });
    if clients.trusted_proxies.is_none() && counts_addresses && listen.iter().any(is_plain) {
        let problem = Problem::new(
            written.and_then(SingleOr::place),
            "`trusted_proxies` is not set",
        );
        check.warn(problem.note(
            "behind a load balancer or an ingress, all clients would count as one address: list its networks under \
             `trusted_proxies`. If clients connect directly, write `trusted_proxies: []`",
        ));
    }
}

/// Warns of client sources that read certificates, if no listener requests certificates of clients.
pub(crate) fn unasked_certificates(
    check: &mut Check<'_>,
    clients: WrittenClients<'_>,
    listen: &[ListenerSettings],
) {
    let mut files = listen
        .iter()
        .filter_map(|listener| Some(listener.tls.as_ref()?.files()));
    if !files.any(|files| files.clients.is_some()) {
        unverified(check, clients);
    }
}

pub(crate) fn is_any(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_unspecified()
}

//! Refuses servers whose address belongs to this gateway itself. With the address of a listener, the gateway would forward requests to
//! itself. The admin port must not be reachable through a route.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::yaml::{Place, Problem};
use tidegate_upstream::ServerSettings;

use crate::check::Check;

/// An address of this gateway.
pub(crate) struct OwnAddress {
    address: SocketAddr,
    place: Option<Place>,
    is_admin: bool,
}

/// Returns all addresses of this gateway: the `taken` addresses, and the address of the admin port. If the admin port has its default
/// address, `taken` lacks it.
pub(crate) fn own_addresses(
    taken: Vec<(SocketAddr, Option<Place>)>,
    admin: Option<SocketAddr>,
) -> Vec<OwnAddress> {
    let by_default = admin.filter(|admin| !taken.iter().any(|(address, _)| address == admin));
    let all = taken
        .into_iter()
        .chain(by_default.map(|address| (address, None)));
    all.map(|(address, place)| OwnAddress {
        address,
        place,
        is_admin: Some(address) == admin,
    })
    .collect()
}

/// Refuses a server whose address belongs to this gateway.
pub(crate) fn elsewhere(
    check: &mut Check<'_>,
    server: &ServerSettings,
    place: Option<Place>,
    own: &[OwnAddress],
) {
    let (host, port) = server.endpoint();
    let hosts = match host.parse() {
        Ok(address) => vec![address],
        Err(_) if host.eq_ignore_ascii_case("localhost") => {
            vec![
                IpAddr::from(Ipv4Addr::LOCALHOST),
                Ipv6Addr::LOCALHOST.into(),
            ]
        }
        Err(_) => return,
    };
    let Some(own) = own.iter().find(|own| {
        hosts
            .iter()
            .any(|host| leads(SocketAddr::new(*host, port), own.address))
    }) else {
        return;
    };
    let at = match own.place {
        Some(_) => check.source.at(own.place),
        None => "by default".to_owned(),
    };
    let (what, note) = match own.is_admin {
        false => (
            "own listener",
            "requests would come back to it again and again",
        ),
        true => (
            "admin port",
            "clients that reach the route could read and reset the budgets of all clients",
        ),
    };
    let message = format!("the upstream {host}:{port} is this gateway's {what} ({at})");
    check
        .refuse(Problem::new(place, message).note(format!("{note}: write the address of the API")));
}

/// Whether a connection to `server` reaches `own`, an address of this gateway. If `own` is 0.0.0.0 or ::, recognises only loopback
/// addresses as this machine.
fn leads(server: SocketAddr, own: SocketAddr) -> bool {
    let (to, at) = (server.ip(), own.ip());
    let is_here = to == at
        || (at.is_unspecified() && to.is_loopback())
        || (to.is_unspecified() && at.is_loopback());
    own.port() != 0 && server.port() == own.port() && server.is_ipv4() == own.is_ipv4() && is_here
}

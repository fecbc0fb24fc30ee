//! `trusted_proxies`: the networks of proxies whose headers name addresses and users.

use crate::yaml::{Place, Problem};
use ipnet::IpNet;

use crate::check::Check;
use crate::value::Scalar;
use crate::value::net::Network;

/// Networks with at most this prefix length, in bits, count as a large part of all addresses. In IPv6, 2000::/3 contains all public
/// addresses.
pub(crate) const LARGE: u8 = 3;

/// Reads the networks of trusted proxies. Warns of networks that probably contain clients.
pub(crate) fn trusted_networks(check: &mut Check<'_>, proxies: &[Scalar<Network>]) -> Vec<IpNet> {
    let mut networks = Vec::new();
    for scalar in proxies {
        let Some(Network(network)) = check.read(scalar) else {
            continue;
        };
        match network.prefix_len() {
            0 => clients_in(check, "every address", scalar.place),
            1..=LARGE => clients_in(check, "a large part of all addresses", scalar.place),
            _ if is_nobodys(&network) => no_address(check, scalar.place),
            _ => {}
        }
        networks.push(network);
    }
    networks
}

fn clients_in(check: &mut Check<'_>, part: &str, place: Option<Place>) {
    check.warn(Problem::new(place, format!("this trusts {part}")).note(
        "every client there can choose its own address and user ID: list the networks of your proxies only",
    ));
}

/// Whether a network is the single address 0.0.0.0 or ::, from which no connection comes.
pub(crate) fn is_nobodys(network: &IpNet) -> bool {
    network.prefix_len() == network.max_prefix_len() && network.addr().is_unspecified()
}

/// Warns of the single address 0.0.0.0 or ::, which stands for all addresses in other programs.
pub(crate) fn no_address(check: &mut Check<'_>, place: Option<Place>) {
    let problem = Problem::new(place, "no connection comes from this address");
    check.warn(problem.note("all addresses are 0.0.0.0/0 and ::/0"));
}

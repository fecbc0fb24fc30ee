//! Finds the client's address for requests that proxies forwarded.

mod forwarded;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The first 96 bits of the IPv6 addresses into which a NAT64 gateway translates IPv4 addresses (RFC 6052, 2.1).
const NAT64: [u8; 12] = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];

/// The most hops that the gateway reads from the headers of a request. No request passes 100 proxies.
const MAX_HOPS: usize = 100;

/// The part of a request that contains the client's address, if a trusted proxy sent the request. The address of any other request is the
/// peer's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressFrom {
    /// `X-Forwarded-For`: one address per hop.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239): its `for` parameters.
    Forwarded,
    /// The address of the connection, or the address in the connection's PROXY protocol header. No HTTP header is read.
    Connection,
}

/// The peers whose headers may name a client's address and user ID.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<Network>);

/// A network, stored as its first address and its mask. With `IpNet`, each comparison would compute the network's first and last address.
#[derive(Clone, Copy, Debug)]
enum Network {
    V4 { start: u32, mask: u32 },
    V6 { start: u128, mask: u128 },
}

impl From<IpNet> for Network {
    fn from(network: IpNet) -> Self {
        match network {
            IpNet::V4(network) => Self::V4 {
                start: network.network().into(),
                mask: network.netmask().into(),
            },
            IpNet::V6(network) => Self::V6 {
                start: network.network().into(),
                mask: network.netmask().into(),
            },
        }
    }
}

impl Network {
    /// Whether an address is in the network.
    fn contains(&self, address: IpAddr) -> bool {
        match (*self, address) {
            (Self::V4 { start, mask }, IpAddr::V4(address)) => u32::from(address) & mask == start,
            (Self::V6 { start, mask }, IpAddr::V6(address)) => u128::from(address) & mask == start,
            _ => false,
        }
    }

    /// Whether the network contains all addresses of IPv4, or all of IPv6.
    const fn has_all(&self) -> bool {
        matches!(self, Self::V4 { mask: 0, .. } | Self::V6 { mask: 0, .. })
    }
}

impl TrustedProxies {
    /// Makes a value that trusts all addresses of these networks.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks.into_iter().map(Network::from).collect())
    }

    /// Whether no network is trusted.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address is trusted.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }

    /// Whether every address of IPv4 or IPv6 is trusted.
    pub fn trust_everyone(&self) -> bool {
        self.0.iter().any(Network::has_all)
    }

    /// Returns the client's address. If the peer is not trusted, returns the peer's address. Otherwise returns the right-most hop that is
    /// not a trusted proxy, so clients cannot choose their address. If a hop is not a valid address, returns the hop to its right, or the
    /// peer's address if the invalid hop is the right-most one.
    pub fn origin(&self, peer: IpAddr, headers: &HeaderMap, from: AddressFrom) -> IpAddr {
        if !self.contains(peer) {
            return peer;
        }
        match from {
            AddressFrom::XForwardedFor => {
                let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
                let hops = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
                self.walk(peer, hops.map(parse))
            }
            AddressFrom::Forwarded => {
                let lines = headers.get_all(FORWARDED).iter().rev();
                let hops = lines.flat_map(|line| forwarded::hops(line.as_bytes()));
                self.walk(peer, hops)
            }
            AddressFrom::Connection => peer,
        }
    }

    /// Follows the hops from the peer towards the client while hops are valid and trusted. Returns the last valid hop. Reads at most
    /// [`MAX_HOPS`] hops.
    fn walk(&self, peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut origin = peer;
        for hop in hops.take(MAX_HOPS) {
            let Some(address) = hop else {
                break;
            };
            origin = address;
            if !self.contains(address) {
                break;
            }
        }
        origin
    }
}

/// Returns the network that counts as one address: for IPv4 the whole address, for IPv6 the first `ipv6_prefix` bits. An IPv6 address that
/// stands for an IPv4 address (mapped, or translated by NAT64) counts as IPv4.
pub(crate) fn network(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if address.octets()[..12] == NAT64 => {
            let [.., a, b, c, d] = address.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        address => cut(address, ipv6_prefix),
    }
}

/// Sets all bits of an IPv6 address after the first `ipv6_prefix` bits to 0. Returns an IPv4 address unchanged. The address must be a
/// result of [`network`]. Does not check for NAT64 again, because a cut IPv6 address may look like an address of NAT64.
pub fn cut(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match address {
        IpAddr::V6(address) => {
            let host_bits = 128 - u32::from(ipv6_prefix.min(128));
            let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V4(_) => address,
    }
}

/// Parses an address as proxies write it, perhaps with brackets, a port or a zone.
fn parse(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?.trim();
    if let Ok(address) = hop.parse() {
        return Some(address);
    }
    if let Some(rest) = hop.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let port = port.strip_prefix(':').or(port.is_empty().then_some("0"))?;
        port.parse::<u16>().ok()?;
        return without_zone(address).parse().ok().map(IpAddr::V6);
    }
    let v4 = hop
        .parse()
        .ok()
        .map(|address: SocketAddrV4| IpAddr::V4(*address.ip()));
    v4.or_else(|| without_zone(hop).parse().ok().map(IpAddr::V6))
}

/// Removes the zone of an address, such as `%eth0`. A zone names a network interface of the proxy, and does not identify a client.
fn without_zone(address: &str) -> &str {
    address
        .split_once('%')
        .map_or(address, |(address, _)| address)
}

#[cfg(test)]
mod tests;

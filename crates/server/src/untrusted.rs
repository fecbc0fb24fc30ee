//! Detects mistakes in the configuration of proxies: untrusted peers that send headers of proxies, and trusted proxies that send no header.
//! The gateway reports these peers to the operator, grouped by network.
//!
//! Ordinary clients can send headers of proxies, too, so the number of networks is bounded. Public and private networks have separate
//! bounds: most clients are in public networks, and must not displace proxies, most of which are in private networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;

/// The largest number of private networks in the list.
const MOST_PRIVATE: usize = 32;
/// The largest number of public networks in the list.
const MOST_PUBLIC: usize = 16;
/// The time after which a network without a further report makes room for another network.
const QUIET: Duration = Duration::from_secs(3_600);

/// A header by which proxies name the clients behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// `X-Forwarded-For`.
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// The PROXY protocol, before the first request.
    ProxyProtocol,
    /// No header: a trusted proxy named no client, and a limit refused the request.
    Missing,
}

impl ProxyHeader {
    /// All headers, in the order of their declaration.
    pub const ALL: [Self; 4] = [
        Self::XForwardedFor,
        Self::Forwarded,
        Self::ProxyProtocol,
        Self::Missing,
    ];

    /// Returns the header's name in metrics, and in `from` of the configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x_forwarded_for",
            Self::Forwarded => "forwarded",
            Self::ProxyProtocol => "proxy_protocol",
            Self::Missing => "missing",
        }
    }
}

/// A network from which proxies seem to connect.
#[derive(Clone, Copy, Debug)]
pub struct UntrustedProxy {
    /// The first address of the network.
    pub network: IpAddr,
    /// The peer's address on the last reported connection.
    pub address: IpAddr,
    /// The header on the last reported connection.
    pub header: ProxyHeader,
    /// The number of connections that were reported for this network.
    pub connections: u64,
    last: Instant,
    is_new: bool,
}

impl UntrustedProxy {
    /// Returns the length of the network's prefix, in bits.
    pub const fn prefix(&self) -> u8 {
        match self.network {
            IpAddr::V4(_) => 24,
            IpAddr::V6(_) => 64,
        }
    }

    /// Whether the network is a private one.
    pub fn is_private(&self) -> bool {
        is_private(self.network)
    }
}

/// The networks from which untrusted proxies seem to connect.
#[derive(Debug, Default)]
pub struct UntrustedProxies {
    // In the order of `ProxyHeader::ALL`.
    connections: [Counter; ProxyHeader::ALL.len()],
    networks: Mutex<Vec<UntrustedProxy>>,
}

impl UntrustedProxies {
    /// Returns an empty list. `connections` holds the counters in the order of [`ProxyHeader::ALL`].
    pub fn new(connections: [Counter; ProxyHeader::ALL.len()]) -> Self {
        Self {
            connections,
            networks: Mutex::default(),
        }
    }

    /// Counts a connection of a peer. `header` is the header that it sent, or [`ProxyHeader::Missing`].
    pub fn add(&self, peer: IpAddr, header: ProxyHeader) {
        self.add_at(peer, header, Instant::now());
    }

    fn add_at(&self, peer: IpAddr, header: ProxyHeader, now: Instant) {
        self.connections[header as usize].inc();
        let address = peer.to_canonical();
        let network = network(address);
        let mut networks = self.networks.lock();
        if let Some(entry) = networks.iter_mut().find(|it| it.network == network) {
            entry.connections += 1;
            (entry.address, entry.header, entry.last) = (address, header, now);
            return;
        }
        let is_private = is_private(network);
        let most = match is_private {
            true => MOST_PRIVATE,
            false => MOST_PUBLIC,
        };
        let is_rival = |it: &UntrustedProxy| it.is_private() == is_private;
        if networks.iter().filter(|it| is_rival(it)).count() >= most {
            networks.retain(|it| !is_rival(it) || now - it.last < QUIET);
        }
        if networks.iter().filter(|it| is_rival(it)).count() < most {
            networks.push(UntrustedProxy {
                network,
                address,
                header,
                connections: 1,
                last: now,
                is_new: true,
            });
        }
    }

    /// Returns the networks, private ones first.
    pub fn list(&self) -> Vec<UntrustedProxy> {
        let mut networks = self.networks.lock().clone();
        networks.sort_by_key(|it| (!it.is_private(), it.network));
        networks
    }

    /// Returns the networks that were added since the last call.
    pub fn news(&self) -> Vec<UntrustedProxy> {
        let mut networks = self.networks.lock();
        let mut news = Vec::new();
        for it in networks.iter_mut().filter(|it| it.is_new) {
            it.is_new = false;
            news.push(*it);
        }
        news
    }
}

/// Returns the network of an address: /24 of IPv4, /64 of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & !0xff).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// Whether an address belongs to a network that is not reachable from the internet. Shared addresses (RFC 6598) count as private, because
/// clouds use them internally.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let is_shared = address.to_bits() >> 22 == 0x6440_0000 >> 22;
            address.is_private() || address.is_loopback() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => {
            address.is_unique_local() || address.is_loopback() || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: ProxyHeader = ProxyHeader::XForwardedFor;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_is_new_once() {
        let proxies = UntrustedProxies::default();
        for address in ["10.0.3.7", "::ffff:10.0.3.8", "fd00:1::1", "fd00:1::2"] {
            proxies.add(ip(address), HEADER);
        }
        let shown = |it: &UntrustedProxy| (it.network, it.prefix(), it.address, it.connections);
        let expected = [
            (ip("10.0.3.0"), 24, ip("10.0.3.8"), 2),
            (ip("fd00:1::"), 64, ip("fd00:1::2"), 2),
        ];
        let news: Vec<_> = proxies.news().iter().map(shown).collect();
        assert_eq!(news, expected);
        proxies.add(ip("10.0.3.9"), ProxyHeader::Forwarded);
        assert!(proxies.news().is_empty());
        let listed: Vec<_> = proxies.list().iter().map(shown).collect();
        assert_eq!(listed[0], (ip("10.0.3.0"), 24, ip("10.0.3.9"), 3));
        assert_eq!(proxies.connections[HEADER as usize].get(), 4);
    }

    #[test]
    fn clients_take_no_place_of_a_private_network_and_no_more_than_there_are() {
        let proxies = UntrustedProxies::default();
        let start = Instant::now();
        for n in 0..1_000_u32 {
            let public = Ipv4Addr::from_bits((203 << 24) + (n << 8));
            proxies.add_at(public.into(), HEADER, start);
        }
        assert_eq!(proxies.list().len(), MOST_PUBLIC);
        for n in 0..1_000_u32 {
            let private = Ipv4Addr::from_bits((10 << 24) + (n << 8));
            proxies.add_at(private.into(), HEADER, start);
        }
        assert_eq!(proxies.list().len(), MOST_PUBLIC + MOST_PRIVATE);
        assert!(proxies.list()[0].is_private());
        // After an hour without a connection, a network makes room.
        proxies.add_at(ip("192.168.1.1"), HEADER, start + QUIET);
        let private = proxies.list();
        let private = private.iter().filter(|it| it.is_private());
        let private: Vec<_> = private.map(|it| it.network).collect();
        assert_eq!(private, [ip("192.168.1.0")]);
    }

    #[test]
    fn private_addresses_are_those_of_no_internet() {
        for address in [
            "10.1.1.1",
            "100.64.0.1",
            "169.254.1.1",
            "127.0.0.1",
            "fe80::1",
        ] {
            assert!(is_private(ip(address)), "{address}");
        }
        for address in ["100.128.0.1", "100.63.0.1", "203.0.113.7", "2001:db8::1"] {
            assert!(!is_private(ip(address)), "{address}");
        }
    }
}

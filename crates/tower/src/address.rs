//! Where a request really came from, when proxies stand in front.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The peers whose X-Forwarded-For and user header are believed.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Trusts these networks.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether an address is trusted.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The address that the request came from: the peer's, or, when the peer is trusted, the right-most hop of
    /// X-Forwarded-For that is not. An entry that is no address ends the walk at the last good hop, so that a caller
    /// never chooses who they are.
    pub fn origin(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut origin = peer;
        if !self.contains(peer) {
            return origin;
        }
        let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
        let hops = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
        for hop in hops {
            let Some(address) = parse(hop) else {
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

/// An entry of X-Forwarded-For: an address, in brackets or with a port if need be.
fn parse(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?.trim();
    let bare = || hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || hop.parse().ok().map(|address: SocketAddr| address.ip());
    hop.parse().ok().or_else(bare).or_else(with_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(peer: &str, lines: &[&str]) -> String {
        let trusted = TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap()]);
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(X_FORWARDED_FOR, line.parse().unwrap());
        }
        trusted.origin(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn a_stranger_is_their_peer_address_whatever_they_say() {
        assert_eq!(origin("192.0.2.1", &["198.51.100.9"]), "192.0.2.1");
    }

    #[test]
    fn a_trusted_peer_is_believed_up_to_the_right_most_stranger() {
        assert_eq!(origin("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(
            origin("10.0.0.1", &["6.6.6.6, 192.0.2.1, 10.0.0.2"]),
            "192.0.2.1"
        );
        assert_eq!(origin("10.0.0.1", &["6.6.6.6", "192.0.2.1"]), "192.0.2.1");
        assert_eq!(origin("::ffff:10.0.0.1", &["192.0.2.1"]), "192.0.2.1");
    }

    #[test]
    fn a_bad_entry_falls_back_to_the_last_good_hop() {
        assert_eq!(
            origin("10.0.0.1", &["192.0.2.1, unknown, 10.0.0.2"]),
            "10.0.0.2"
        );
        assert_eq!(origin("10.0.0.1", &["192.0.2.1,"]), "10.0.0.1");
    }

    #[test]
    fn entries_may_carry_brackets_and_ports() {
        assert_eq!(origin("10.0.0.1", &["192.0.2.1:4711"]), "192.0.2.1");
        assert_eq!(origin("10.0.0.1", &["[2001:db8::1]:4711"]), "2001:db8::1");
        assert_eq!(origin("10.0.0.1", &["[2001:db8::1]"]), "2001:db8::1");
    }
}
